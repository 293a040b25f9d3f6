// Which keys a tile of queries should look at, by cheap scores: queries are pooled into groups, a few numbers
// per group and per key stand for them, and a key is kept where its estimated weight in the tile passes a
// threshold. The first keys of all and those near the tile are always kept.
//
// For a group g and a far key j, with a = group . key in these few numbers,
//     y[g][j] = factor * exp(a - near[g]) / (1 + sum over far keys of exp(a - near[g]))
// where near[g] is the logarithm of what the always-kept keys really weigh, from exact scores of a few of the
// group's queries. The key is kept if the root of the sum of y^2 over the tile's groups reaches the head's
// threshold.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "saccade/kernels/arrays.h"

namespace saccade::kernels {

struct SelectionTask {
  Shape shape;
  Array query, key;               // for the exact scores of near keys
  double scale = 1;               // of those
  const uint8_t* real = nullptr;  // [batch, keys], 0 for padding; null: all are real
  bool causal = true;             // a query does not see what comes after it

  int64_t query_tile = 64, key_tile = 1;
  int64_t pool = 16;    // queries of a group; it divides the query tile
  int64_t samples = 4;  // queries of a group whose near keys are scored exactly; it divides `pool`
  int64_t sinks = 4;    // first positions that are always kept
  int64_t near = 64;    // positions before a tile, and after it where it sees them, that are always kept
  int64_t rank = 0;     // numbers that stand for a group or a key
  const float* groups = nullptr;  // [batch, heads, groups, rank + 1], the last one is added to all scores
  // [batch, heads, keys, rank + 1] of float; the last number of a key is added to its scores. Either a key's
  // numbers stand side by side, or those of one kind of all keys do; then up to the end of a block of
  // kKeyBlock keys (far_weights.h) can be read.
  Array keys;
  const float* factors = nullptr;     // [heads]
  const float* thresholds = nullptr;  // [heads, ranges], for a tile in the middle of which is position 1024
  std::vector<int64_t> ranges = {0};  // where the ranges of positions begin that have their own thresholds
  double length_power = 0.5;          // thresholds fall with this power of the position, too
  // Instead of thresholds: so many of the best far keys, rounded to key tiles, [heads]; null: thresholds.
  const int64_t* counts = nullptr;

  int64_t tiles() const { return (shape.queries + query_tile - 1) / query_tile; }
  int64_t group_count() const { return (shape.queries + pool - 1) / pool; }
};

// A threshold that keeps every key.
inline constexpr float kKeepAll = 0;
// A threshold that keeps none but those that are always kept.
inline constexpr float kKeepNone = std::numeric_limits<float>::infinity();

// Lists as `Lists` has them, with one for each batch, head and tile.
struct SelectedKeys {
  std::vector<int32_t> starts;  // [batch, heads, tiles + 1]
  std::vector<int32_t> keys;
};

SelectedKeys select_keys(const SelectionTask& task);

// Mean, largest and smallest of each group's queries, times `scale`: [batch, heads, groups, 3 * width]. With
// groups of one query all three are the same, and only one is given: [batch, heads, groups, width].
void pool_queries(const Shape& shape, const Array& query, int64_t pool, double scale, float* out);

}  // namespace saccade::kernels
