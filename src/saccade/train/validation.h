// How good a model is on sequences that it was not trained on.
#pragma once

#include "saccade/base/json.h"
#include "saccade/data/dataset.h"
#include "saccade/models/transformer.h"
#include "saccade/train/team.h"

namespace saccade {

struct Validation {
  double nll = 0;  // sum over tokens
  int64_t tokens = 0, correct = 0, answers = 0, answered = 0;

  double loss() const { return nll / static_cast<double>(tokens); }
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(tokens); }
  // Of what can be known for certain; NaN when the data do not say.
  double answer_accuracy() const { return static_cast<double>(answered) / static_cast<double>(answers); }
};

Json to_json(const Validation& validation);

struct ValidationOptions {
  int64_t sequences = 64, batch = 16;
  bool separate_documents = true;
};

// Without gradients and without dropout; the sequences are shared out over the team. All processes get the
// whole.
Validation validate(const Transformer& model, const Dataset& data, const ValidationOptions& options,
                    Team& team);

}  // namespace saccade
