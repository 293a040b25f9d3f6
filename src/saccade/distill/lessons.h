// What a scorer learns from: for groups of queries of a text, what attention really gave each key, and what
// the always-kept keys weigh. Computed a few rows at a time; no n x n map is ever held.
#pragma once

#include "saccade/formula/formula.h"
#include "saccade/sparse/selection.h"

namespace saccade {

// Groups of one text, with n keys. `far` says which keys a group's estimate is about.
struct Lesson {
  at::Tensor features;  // [heads, groups, features]
  at::Tensor key;       // [key heads, n, head_dim]
  at::Tensor target;  // [heads, groups, n]: the root of the sum of squared weights over the group, 0 if near
  at::Tensor near;    // [heads, groups]: the logarithm of what the always-kept keys weigh
  at::Tensor far;     // [groups, n], bool
};

struct LessonOptions {
  SelectionOptions selection;
  int64_t pool = 16, samples = 4;
  bool causal = true;
  int64_t stride = 1;  // of the groups that are taught: every so-manieth, from `first` on
  int64_t first = 0;
};

// The weights of rows [begin, end) of a text, [heads, end - begin, n], and the logarithms of what their norm
// divides by, [heads, end - begin]. Signed mechanisms give absolute values.
struct RowWeights {
  at::Tensor weights, log_sums;
};
RowWeights weights_of_rows(const Formula& formula, const PairInputs& inputs, int64_t begin, int64_t end);

// `inputs` is one text without padding; its length must be a multiple of the query tile.
Lesson make_lesson(const Formula& formula, const PairInputs& inputs, const LessonOptions& options);

// Which keys are far from each of the groups, [groups, n], and which a query keeps in any case, [rows, n].
at::Tensor far_keys(const LessonOptions& options, const std::vector<int64_t>& groups, int64_t n);
at::Tensor always_kept_keys(const LessonOptions& options, int64_t begin, int64_t end, int64_t n);

}  // namespace saccade
