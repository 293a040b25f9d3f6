// A look inside a transformer while it reads: rank of its tokens, attention weights, gradients, and what its
// formulas have learned, layer by layer and head by head.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "saccade/base/json.h"
#include "saccade/diagnose/gradients.h"
#include "saccade/diagnose/rank.h"
#include "saccade/diagnose/weights.h"
#include "saccade/models/transformer.h"

namespace saccade {

struct DiagnoseOptions {
  bool ranks = true, weights = true, gradients = true;
  int64_t fewest_keys = 2;   // rows of attention with fewer tokens so far are not measured
  int64_t most_values = 64;  // a learned parameter with more is shown by its norm alone
  int64_t distances = 64;    // how far the view without content looks; 0: no such view
};

struct LearnedParameter {
  std::string name;
  std::vector<int64_t> shape;
  bool by_head = false;        // one value per head
  std::vector<double> values;  // empty for a large one
  double norm;
};

struct LayerDiagnosis {
  std::string formula;
  std::optional<WeightMeasures> weights;
  std::vector<LearnedParameter> parameters;
  // The weights of the last of some tokens without content (queries, keys and layer input are 0), by head and
  // by distance from 0 on: what the formula prefers by position alone. Empty where that is nothing, or where
  // the formula needs inputs.
  std::vector<std::vector<double>> by_distance;
};

struct Diagnosis {
  int64_t batch = 0, tokens = 0;
  struct Place {
    std::string after;  // "embedding", "block 0", ..., "last norm"
    RankMeasures rank;
  };
  std::vector<Place> ranks;
  std::vector<LayerDiagnosis> layers;
  std::optional<Gradients> gradients;  // none for one token, or a model without a head for tokens
};

// `ids` is [batch, tokens]. The model is left as it was: weights, gradients, path and mode. Throws Error for
// ids that it cannot read.
Diagnosis diagnose(Transformer model, const at::Tensor& ids, const DiagnoseOptions& options = {});

// What is not defined is null.
Json to_json(const Diagnosis& diagnosis);

}  // namespace saccade
