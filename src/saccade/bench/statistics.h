// The few numbers that sum up a series of measurements: its middle, its spread, and how it grows.
#pragma once

#include <span>
#include <vector>

namespace saccade::bench {

// The middle value; of an even number of values the mean of the two in the middle. NaN of none.
double median(std::vector<double> values);

struct Summary {
  double median, low, high;
};
Summary summarise(const std::vector<double>& values);

// The exponent e of the power law y = c x^e that fits best: the slope of the least-squares line through the
// logarithms. NaN when fewer than two different x are given, or a number is not positive.
double growth_exponent(std::span<const double> x, std::span<const double> y);

}  // namespace saccade::bench
