// Keys by learned scores: a few numbers for each group of queries and for each key estimate what attention
// would give the key. With groups of one query this is a low-rank indexer, with larger ones a pooled gate.
#pragma once

#include "saccade/kernels/key_selection.h"
#include "saccade/sparse/selection.h"

namespace saccade {

// The score of a group of queries with features z and a key k, for each head:
//     (query_map z) . (key_map k) + query_bias . z + key_bias . k + constant
// Features of one query are the query itself, those of more their mean, largest and smallest, all times the
// formula's scale.
struct LowRankScorer {
  int64_t pool = 16;                 // queries of a group
  int64_t samples = 4;               // queries of a group whose near keys are scored exactly
  at::Tensor query_map, query_bias;  // [heads, features, rank], [heads, features]
  at::Tensor key_map, key_bias;      // [heads, head_dim, rank], [heads, head_dim]
  at::Tensor constant;               // [heads]
  at::Tensor log_factor;             // [heads]: what the estimates are multiplied by, as a logarithm
  at::Tensor thresholds;             // [heads, ranges of positions]; see kernels::kKeepAll and kKeepNone

  int64_t rank() const { return key_map.size(2); }
  int64_t heads() const { return key_map.size(0); }
  static int64_t features(int64_t pool, int64_t head_dim) { return pool == 1 ? head_dim : 3 * head_dim; }

  // [batch, heads, groups, rank + 1], the last number added to all scores of the group.
  at::Tensor group_numbers(const at::Tensor& query) const;
  // [batch, heads, keys, rank + 1] from [batch, key heads, keys, head_dim].
  at::Tensor key_numbers(const at::Tensor& key) const;
  // Throws Error, naming `where`, unless all sizes fit together.
  void check(std::string_view where) const;
  // The tensors by name, for files and for training.
  std::vector<std::pair<std::string, at::Tensor*>> named();
};

class LowRankSelector : public SparseSelector {
 public:
  // `scorer` chooses for tiles of queries, `single` for one new query in decoding; without the latter,
  // decoding looks at all keys.
  LowRankSelector(SelectionOptions options, bool causal, LowRankScorer scorer,
                  std::optional<LowRankScorer> single = {});

  std::string kind() const override { return "low_rank"; }
  std::vector<std::pair<std::string, at::Tensor>> tensors() const override;
  std::vector<double> settings() const override;  // thresholds
  void set(int64_t head, int64_t range, double setting) override;
  const std::vector<int64_t>& ranges() const override { return ranges_; }
  // Gives positions from each of these on thresholds of their own, which start equal.
  void set_ranges(std::vector<int64_t> ranges);
  int64_t cached_bytes(const KvCache& cache) const override;
  double operations(int64_t tokens) const override;
  std::optional<KeyLists> select(const PairInputs& inputs, KvCache* cache) override;

  LowRankScorer& scorer() { return scorer_; }
  std::optional<LowRankScorer>& single() { return single_; }

  // How thresholds fall with the position; see kernels::SelectionTask.
  double length_power = 0.5;
  // So many of the best keys in place of thresholds, [heads]; empty: thresholds.
  std::vector<int64_t> counts;

 private:
  KeyLists select_with(const LowRankScorer& scorer, int64_t query_tile, const PairInputs& inputs,
                       const at::Tensor& key_numbers) const;

  LowRankScorer scorer_;
  std::optional<LowRankScorer> single_;
  std::vector<int64_t> ranges_ = {0};
};

}  // namespace saccade
