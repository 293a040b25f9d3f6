// Whether two things differ when each was tried under the same few circumstances.
#pragma once

#include <span>

namespace saccade {

struct Spread {
  double mean = 0, deviation = 0;  // of a sample: divided by n - 1; 0 for a single value
};
Spread spread_of(std::span<const double> values);

// Student's test on pairs: the probability of a mean difference at least this large, in either direction, if
// there were none. NaN for fewer than two pairs; 0 when all differences are the same and not 0, 1 when all
// are 0.
double paired_p_value(std::span<const double> a, std::span<const double> b);

}  // namespace saccade
