// Plain sums: a benchmark has a handful of numbers.
#include "saccade/bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "saccade/base/error.h"

namespace saccade::bench {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double median(std::vector<double> values) {
  if (values.empty()) return kNaN;
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Summary summarise(const std::vector<double>& values) {
  if (values.empty()) return {kNaN, kNaN, kNaN};
  return {median(values), std::ranges::min(values), std::ranges::max(values)};
}

double growth_exponent(std::span<const double> x, std::span<const double> y) {
  invariant(x.size() == y.size(), "growth_exponent: as many x as y");
  double mean_x = 0, mean_y = 0;
  for (size_t index = 0; index < x.size(); ++index) {
    if (!(x[index] > 0 && y[index] > 0)) return kNaN;
    mean_x += std::log(x[index]) / static_cast<double>(x.size());
    mean_y += std::log(y[index]) / static_cast<double>(x.size());
  }
  double covariance = 0, variance = 0;
  for (size_t index = 0; index < x.size(); ++index) {
    const double from_mean = std::log(x[index]) - mean_x;
    covariance += from_mean * (std::log(y[index]) - mean_y);
    variance += from_mean * from_mean;
  }
  return variance > 0 ? covariance / variance : kNaN;
}

}  // namespace saccade::bench
