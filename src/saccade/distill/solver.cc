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
double spread_of(const HeldOutMeasure& measured, double least) {
  double squares = kUsualWeight * kUsualSpread * kUsualSpread, weight = kUsualWeight;
  for (const std::vector<double>& pieces : measured.pieces) {
    double mean = 0;
    for (const double piece : pieces) mean += piece / static_cast<double>(pieces.size());
    if (mean < least) continue;  // nothing but rounding
    for (const double piece : pieces) squares += (piece / mean - 1) * (piece / mean - 1);
    weight += static_cast<double>(pieces.size()) - 1;
  }
  return std::sqrt(squares / weight);
}

// How much more other text may need. Two samples of so many pieces differ by the root of two times what one
// differs from the truth by.
void set_margins(HeldOutMeasure& measured, const Goal& goal, double doubt) {
  const double spread = spread_of(measured, std::max(1e-9, 0.01 * goal.divergence));
  for (size_t at = 0; at < measured.ranges.size(); ++at)
    measured.ranges[at].margin =
        doubt * spread * std::sqrt(2 / static_cast<double>(measured.pieces[at].size()));
}

// Looks for the largest estimated cost whose true divergence is within a target. The estimate is off by a
// factor that changes little, so the next guess is in proportion, but never outside of what is known to hold
// and to fail.
class CostSearch {
 public:
  explicit CostSearch(double first) : next_(first) {}
  double next() const { return next_; }
  void measured(double divergence, double target) {
    if (divergence <= target)
      held_ = std::max(held_, next_);
    else
      failed_ = std::min(failed_, next_);
    double guess = next_ * std::clamp(std::pow(0.975 * target / std::max(divergence, 1e-12), 0.9), 0.1, 5.0);
    if (divergence > target && divergence == last_) guess = std::min(guess, next_ / 2);  // too small a step
    last_ = divergence;
    if (guess > held_ && guess < failed_)
      next_ = guess;
    else if (guess >= failed_)
      next_ = held_ > 0 ? std::sqrt(held_ * failed_) : failed_ / 2;
    else
      next_ = held_;
    if (held_ >= failed_) held_ = 0;  // another range or margin has moved the border
  }
  // To what is known to hold, or far below what failed.
  void go_back() { next_ = held_ > 0 ? held_ : next_ / 4; }

 private:
  double next_, held_ = 0, failed_ = INFINITY, last_ = -1;
};

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
  // By range: estimated costs to allocate, and between which costs the goal begins to fail.
  std::vector<CostSearch> costs(static_cast<size_t>(ranges), CostSearch(goal.divergence * kFirstShare));
  std::vector<double> density(static_cast<size_t>(ranges), goal.density);
  Solution best;
  std::vector<Allocation> best_allocations;
  for (int64_t attempt = 0; attempt < options.tries; ++attempt) {
    std::vector<Allocation> allocations;
    for (int64_t range = 0; range < ranges; ++range) {
      const auto at = static_cast<size_t>(range);
      allocations.push_back(by_divergence ? allocate_cost(choices[at], costs[at].next())
                                          : allocate_density(choices[at], density[at]));
      apply(selectors, choices[at], range, allocations.back());
    }
    HeldOutMeasure measured = measure_held_out(model, selectors, held_out, dense_hidden);
    set_margins(measured, goal, options.doubt);
    bool holds = true, close = true;
    for (size_t at = 0; at < measured.ranges.size(); ++at) {
      const RangeResult& result = measured.ranges[at];
      const double target = goal.divergence / (1 + result.margin);
      holds =
          holds && (by_divergence ? result.divergence <= target : measured.density <= goal.density * 1.005);
      if (by_divergence) {
        close = close && result.divergence > 0.93 * target;
        costs[at].measured(result.divergence, target);
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
    // Towards the end what held in each range by itself is better than another guess.
    if (!best.found && attempt + 3 >= options.tries)
      for (CostSearch& cost : costs) cost.go_back();
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
    HeldOutMeasure measured = measure_held_out(model, selectors, held_out, dense_hidden);
    set_margins(measured, goal, options.doubt);
    best.divergence = measured.divergence;
    best.density = measured.density;
    best.ranges = measured.ranges;
  }
  best.saves = best.density < 0.98;
  return best;
}

}  // namespace saccade
