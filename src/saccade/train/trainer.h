// The training of one model by a recipe, from its first step or from where it was left, with everything about
// it in one folder.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "saccade/data/source.h"
#include "saccade/models/transformer.h"
#include "saccade/train/recipe.h"
#include "saccade/train/team.h"
#include "saccade/train/validation.h"

namespace saccade {

// After each step.
struct TrainingStep {
  int64_t step = 0, steps = 0;  // that are done, and that there will be
  double loss = 0, rate = 0, gradient_norm = 0;
  double tokens_per_second = 0;
  std::optional<Validation> validation;  // if there was one
};

struct TrainingOptions {
  std::filesystem::path directory;
  bool resume = false;     // go on from the newest checkpoint there
  bool overwrite = false;  // a run that is there goes, once this one is ready to start
  // The model, at its starting weights, before the first step; for whoever wants to change them.
  std::function<void(const Transformer&)> on_start;
  std::function<void(const TrainingStep&)> on_step;
  std::function<void(const std::string&)> on_message;
  std::function<bool()> interrupted;  // asked after each step; true: save and leave
};

enum class TrainingEnd { finished, early, interrupted, not_finite };
std::string_view name_of(TrainingEnd end);

struct TrainingResult {
  std::filesystem::path directory;
  TrainingEnd end = TrainingEnd::finished;
  std::string problem;  // of a training that became not finite: where it was first seen
  int64_t step = 0, parameters = 0, formula_parameters = 0;
  double loss = 0;        // mean over the last tenth of the steps of this call
  Validation validation;  // the last one
  double best_loss = 0;
  int64_t best_step = -1;
  double seconds = 0, tokens_per_second = 0;
  int64_t peak_bytes = 0;

  Transformer model{nullptr};  // with the weights that were validated: the average, if there is one
  std::optional<Data> data;
};

Json to_json(const TrainingResult& result);

// All processes of the team call it with the same recipe. Throws Error for data or a folder that cannot be
// used.
TrainingResult train(const Recipe& recipe, const TrainingOptions& options, Team& team);

// The tokenizer that a recipe names, if it is one that exists already: of a file, a folder or a fetched
// model.
std::optional<Tokenizer> existing_tokenizer(const DataOptions& options);
// What a recipe's model reads: text for one that goes on, pairs for one that translates.
Data open_recipe_data(const Recipe& recipe, std::optional<Tokenizer> tokenizer);

}  // namespace saccade
