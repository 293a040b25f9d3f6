// What the weights of an attention look like, head by head: how sharp, how far back, how negative.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace saccade {

// Bins of |weight|: below 1e-6, then two per power of ten, and above 1.
std::vector<double> histogram_edges();

// Of one head. A row is a query; its shares are |weight| divided by the row's sum of |weight|, which for
// weights without signs are the weights themselves. NaN: there was no row to measure.
struct HeadWeights {
  double entropy;        // of the shares, in nats, mean over rows
  double entropy_share;  // the same divided by the entropy of equal shares for all keys up to the query
  double peak;           // largest share, mean over rows
  double distance;       // |i - j|, weighted by shares, mean over rows
  double first_token;    // share of the first key, mean over rows
  double negative_mass;  // sum of |negative weights| / sum of |weights|, over all rows
  double row_sum, lowest_row_sum, highest_row_sum;
  double empty_rows;              // share of rows without any weight
  double zeros;                   // share of exact zeros: masked pairs, and weights too small for a number
  std::vector<int64_t> positive;  // how many weights in each bin
  std::vector<int64_t> negative;
};

struct WeightMeasures {
  int64_t rows = 0;     // that were measured, in each head
  bool causal = false;  // no weight lies after its query
  std::vector<HeadWeights> heads;
};

// `weights` is [batch, heads, tokens, tokens]. Rows of fewer than `fewest_keys` tokens so far are left out:
// they have nothing to choose from.
WeightMeasures measure_weights(const at::Tensor& weights, int64_t fewest_keys);

}  // namespace saccade
