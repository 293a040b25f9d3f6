// Lists are two ranges per tile.
#include "saccade/sparse/span.h"

#include <algorithm>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"
#include "saccade/sparse/lists.h"

namespace saccade {

SpanSelector::SpanSelector(SelectionOptions options, bool causal, at::Tensor spans)
    : SparseSelector(options, causal), spans_(spans.to(torch::kLong).contiguous()) {
  require(spans_.dim() == 1 && spans_.numel() > 0 && spans_.min().item<int64_t>() >= 0,
          "sparse: spans of shape {}; expected one for each head, none below 0", shape_text(spans_));
}

std::vector<double> SpanSelector::settings() const {
  std::vector<double> result{static_cast<double>(kWholeSpan)};
  if (!full_or_local_)
    for (int64_t span = int64_t{1} << 14; span > options().near; span = span * 3 / 4)
      result.push_back(static_cast<double>(span));
  result.push_back(static_cast<double>(options().near));
  return result;
}

std::optional<KeyLists> SpanSelector::select(const PairInputs& inputs, KvCache* cache) {
  const at::Tensor& query = inputs.queries[0];
  const int64_t heads = query.size(1), queries = query.size(2), keys = inputs.value.size(2);
  require(spans_.numel() == heads, "sparse: spans for {} heads, the model has {}", spans_.numel(), heads);
  if (too_few(inputs, cache)) return std::nullopt;
  // A few new queries have lists of their own: a tile would be mostly empty.
  const int64_t query_tile = std::min(options().query_tile, queries), key_tile = options().key_tile;
  const int64_t tiles = (queries + query_tile - 1) / query_tile;
  const auto index = [&](int64_t position) {
    return std::clamp<int64_t>(position - inputs.first_key, 0, keys);
  };
  std::vector<int32_t> starts, entries;
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t span = spans_[head].item<int64_t>();
    starts.push_back(static_cast<int32_t>(entries.size()));
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t first = inputs.offset + tile * query_tile,
                    last = inputs.offset + std::min((tile + 1) * query_tile, queries) - 1;
      const int64_t sinks = (index(options().sinks) + key_tile - 1) / key_tile;
      const int64_t begin = index(first - std::min(span, first)) / key_tile,
                    end = (index(last + 1 + (causal() ? 0 : span)) + key_tile - 1) / key_tile;
      for (int64_t entry = 0; entry < sinks; ++entry) entries.push_back(static_cast<int32_t>(entry));
      for (int64_t entry = std::max(begin, sinks); entry < end; ++entry)
        entries.push_back(static_cast<int32_t>(entry));
      starts.push_back(static_cast<int32_t>(entries.size()));
    }
  }
  return KeyLists{.query_tile = query_tile,
                  .key_tile = key_tile,
                  .starts = int_tensor(starts, {1, heads, tiles + 1}),
                  .keys = int_tensor(entries, {std::ssize(entries)})};
}

}  // namespace saccade
