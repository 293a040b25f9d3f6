// Selectors that learned ones are compared with, and that nobody would use: one that sees the true weights,
// one that draws lots, and one that scores keys by the mean of a tile's queries.
#pragma once

#include "saccade/distill/lessons.h"
#include "saccade/sparse/low_rank.h"

namespace saccade {

// Keeps the keys whose true weights in the tile, by the root of the sum of their squares, reach a threshold.
class OracleSelector : public SparseSelector {
 public:
  OracleSelector(SelectionOptions options, Formula formula, std::vector<int64_t> ranges);

  std::string kind() const override { return "oracle"; }
  std::vector<std::pair<std::string, at::Tensor>> tensors() const override { return {}; }
  std::vector<double> settings() const override;
  void set(int64_t head, int64_t range, double setting) override;
  const std::vector<int64_t>& ranges() const override { return ranges_; }
  double operations(int64_t) const override { return 0; }
  std::optional<KeyLists> select(const PairInputs& inputs, KvCache* cache) override;

 private:
  Formula formula_;
  std::vector<int64_t> ranges_;
  at::Tensor thresholds_;  // [heads, ranges]; made when the heads are known
  // Estimates of the last text, which is asked for again at each setting.
  at::Tensor last_query_, last_scores_;
};

// Keeps a share of the far keys, drawn for each tile.
class RandomSelector : public SparseSelector {
 public:
  RandomSelector(SelectionOptions options, bool causal, uint64_t seed)
      : SparseSelector(options, causal), seed_(seed) {}

  std::string kind() const override { return "random"; }
  std::vector<std::pair<std::string, at::Tensor>> tensors() const override { return {}; }
  std::vector<double> settings() const override { return {1, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1, 0.05, 0}; }
  void set(int64_t, int64_t, double setting) override { share_ = setting; }
  const std::vector<int64_t>& ranges() const override { return ranges_; }
  double operations(int64_t) const override { return 0; }
  std::optional<KeyLists> select(const PairInputs& inputs, KvCache* cache) override;

 private:
  uint64_t seed_;
  double share_ = 1;
  std::vector<int64_t> ranges_ = {0};
};

// Scores by the mean query of each group, without anything learned; it keeps the best so many keys, the same
// number for every head.
class PooledTopK : public LowRankSelector {
 public:
  PooledTopK(SelectionOptions options, bool causal, int64_t heads, int64_t head_dim, int64_t pool);

  std::string kind() const override { return "pooled_top_k"; }
  std::vector<double> settings() const override {
    return {4096, 1024, 512, 384, 256, 192, 128, 64, 32, 16, 0};
  }
  void set(int64_t head, int64_t, double setting) override {
    counts.at(static_cast<size_t>(head)) = static_cast<int64_t>(setting);
  }
};

}  // namespace saccade
