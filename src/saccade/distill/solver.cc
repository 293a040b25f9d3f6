// Each range of positions has a budget of its own, so that the goal holds for texts of every length.
#include "saccade/distill/solver.h"

#include <cmath>

#include "saccade/base/error.h"
#include "saccade/distill/budget.h"

namespace saccade {

using at::Tensor;

namespace {

constexpr double kFirstShare = 0.4;  // of the true divergence, the estimate is about that much
constexpr int64_t kBetween = 5;      // finer settings between two that were measured
constexpr int64_t kPiece = 1024;     // tokens of text whose divergence is one number of a sample
// What pieces are taken to differ by before any are seen, as a share of their mean, and how many pieces that
// is worth.
constexpr double kUsualSpread = 0.2, kUsualWeight = 4;

// Counts pairs by range of positions while it selects.
class RangeCounter : public Selector {
 public:
  explicit RangeCounter(std::shared_ptr<SparseSelector> inner)
      : inner_(std::move(inner)), kept(inner_->ranges().size(), 0), visible(inner_->ranges().size(), 0) {}

  std::optional<KeyLists> select(const PairInputs& inputs, KvCache* cache) override {
    std::optional<KeyLists> lists = inner_->select(inputs, cache);
    const std::vector<int64_t>& ranges = inner_->ranges();
    const int64_t tokens = inputs.queries[0].size(2);
    const auto heads = static_cast<double>(inputs.queries[0].size(1));
    for (size_t range = 0; range < ranges.size(); ++range) {
      const int64_t begin = std::min(ranges[range], tokens),
                    end = range + 1 < ranges.size() ? std::min(ranges[range + 1], tokens) : tokens;
      if (begin == end) continue;
      const double all = heads * visible_pairs(inputs, inner_->causal(), begin, end);
      visible[range] += all;
      if (!lists) {
        kept[range] += all;
        continue;
      }
      const int64_t tile = lists->query_tile;
      kept[range] += kept_by_tile(*lists, inputs, inner_->causal())
                         .slice(1, begin / tile, (end + tile - 1) / tile)
                         .sum()
                         .item<double>();
    }
    return lists;
  }

 private:
  std::shared_ptr<SparseSelector> inner_;

