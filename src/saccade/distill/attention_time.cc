// Only the attention is timed: projections and everything else are the same for both.
#include "saccade/distill/attention_time.h"

#include <algorithm>
#include <limits>

#include "saccade/base/meter.h"

namespace saccade {
namespace {

constexpr int64_t kShortest = 512;
constexpr int64_t kRounds = 2;

}  // namespace

AttentionTime measure_attention_time(Transformer model, const Selectors& selectors, const TokenIds& text,
                                     int64_t rounds) {
  AttentionTime result{.tokens = std::ssize(text)};
  const TokenIds texts[] = {text};
  double kept = 0, visible = 0;
  stream_layers(model, texts, [&](int64_t layer, std::span<const PairInputs> inputs) {
    SparseSelector& selector = *selectors[static_cast<size_t>(layer)];
    AttentionImpl& attention = *model->block(layer)->attention;
    const int64_t least = std::exchange(selector.options().min_keys, 0);
    double dense = std::numeric_limits<double>::infinity(), sparse = dense, choosing = dense;
    PairInputs chosen = inputs[0];
    // The first round warms up and is not counted.
    for (int64_t round = -1; round < rounds; ++round) {
      const Meter dense_meter;
      attention.attend(inputs[0], false);
      const double dense_seconds = dense_meter.seconds();
      const Meter sparse_meter;
      chosen.lists = selector.select(inputs[0], nullptr);
      const double choosing_seconds = sparse_meter.seconds();
      attention.attend(chosen, false);
      const double sparse_seconds = sparse_meter.seconds();
      if (round < 0) continue;
      dense = std::min(dense, dense_seconds);
      sparse = std::min(sparse, sparse_seconds);
      choosing = std::min(choosing, choosing_seconds);
    }
    selector.options().min_keys = least;
    result.dense += dense;
    result.sparse += sparse;
    result.choosing += choosing;
    const PairCount count = count_pairs(chosen.lists, chosen, selector.causal());
    kept += count.kept.sum().item<double>();
    visible += count.visible * static_cast<double>(count.kept.numel());
  });
  result.density = kept / visible;
  return result;
}

std::vector<AttentionTime> set_crossover(Transformer model, const Selectors& selectors, const TokenIds& text,
                                         int64_t longest) {
  std::vector<AttentionTime> times;
  for (int64_t tokens = kShortest; tokens <= std::min<int64_t>(longest, std::ssize(text)); tokens *= 2)
    times.push_back(
        measure_attention_time(model, selectors, TokenIds(text.begin(), text.begin() + tokens), kRounds));
  // From the end on, as long as it wins; not measured, or lost at the longest: only beyond that.
  int64_t from = times.empty() ? 0 : 2 * times.back().tokens;
  for (auto time = times.rbegin(); time != times.rend() && time->sparse < time->dense; ++time)
    from = time->tokens;
  for (const auto& selector : selectors) selector->options().min_keys = from;
  return times;
}

Json to_json(const AttentionTime& time) {
  return {{"tokens", time.tokens},
          {"dense_seconds", time.dense},
          {"sparse_seconds", time.sparse},
          {"choosing_seconds", time.choosing},
          {"density", time.density}};
}

}  // namespace saccade
