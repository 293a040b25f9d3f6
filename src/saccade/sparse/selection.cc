// Counting by lists: a key before a tile is kept for all its queries, one inside it for those that see it.
#include "saccade/sparse/selection.h"

#include <algorithm>

#include "saccade/base/error.h"

namespace saccade {

void check(const SelectionOptions& options) {
  require(options.query_tile >= 1 && options.key_tile >= 1,
          "sparse: tiles of {} queries and {} keys; expected at least 1 of each", options.query_tile,
          options.key_tile);
  require(options.sinks >= 0 && options.near >= 0 && options.min_keys >= 0,
          "sparse: {} sinks, {} near tokens, min_keys {}; expected none below 0", options.sinks, options.near,
          options.min_keys);
}

double PairCount::density() const {
  return visible > 0 ? kept.sum().item<double>() / (visible * static_cast<double>(kept.numel())) : 1;
}

at::Tensor PairCount::density_by_head() const {
  return visible > 0 ? kept / visible : torch::ones_like(kept);
}

bool looks_back_only(const Formula& formula) { return formula.plan().decoding.possible; }

namespace {

// How many keys a query sees.
int64_t seen_by(const PairInputs& inputs, bool causal, int64_t row) {
  const int64_t keys = inputs.value.size(2);
  return causal ? std::clamp<int64_t>(inputs.offset + row + 1 - inputs.first_key, 0, keys) : keys;
}

}  // namespace

double visible_pairs(const PairInputs& inputs, bool causal, int64_t begin, int64_t end) {
  double pairs = 0;
  for (int64_t row = begin; row < end; ++row) pairs += static_cast<double>(seen_by(inputs, causal, row));
  return pairs * static_cast<double>(inputs.queries[0].size(0));
}

at::Tensor kept_by_tile(const KeyLists& lists, const PairInputs& inputs, bool causal) {
  const at::Tensor& query = inputs.queries[0];
  const int64_t batch = query.size(0), heads = query.size(1), queries = query.size(2),
                keys = inputs.value.size(2);
  const at::Tensor starts = lists.starts.contiguous(), entries = lists.keys.contiguous();
  const int64_t list_batch = starts.size(0), list_heads = starts.size(1), tiles = starts.size(2) - 1;
  const int32_t *start = starts.const_data_ptr<int32_t>(), *entry = entries.const_data_ptr<int32_t>();
  at::Tensor result = torch::zeros({heads, tiles}, torch::kDouble);
  auto kept = result.accessor<double, 2>();
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t head = 0; head < heads; ++head) {
      const int32_t* of_head =
          start + ((list_batch == 1 ? 0 : b) * list_heads + (list_heads == 1 ? 0 : head)) * (tiles + 1);
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const int64_t first = tile * lists.query_tile, end = std::min(first + lists.query_tile, queries);
        int64_t pairs = 0;
        for (int32_t at = of_head[tile]; at < of_head[tile + 1]; ++at) {
          const int64_t from = entry[at] * lists.key_tile, to = std::min(from + lists.key_tile, keys);
          for (int64_t key = from; key < to; ++key) {
            // The first row that sees the key.
            const int64_t row = causal ? std::max(first, key + inputs.first_key - inputs.offset) : first;
            pairs += std::max<int64_t>(0, end - row);
          }
        }
        kept[head][tile] += static_cast<double>(pairs);
      }
    }
  return result;
}

PairCount count_pairs(const std::optional<KeyLists>& lists, const PairInputs& inputs, bool causal) {
  const at::Tensor& query = inputs.queries[0];
  PairCount count{.visible = visible_pairs(inputs, causal, 0, query.size(2))};
  count.kept = lists ? kept_by_tile(*lists, inputs, causal).sum(1)
                     : torch::full({query.size(1)}, count.visible, torch::kDouble);
  return count;
}

bool SparseSelector::too_few(const PairInputs& inputs, const KvCache* cache) const {
  const bool one_new = cache && inputs.queries[0].size(2) == 1;
  return inputs.value.size(2) < (one_new ? options_.min_cached : options_.min_keys);
}

void SparseSelector::finished(const PairInputs& inputs, const AttentionResult&) {
  if (!counting_) return;
  PairCount fresh = count_pairs(inputs.lists, inputs, causal_);
  if (count_.kept.defined()) {
    fresh.kept += count_.kept;
    fresh.visible += count_.visible;
  }
  count_ = std::move(fresh);
}

}  // namespace saccade
