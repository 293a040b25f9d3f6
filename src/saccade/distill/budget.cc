// For a price of density every head chooses by itself what is cheapest; the price is then searched for.
#include "saccade/distill/budget.h"

#include <algorithm>
#include <cmath>

#include "saccade/base/error.h"

namespace saccade {
namespace {

constexpr int kHalvings = 80;
constexpr double kLowestPrice = 1e-14, kHighestPrice = 1e6;

Allocation at_price(const std::vector<HeadChoices>& heads, double price) {
  Allocation result;
  for (const HeadChoices& head : heads) {
    size_t best = 0;
    for (size_t choice = 1; choice < head.cost.size(); ++choice)
      if (head.cost[choice] + price * head.density[choice] < head.cost[best] + price * head.density[best])
        best = choice;
    result.chosen.push_back(best);
    result.cost += head.cost[best];
    result.density += head.density[best] / static_cast<double>(heads.size());
  }
  return result;
}

// The last price, going up from the lowest, at which `fits` holds.
template <class Fits>
Allocation search(const std::vector<HeadChoices>& heads, Fits fits) {
  double low = std::log(kLowestPrice), high = std::log(kHighestPrice);
  for (int step = 0; step < kHalvings; ++step) {
    const double middle = (low + high) / 2;
    (fits(at_price(heads, std::exp(middle))) ? low : high) = middle;
  }
  return at_price(heads, std::exp(low));
}

}  // namespace

HeadChoices HeadChoices::refined(int64_t between) const {
  invariant(settings.size() == density.size() && settings.size() == cost.size() && settings.size() >= 2,
            "budget: a head without choices");
  HeadChoices result;
  const auto add = [&](double setting, double share, double price) {
    result.settings.push_back(setting);
    result.density.push_back(share);
    // Rounding must not make fewer keys cheaper.
    result.cost.push_back(result.cost.empty() ? price : std::max(price, result.cost.back()));
  };
  double highest = 0;
  std::vector<double> rising;
  for (const double price : cost) rising.push_back(highest = std::max(highest, price));
  for (size_t at = 0; at < settings.size(); ++at) {
    add(settings[at], density[at], rising[at]);
    const bool inner = at > 0 && at + 2 < settings.size();
    if (!inner) continue;
    for (int64_t step = 1; step <= between; ++step) {
      const double share = static_cast<double>(step) / static_cast<double>(between + 1);
      const auto geometric = [&](double a, double b) {
        return a > 0 && b > 0 ? std::exp(std::lerp(std::log(a), std::log(b), share)) : std::lerp(a, b, share);
      };
      add(geometric(settings[at], settings[at + 1]), std::lerp(density[at], density[at + 1], share),
          geometric(rising[at], rising[at + 1]));
    }
  }
  return result;
}

Allocation allocate_cost(const std::vector<HeadChoices>& heads, double budget) {
  return search(heads, [&](const Allocation& tried) { return tried.cost <= budget; });
}

Allocation allocate_density(const std::vector<HeadChoices>& heads, double density) {
  // The price above the last one that keeps too much is the first that keeps little enough.
  double low = std::log(kLowestPrice), high = std::log(kHighestPrice);
  for (int step = 0; step < kHalvings; ++step) {
    const double middle = (low + high) / 2;
    (at_price(heads, std::exp(middle)).density > density ? low : high) = middle;
  }
  return at_price(heads, std::exp(high));
}

}  // namespace saccade
