// What it would cost to set a head's selector to keep less: an estimate of the divergence, head by head and
// setting by setting, from gradients of the dense model. For a head whose output changes by c at a token, and
// gradients g of the logarithms of labels drawn from the model itself, the divergence is about half the mean
// of (g . c)^2 (the Fisher information).
#pragma once

#include "saccade/distill/layer_stream.h"
#include "saccade/sparse/sparse_model.h"

namespace saccade {

struct Sensitivity {
  std::vector<double> settings;  // as the selectors give them
  at::Tensor cost;               // [settings, ranges, layers, heads]: divergence per token of the range
  at::Tensor density;            // the same shape: kept pairs over visible ones

  // Averages over texts are added up; this divides by how many texts reached each range.
  std::vector<double> texts_by_range;
};

struct SensitivityOptions {
  int64_t draws = 3;  // labels drawn per token
  uint64_t seed = 1;
  std::function<void(int64_t done, int64_t total)> on_progress;
};

// The selectors' settings are changed on the way.
Sensitivity measure_sensitivity(Transformer model, const Selectors& selectors,
                                std::span<const TokenIds> texts, const SensitivityOptions& options);

}  // namespace saccade