 public:
  std::vector<double> kept, visible;
};

std::vector<HeadChoices> choices_of(const Sensitivity& sensitivity, int64_t range) {
  std::vector<HeadChoices> result;
  for (int64_t layer = 0; layer < sensitivity.cost.size(2); ++layer)
    for (int64_t head = 0; head < sensitivity.cost.size(3); ++head) {
      HeadChoices choices{.settings = sensitivity.settings};
      for (int64_t setting = 0; setting < sensitivity.cost.size(0); ++setting) {
        choices.cost.push_back(sensitivity.cost[setting][range][layer][head].item<double>());
        choices.density.push_back(sensitivity.density[setting][range][layer][head].item<double>());
      }
      result.push_back(choices.refined(kBetween));
    }
  return result;
}

// The standard deviation of a piece's divergence, as a share of its range's mean. All ranges together: in
// each there are only a few pieces.
double spread_of(const HeldOutMeasure& measured) {
  double squares = kUsualWeight * kUsualSpread * kUsualSpread, weight = kUsualWeight;
  for (const std::vector<double>& pieces : measured.pieces) {
    double mean = 0;
    for (const double piece : pieces) mean += piece / static_cast<double>(pieces.size());
    if (mean <= 0) continue;
    for (const double piece : pieces) squares += (piece / mean - 1) * (piece / mean - 1);
    weight += static_cast<double>(pieces.size()) - 1;
  }
  return std::sqrt(squares / weight);
}

// The heads' settings in one range.
void apply(const Selectors& selectors, const std::vector<HeadChoices>& choices, int64_t range,
           const Allocation& allocation) {
  const size_t heads = choices.size() / selectors.size();
  for (size_t index = 0; index < choices.size(); ++index)
    selectors[index / heads]->set(static_cast<int64_t>(index % heads), range,
                                  choices[index].settings[allocation.chosen[index]]);
}

}  // namespace

void set_by_estimate(const Selectors& selectors, const Sensitivity& sensitivity, double divergence) {
  for (int64_t range = 0; range < sensitivity.cost.size(1); ++range) {
    const std::vector<HeadChoices> choices = choices_of(sensitivity, range);
    apply(selectors, choices, range, allocate_cost(choices, divergence * kFirstShare));
  }
}

HeldOutMeasure measure_held_out(Transformer model, const Selectors& selectors,
                                std::span<const TokenIds> texts, std::span<const Tensor> dense_hidden) {
  std::vector<std::shared_ptr<RangeCounter>> counters;
  for (size_t layer = 0; layer < selectors.size(); ++layer) {
    counters.push_back(std::make_shared<RangeCounter>(selectors[layer]));
    model->block(static_cast<int64_t>(layer))->attention->set_selector(counters.back());
  }
  const std::vector<Tensor> hidden = last_hidden_states(model, texts);
  attach(model, selectors);
  const Divergence divergence = divergence_of(model, dense_hidden, model, hidden, texts);
  const std::vector<int64_t>& ranges = selectors[0]->ranges();
  std::vector<double> sums(ranges.size(), 0), counts(ranges.size(), 0);
  std::vector<std::vector<double>> pieces(ranges.size());
  int64_t first = 0;
  for (const TokenIds& text : texts) {
    const int64_t tokens = std::ssize(text);
    for (size_t range = 0; range < ranges.size(); ++range) {
      const int64_t begin = std::min(ranges[range], tokens),
                    end = range + 1 < ranges.size() ? std::min(ranges[range + 1], tokens) : tokens;
      for (int64_t piece = begin; piece < end; piece += kPiece) {
        const int64_t size = std::min(kPiece, end - piece);
        const auto sum = divergence.values.narrow(0, first + piece, size).sum().item<double>();
        sums[range] += sum;
        pieces[range].push_back(sum / static_cast<double>(size));
      }
      counts[range] += static_cast<double>(end - begin);
    }
    first += tokens;
  }
  HeldOutMeasure result{.divergence = divergence.mean()};
  double kept = 0, visible = 0;
  for (size_t range = 0; range < ranges.size(); ++range) {
    double range_kept = 0, range_visible = 0;
    for (const auto& counter : counters) {
      range_kept += counter->kept[range];
      range_visible += counter->visible[range];
    }
    kept += range_kept;
    visible += range_visible;
    if (counts[range] == 0) continue;
    result.ranges.push_back({ranges[range], sums[range] / counts[range], range_kept / range_visible});
    result.pieces.push_back(std::move(pieces[range]));
  }
  result.density = kept / visible;
  return result;
}

Solution solve(Transformer model, const Selectors& selectors, const Sensitivity& sensitivity,
               const Goal& goal, std::span<const TokenIds> held_out, std::span<const Tensor> dense_hidden,
               const SolverOptions& options) {
  const bool by_divergence = goal.divergence > 0;
  require(by_divergence || (goal.density > 0 && goal.density <= 1),
          "distill: a goal of divergence {} and density {}; expected one of them above 0", goal.divergence,
          goal.density);
  const auto ranges = static_cast<int64_t>(selectors[0]->ranges().size());
  std::vector<std::vector<HeadChoices>> choices;
  for (int64_t range = 0; range < ranges; ++range) choices.push_back(choices_of(sensitivity, range));
  std::vector<double> targets(static_cast<size_t>(ranges), goal.divergence);  // by range
  std::vector<double> shares(static_cast<size_t>(ranges), kFirstShare),
      density(static_cast<size_t>(ranges), goal.density);
  Solution best;
  std::vector<Allocation> best_allocations;
  for (int64_t attempt = 0; attempt < options.tries; ++attempt) {
    std::vector<Allocation> allocations;
    for (int64_t range = 0; range < ranges; ++range) {
      const auto at = static_cast<size_t>(range);
      allocations.push_back(by_divergence ? allocate_cost(choices[at], targets[at] * shares[at])
                                          : allocate_density(choices[at], density[at]));
      apply(selectors, choices[at], range, allocations.back());
    }
    HeldOutMeasure measured = measure_held_out(model, selectors, held_out, dense_hidden);
    const double spread = spread_of(measured);
    bool holds = true, close = true;
    for (size_t at = 0; at < measured.ranges.size(); ++at) {
      RangeResult& result = measured.ranges[at];
      // Two samples of so many pieces differ by the root of two times what one differs from the truth by.
      result.margin = options.doubt * spread * std::sqrt(2 / static_cast<double>(measured.pieces[at].size()));
      const double target = targets[at] = goal.divergence / (1 + result.margin);
      holds =
          holds && (by_divergence ? result.divergence <= target : measured.density <= goal.density * 1.005);
      if (by_divergence) {
        close = close && result.divergence > 0.93 * target;
        shares[at] *=
            std::clamp(std::pow(0.975 * target / std::max(result.divergence, 1e-12), 0.9), 0.1, 5.0);
      } else {
        close = close && measured.density > 0.98 * goal.density;
        density[at] = std::clamp(density[at] * goal.density / measured.density, 0.0, 1.0);
      }
    }
    if (options.on_try) {
      Json line{{"stage", "solve"},
                {"try", attempt + 1},
                {"divergence", measured.divergence},
                {"density", measured.density},
                {"holds", holds}};
      for (const RangeResult& result : measured.ranges)
        line["ranges"].push_back({{"begin", result.begin},
                                  {"divergence", result.divergence},
                                  {"density", result.density},
                                  {"margin", result.margin}});
      options.on_try(line);
    }
    if (holds && (!best.found || (by_divergence ? measured.density < best.density
                                                : measured.divergence < best.divergence))) {
      best = {.found = true,
              .divergence = measured.divergence,
              .density = measured.density,
              .ranges = measured.ranges};
      best_allocations = allocations;
    }
    best.tries = attempt + 1;
    if (holds && close) break;
  }
  if (!best.found) {
    // Looking at everything costs nothing.
    for (int64_t range = 0; range < ranges; ++range)
      best_allocations.push_back(allocate_cost(choices[static_cast<size_t>(range)], 0));
  }
  for (int64_t range = 0; range < ranges; ++range) {
    const Allocation& allocation = best_allocations[static_cast<size_t>(range)];
    apply(selectors, choices[static_cast<size_t>(range)], range, allocation);
    for (const size_t chosen : allocation.chosen) best.dense_heads += chosen == 0 ? 1 : 0;
  }
  if (!best.found) {
    const HeldOutMeasure measured = measure_held_out(model, selectors, held_out, dense_hidden);
    best.divergence = measured.divergence;
    best.density = measured.density;
    best.ranges = measured.ranges;
  }
  best.saves = best.density < 0.98;
  return best;
}

}  // namespace saccade
