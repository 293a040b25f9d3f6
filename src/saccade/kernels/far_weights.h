// The vector code of key selection: the exponentials of far keys' scores for up to four groups of queries at
// once, and what is done with them.
#pragma once

#include <cstdint>

namespace saccade::kernels {

// Keys that are worked on together: a whole number of vectors on any machine.
inline constexpr int64_t kKeyBlock = 32;
inline constexpr int64_t kGroupsAtOnce = 4;

// The numbers of keys, rank + 1 of them: feature f of key `k` of block b is at
// data[b * block_stride + f * feature_stride + k]. The last is added to the key's scores. Places past the
// last key, up to the end of its block, can be read.
struct FarKeys {
  const float* data;
  int64_t block_stride, feature_stride;
};

struct FarTask {
  const float* groups;  // rows of rank + 1; the last number is added to all scores
  int64_t rank;
  FarKeys keys;
  const float* near;    // per group
  int64_t begin, end;   // keys
  float* exponentials;  // [groups][stride]
  int64_t stride;
  float* sums;  // per group
};

// exp(group . key - near) of the keys in the range, and its sums.
void weigh_far(const FarTask& task, int64_t groups);

// total[j] += the sum over groups of (factors[g] * e[g][j])^2, for at most kGroupsAtOnce groups.
void add_squares(const float* e, int64_t stride, const float* factors, int64_t groups, int64_t begin,
                 int64_t end, float* total);

// Mean, largest and smallest of `count` rows, [3][width], all times `scale`; of rows that are `stride` apart.
void pool_rows(const float* rows, int64_t stride, int64_t count, int64_t width, float scale, float* out);

// The numbers of those in [begin, end) that reach the limit; returns how many. `out` has room for kKeyBlock
// more than there are.
int64_t passing(const float* total, float limit, int64_t begin, int64_t end, int32_t* out);

}  // namespace saccade::kernels
