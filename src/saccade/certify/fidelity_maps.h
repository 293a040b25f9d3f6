// How far the attention weights of two models are apart while both read the same text, layer by layer.
#pragma once

#include <span>
#include <vector>

#include "saccade/evaluate/questions.h"
#include "saccade/models/transformer.h"

namespace saccade {

struct LayerMaps {
  double mse = 0;             // mean over heads and allowed pairs of the squared difference
  double relative = 0;        // the same divided by the mean square of the baseline's weights
  std::vector<double> heads;  // the mse of each head
};

struct MapFidelity {
  int64_t windows = 0, longest = 0;  // longest: tokens of the longest window
  std::vector<LayerMaps> layers;

  double mse() const;  // mean over the layers
  double relative() const;
};

// Each model reads on its own hidden states, so a layer's difference includes what the layers before it
// changed. The sum goes over all pairs, also those that only the candidate looks at, and is divided by the
// number of pairs that the baseline's mask allows. Both models must have the same layers and heads.
MapFidelity compare_maps(Transformer baseline, Transformer candidate,
                         std::span<const std::vector<int32_t>> windows, const OnProgress& on_progress = {});

}  // namespace saccade
