// Attention by random features (FAVOR+): exp(q . k) is the mean over random directions w of phi(q) * phi(k),
// with phi(x) = exp(w . x - |x|^2 / 2) > 0. A sum over keys then passes through a table [features, d_v] that
// does not grow with them, and the pairs are never formed: time and memory are linear in the number of
// tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include "saccade/base/random.h"

namespace saccade {

// Directions [count, width] in double. Each by itself is a normal vector, but within every block of `width`
// they are orthogonal, which lowers the variance of the mean.
at::Tensor draw_directions(RandomStream& stream, int64_t count, int64_t width);

// All that later queries need of the keys so far. Per key head, the sum over keys j of phi(k_j) * [v_j, 1],
// divided by exp(maximum).
struct FeatureSums {
  at::Tensor sums;     // [sets, features, d_v + 1]; undefined: no key yet
  at::Tensor maximum;  // [sets], the largest logarithm of a feature of any key
};

// A set is one key head of one sequence, with the query heads that share it. Float or double throughout.
struct FeatureCall {
  at::Tensor query;       // [sets, query heads, queries, d]
  at::Tensor key;         // [sets, keys, d]
  at::Tensor value;       // [sets, keys, d_v]
  at::Tensor directions;  // [features, d], not differentiated
  double scale = 1;       // of the dot products
  at::Tensor hidden;      // [sets, keys], true for keys that nobody sees; undefined: none
  int64_t prefix = 0;     // every query sees so many first keys; query i sees key prefix + j for j <= i too
  int64_t chunk = 128;    // tokens that are handled at once; it changes the speed and the rounding alone
  FeatureSums before;     // of earlier keys that every query sees; not differentiated
};

struct FeatureResult {
  at::Tensor output;  // [sets, query heads, queries, d_v]; 0 for a query without key
  at::Tensor
      log_sum;  // [sets, query heads, queries]: log sum of the estimates of exp(scale * q . k); -inf for none
  FeatureSums after;  // with all keys that the last query sees
};

// Differentiable once by query, key and value. What a query gets does not depend on later keys in any bit.
FeatureResult random_feature_attention(const FeatureCall& call);

// The weights of the same attention as a map [sets, query heads, queries, keys]: for looking at, not for
// long sequences. It knows no earlier sums.
at::Tensor random_feature_weights(const FeatureCall& call);

}  // namespace saccade
