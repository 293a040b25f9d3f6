#include "saccade/train/spread.h"

#include <cmath>
#include <limits>
#include <vector>

#include "saccade/base/error.h"

namespace saccade {
namespace {

// The regularised incomplete beta function by its continued fraction, evaluated from the front by Lentz's
// method.
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  // The fraction converges quickly only on one side of the mean.
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(b, a, 1 - x);
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x)) /
      a;
  constexpr double kTiny = 1e-300;
  double f = 1, c = 1, d = 0;
  for (int i = 0; i <= 300; ++i) {
    const double m = i / 2;
    const double term = i == 0       ? 1
                        : i % 2 == 0 ? m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
                                     : -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 + term * d;
    c = 1 + term / c;
    if (std::fabs(d) < kTiny) d = kTiny;
    if (std::fabs(c) < kTiny) c = kTiny;
    d = 1 / d;
    f *= c * d;
    if (std::fabs(1 - c * d) < 1e-14) break;
  }
  return front * (f - 1);
}

}  // namespace

Spread spread_of(std::span<const double> values) {
  Spread spread;
  if (values.empty())
    return {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  const auto count = static_cast<double>(values.size());
  for (const double value : values) spread.mean += value / count;
  if (values.size() < 2) return spread;
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  spread.deviation = std::sqrt(squares / (count - 1));
  return spread;
}

double paired_p_value(std::span<const double> a, std::span<const double> b) {
  require(a.size() == b.size(), "paired test: {} values and {}; expected as many", a.size(), b.size());
  if (a.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> differences;
  for (size_t index = 0; index < a.size(); ++index) differences.push_back(a[index] - b[index]);
  const Spread spread = spread_of(differences);
  if (spread.deviation == 0) return spread.mean == 0 ? 1 : 0;
  const auto count = static_cast<double>(a.size());
  const double t = spread.mean / (spread.deviation / std::sqrt(count)), freedom = count - 1;
  return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

}  // namespace saccade
