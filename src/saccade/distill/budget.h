// Dividing a budget of divergence among heads: each is set to what saves most for what it costs. Knows
// numbers only.
#pragma once

#include <cstddef>
#include <vector>

namespace saccade {

// What a head could be set to, from all keys to the fewest. Costs are made to rise with fewer keys, as they
// would if they were measured on endless text.
struct HeadChoices {
  std::vector<double> settings, density, cost;

  // Settings between the given ones, for a finer choice; those at both ends, which may be 0 or infinite, stay
  // as they are.
  HeadChoices refined(int64_t between) const;
};

struct Allocation {
  std::vector<size_t> chosen;  // by head, a place among its choices
  double cost = 0;             // of all heads together
  double density = 0;          // mean over heads
};

// The lowest density that costs at most `budget`.
Allocation allocate_cost(const std::vector<HeadChoices>& heads, double budget);
// The lowest cost of at most this mean density, or the lowest density if none is as low.
Allocation allocate_density(const std::vector<HeadChoices>& heads, double density);

}  // namespace saccade
