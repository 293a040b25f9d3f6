// All of them end in a map of kept keys by tile, as large as a tile's share of n x n; they are for
// comparisons.
#include "saccade/distill/rivals.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>

#include "saccade/base/random.h"
#include "saccade/kernels/key_selection.h"
#include "saccade/sparse/lists.h"

namespace saccade {

using at::Tensor;

namespace {

LessonOptions options_of(const SparseSelector& selector) {
  return {
      .selection = selector.options(), .pool = selector.options().query_tile, .causal = selector.causal()};
}

// What each tile keeps in any case, and what it may keep, [tiles, n].
struct TileKeys {
  Tensor always, far;
};

TileKeys keys_of(const SparseSelector& selector, int64_t n) {
  const LessonOptions options = options_of(selector);
  const int64_t tile = selector.options().query_tile, tiles = (n + tile - 1) / tile;
  std::vector<Tensor> always;
  std::vector<int64_t> numbers;
  for (int64_t index = 0; index < tiles; ++index) {
    always.push_back(always_kept_keys(options, index * tile, index * tile + 1, n));
    numbers.push_back(index);
  }
  return {torch::cat(always), far_keys(options, numbers, n)};
}

}  // namespace

OracleSelector::OracleSelector(SelectionOptions options, Formula formula, std::vector<int64_t> ranges)
    : SparseSelector(options, looks_back_only(formula)),
      formula_(std::move(formula)),
      ranges_(std::move(ranges)) {}

std::vector<double> OracleSelector::settings() const {
  std::vector<double> result{kernels::kKeepAll};
  for (double threshold = 0.0003; threshold < 0.3; threshold *= 1.7) result.push_back(threshold);
  result.push_back(kernels::kKeepNone);
  return result;
}

void OracleSelector::set(int64_t head, int64_t range, double setting) {
  constexpr int64_t kMostHeads = 1024;
  if (!thresholds_.defined()) thresholds_ = torch::zeros({kMostHeads, std::ssize(ranges_)});
  thresholds_[head][range] = setting;
}

std::optional<KeyLists> OracleSelector::select(const PairInputs& inputs, KvCache*) {
  torch::NoGradGuard no_gradient;
  const Tensor query = inputs.queries[0].detach();
  const int64_t heads = query.size(1), n = query.size(2), tile = options().query_tile,
                tiles = (n + tile - 1) / tile;
  if (!last_query_.defined() || !last_query_.is_same(inputs.queries[0])) {
    last_query_ = inputs.queries[0];
    last_scores_ = torch::zeros({heads, tiles, n});
    for (int64_t index = 0; index < tiles; ++index) {
      const Tensor weights =
          weights_of_rows(formula_, inputs, index * tile, std::min(n, (index + 1) * tile)).weights;
      last_scores_.select(1, index).narrow(1, 0, weights.size(2)).copy_(weights.square_().sum(1).sqrt_());
    }
  }
  const auto [always, far] = keys_of(*this, n);
  Tensor keep = torch::empty({heads, tiles, n}, torch::kBool);
  for (int64_t index = 0; index < tiles; ++index) {
    const double middle = (static_cast<double>(index) + 0.5) * static_cast<double>(tile);
    const auto range = std::ranges::upper_bound(ranges_, static_cast<int64_t>(middle)) - ranges_.begin() - 1;
    const Tensor limits =
        thresholds_.narrow(0, 0, heads).select(1, range) * std::pow(1024 / std::max(middle, 1.0), 0.5);
    keep.select(1, index).copy_((last_scores_.select(1, index) >= limits.unsqueeze(1))
                                    .logical_and(far[index])
                                    .logical_or(always[index]));
  }
  return lists_of(keep.unsqueeze(0), tile);
}

std::optional<KeyLists> RandomSelector::select(const PairInputs& inputs, KvCache*) {
  const int64_t heads = inputs.queries[0].size(1), n = inputs.queries[0].size(2);
  const auto [always, far] = keys_of(*this, n);
  at::Generator random = at::detail::createCPUGenerator(RandomStream(seed_, "random selector").next());
  const Tensor drawn = at::rand({heads, always.size(0), n}, random) < share_;
  return lists_of(drawn.logical_and(far).logical_or(always).unsqueeze(0), options().query_tile);
}

namespace {

LowRankScorer mean_scorer(int64_t heads, int64_t head_dim, int64_t pool) {
  const int64_t features = LowRankScorer::features(pool, head_dim);
  const Tensor same = torch::eye(head_dim).repeat({heads, 1, 1});
  LowRankScorer scorer{.pool = pool,
                       .samples = 1,
                       .query_map = torch::zeros({heads, features, head_dim}),
                       .query_bias = torch::zeros({heads, features}),
                       .key_map = same,
                       .key_bias = torch::zeros({heads, head_dim}),
                       .constant = torch::zeros({heads}),
                       .log_factor = torch::zeros({heads}),
                       .thresholds = torch::zeros({heads, 1})};
  scorer.query_map.narrow(1, 0, head_dim).copy_(same);
  return scorer;
}

}  // namespace

PooledTopK::PooledTopK(SelectionOptions options, bool causal, int64_t heads, int64_t head_dim, int64_t pool)
    : LowRankSelector(options, causal, mean_scorer(heads, head_dim, pool)) {
  counts.assign(static_cast<size_t>(heads), 0);
}

}  // namespace saccade
