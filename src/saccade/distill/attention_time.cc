// Only the attention is timed: projections and everything else are the same for both.
#include "saccade/distill/attention_time.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "saccade/attention/rows.h"
#include "saccade/base/meter.h"

namespace saccade {
namespace {

constexpr int64_t kRounds = 2;
// Of one new token, which takes a fraction of a millisecond.
constexpr int64_t kRoundsOfNext = 20;

struct Times {
  double dense = std::numeric_limits<double>::infinity(), sparse = dense, choosing = dense;
};

// The shortest of each in so many rounds. `chosen` gets the lists of the last one.
Times take_turns(AttentionImpl& attention, SparseSelector& selector, PairInputs& chosen, KvCache* cache,
                 int64_t rounds) {
  Times times;
  // The first round warms up and is not counted.
  for (int64_t round = -1; round < rounds; ++round) {
    chosen.lists.reset();
    const Meter dense_meter;
    attention.attend(chosen, false);
    const double dense = dense_meter.seconds();
    const Meter sparse_meter;
    chosen.lists = selector.select(chosen, cache);
    const double choosing = sparse_meter.seconds();
    attention.attend(chosen, false);
    const double sparse = sparse_meter.seconds();
    if (round < 0) continue;
    times = {std::min(times.dense, dense), std::min(times.sparse, sparse),
             std::min(times.choosing, choosing)};
  }
  return times;
}

// A cache as the selector has it after all tokens of a text but the last.
KvCache cache_before_last(const Plan& plan, SparseSelector& selector, const PairInputs& inputs) {
  const int64_t before = inputs.value.size(2) - 1;
  PairInputs earlier = rows_of(plan, inputs, 0, before);
  for (at::Tensor& key : earlier.keys)
    if (key.defined()) key = key.narrow(2, 0, before);
  earlier.value = earlier.value.narrow(2, 0, before);
  KvCache cache;
  selector.select(earlier, &cache);
  cache.advance(before);
  return cache;
}

struct Share {
  double kept = 0, visible = 0;

  void add(const PairInputs& inputs, bool causal) {
    const PairCount count = count_pairs(inputs.lists, inputs, causal);
    kept += count.kept.sum().item<double>();
    visible += count.visible * static_cast<double>(count.kept.numel());
  }
};

// The keys that one new token reads, of all key heads. Those that any head of a group lists are read once, as
// the kernels do with floats and without padding.
double keys_read(const PairInputs& inputs) {
  const int64_t batch = inputs.value.size(0), key_heads = inputs.value.size(1), keys = inputs.value.size(2);
  if (!inputs.lists) return static_cast<double>(batch * key_heads * keys);
  const KeyLists& lists = *inputs.lists;
  const int64_t heads = inputs.queries[0].size(1), group = heads / key_heads;
  const at::Tensor starts = lists.starts.expand({batch, heads, -1}).contiguous(),
                   entries = lists.keys.contiguous();
  const auto* start = starts.const_data_ptr<int32_t>();
  const auto* entry = entries.const_data_ptr<int32_t>();
  int64_t read = 0;
  for (int64_t pair = 0; pair < batch * key_heads; ++pair) {
    std::vector<bool> listed(static_cast<size_t>(keys));
    for (int64_t head = pair * group; head < (pair + 1) * group; ++head)
      for (int64_t at = start[head * starts.size(2)]; at < start[head * starts.size(2) + 1]; ++at)
        for (int64_t key = entry[at] * lists.key_tile; key < std::min((entry[at] + 1) * lists.key_tile, keys);
             ++key)
          listed[static_cast<size_t>(key)] = true;
    read += std::ranges::count(listed, true);
  }
  return static_cast<double>(read);
}

// Of a key with its value.
double bytes_of_key(const PairInputs& inputs) {
  return static_cast<double>(inputs.keys[0].size(3) * inputs.keys[0].element_size() +
                             inputs.value.size(3) * inputs.value.element_size());
}

}  // namespace

AttentionTime measure_attention_time(Transformer model, const Selectors& selectors, const TokenIds& text,
                                     int64_t rounds) {
  AttentionTime result{.tokens = std::ssize(text)};
  const TokenIds texts[] = {text};
  Share all, next;
  stream_layers(model, texts, [&](int64_t layer, std::span<const PairInputs> inputs) {
    SparseSelector& selector = *selectors[static_cast<size_t>(layer)];
    AttentionImpl& attention = *model->block(layer)->attention;
    const SelectionOptions options = selector.options();
    selector.options().min_keys = selector.options().min_cached = 0;
    PairInputs chosen = inputs[0];
    const Times times = take_turns(attention, selector, chosen, nullptr, rounds);
    result.dense += times.dense;
    result.sparse += times.sparse;
    result.choosing += times.choosing;
    all.add(chosen, selector.causal());
    if (selector.causal()) {
      const Plan& plan = model->formula(layer).plan();
      KvCache cache = cache_before_last(plan, selector, inputs[0]);
      PairInputs last = rows_of(plan, inputs[0], std::ssize(text) - 1, 1);
      const Times times_of_next = take_turns(attention, selector, last, &cache, rounds * kRoundsOfNext);
      result.next_dense += times_of_next.dense;
      result.next_sparse += times_of_next.sparse;
      next.add(last, true);
      result.next_sparse_bytes +=
          keys_read(last) * bytes_of_key(last) + static_cast<double>(selector.cached_bytes(cache));
      last.lists.reset();
      result.next_dense_bytes += keys_read(last) * bytes_of_key(last);
    }
    selector.options() = options;
  });
  result.density = all.kept / all.visible;
  result.next_density = next.visible > 0 ? next.kept / next.visible : 1;
  return result;
}

std::vector<AttentionTime> set_crossover(Transformer model, const Selectors& selectors, const TokenIds& text,
                                         int64_t longest) {
  std::vector<AttentionTime> times;
  for (int64_t tokens = kShortestTimed; tokens <= std::min<int64_t>(longest, std::ssize(text)); tokens *= 2)
    times.push_back(
        measure_attention_time(model, selectors, TokenIds(text.begin(), text.begin() + tokens), kRounds));
  // From the end on, as long as it wins; not measured, or lost at the longest: only beyond that.
  const auto from = [&](double AttentionTime::*dense, double AttentionTime::*sparse) {
    int64_t result = times.empty() ? 0 : 2 * times.back().tokens;
    for (auto time = times.rbegin(); time != times.rend() && (*time).*sparse < (*time).*dense; ++time)
      result = time->tokens;
    return result;
  };
  for (const auto& selector : selectors) {
    selector->options().min_keys = from(&AttentionTime::dense, &AttentionTime::sparse);
    selector->options().min_cached = selector->decodes_apart()
                                         ? from(&AttentionTime::next_dense, &AttentionTime::next_sparse)
                                         : selector->options().min_keys;
  }
  return times;
}

Json to_json(const AttentionTime& time) {
  return {{"tokens", time.tokens},
          {"dense_seconds", time.dense},
          {"sparse_seconds", time.sparse},
          {"choosing_seconds", time.choosing},
          {"density", time.density},
          {"next_dense_seconds", time.next_dense},
          {"next_sparse_seconds", time.next_sparse},
          {"next_density", time.next_density},
          {"next_dense_bytes", time.next_dense_bytes},
          {"next_sparse_bytes", time.next_sparse_bytes}};
}

}  // namespace saccade
