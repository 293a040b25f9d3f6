// The interval rules of the operations. Each returns bounds that hold every value the operation can take on
// its operands' intervals; where infinities meet, the rule widens rather than guesses.
#include "saccade/formula/interval.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>

namespace saccade {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;

// The hull of candidate extremes. A NaN among them (inf - inf, 0 * inf) means that the corners do not tell:
// widen.
Interval corners(std::initializer_list<double> values, bool nan) {
  Interval result{kInfinity, -kInfinity, nan};
  for (double value : values) {
    if (std::isnan(value)) return Interval::everything();
    result.low = std::min(result.low, value);
    result.high = std::max(result.high, value);
  }
  return result;
}

template <class F>
Interval monotone(Interval x, F f) {
  return corners({f(x.low), f(x.high)}, x.nan);
}

bool is_unbounded(Interval x) { return std::isinf(x.low) || std::isinf(x.high); }

bool is_integer(double value) { return std::isfinite(value) && value == std::floor(value); }

}  // namespace

Interval hull(Interval a, Interval b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.nan || b.nan};
}

namespace bounds {

Interval add(Interval x, Interval y, Interval) {
  const bool opposite_infinities =
      (x.low == -kInfinity && y.high == kInfinity) || (x.high == kInfinity && y.low == -kInfinity);
  const double low = x.low + y.low, high = x.high + y.high;
  return {std::isnan(low) ? -kInfinity : low, std::isnan(high) ? kInfinity : high,
          x.nan || y.nan || opposite_infinities};
}

Interval negate(Interval x, Interval, Interval) { return {-x.high, -x.low, x.nan}; }

Interval subtract(Interval x, Interval y, Interval) { return add(x, negate(y, {}, {}), {}); }

Interval multiply(Interval x, Interval y, Interval) {
  // 0 * inf is NaN, also where the 0 is no corner; next to it lie 0 * finite and small * inf, which the other
  // corners cover.
  const bool nan = (x.contains(0) && is_unbounded(y)) || (y.contains(0) && is_unbounded(x));
  const auto product = [](double a, double b) { return a == 0 || b == 0 ? 0 : a * b; };
  return corners(
      {product(x.low, y.low), product(x.low, y.high), product(x.high, y.low), product(x.high, y.high)},
      nan || x.nan || y.nan);
}

Interval divide(Interval x, Interval y, Interval) {
  if (y.low <= 0 && y.high >= 0) return Interval::everything();
  return corners({x.low / y.low, x.low / y.high, x.high / y.low, x.high / y.high}, x.nan || y.nan);
}

Interval floor(Interval x, Interval, Interval) { return {std::floor(x.low), std::floor(x.high), x.nan}; }

Interval floor_divide(Interval x, Interval y, Interval) { return floor(divide(x, y, {}), {}, {}); }

Interval modulo(Interval x, Interval y, Interval) {
  if (y.low <= 0 && y.high >= 0) return Interval::everything();
  const bool nan = x.nan || y.nan || is_unbounded(x) || is_unbounded(y);
  if (y.is_point() && !is_unbounded(x) && !is_unbounded(y)) {
    const double first = std::floor(x.low / y.low), last = std::floor(x.high / y.low);
    if (first == last) return corners({x.low - y.low * first, x.high - y.low * first}, nan);
  }
  // A remainder comes as close to the divisor as the operands allow; whole numbers are a matter for the
  // caller.
  return y.low > 0 ? Interval{0, y.high, nan} : Interval{y.low, 0, nan};
}

Interval power(Interval x, Interval y, Interval) {
  const bool nan = x.nan || y.nan;
  if (x.low >= 0) {
    // exp(y log x) is monotone in each operand, so the extremes are at the corners.
    Interval result = corners(
        {std::pow(x.low, y.low), std::pow(x.low, y.high), std::pow(x.high, y.low), std::pow(x.high, y.high)},
        nan);
    if (x.low == 0 && y.low <= -1) result = hull(result, {});  // a zero has a sign, and 1 / -0 is -inf
    return result;
  }
  if (!y.is_point() || !is_integer(y.low)) return Interval::everything();
  const bool even = std::fmod(y.low, 2) == 0;
  if (y.low < 0 && x.high >= 0) return Interval::everything();
  Interval result = corners({std::pow(x.low, y.low), std::pow(x.high, y.low)}, nan);
  if (even && x.high >= 0) result.low = std::min(result.low, y.low == 0 ? 1.0 : 0.0);
  return result;
}

// Comparisons with a NaN are false (true for !=), so a possible NaN takes away the certainty of the other
// outcome.
Interval less(Interval x, Interval y, Interval) {
  return Interval::boolean(x.high >= y.low || x.nan || y.nan, x.low < y.high);
}
Interval less_equal(Interval x, Interval y, Interval) {
  return Interval::boolean(x.high > y.low || x.nan || y.nan, x.low <= y.high);
}
Interval greater(Interval x, Interval y, Interval) { return less(y, x, {}); }
Interval greater_equal(Interval x, Interval y, Interval) { return less_equal(y, x, {}); }
Interval equal(Interval x, Interval y, Interval) {
  const bool overlap = x.low <= y.high && y.low <= x.high;
  return Interval::boolean(!(x.is_point() && y.is_point() && x.low == y.low), overlap);
}
Interval not_equal(Interval x, Interval y, Interval) { return logical_not(equal(x, y, {}), {}, {}); }

Interval logical_and(Interval x, Interval y, Interval) {
  return {std::min(x.low, y.low), std::min(x.high, y.high), false};
}
Interval logical_or(Interval x, Interval y, Interval) {
  return {std::max(x.low, y.low), std::max(x.high, y.high), false};
}
Interval logical_not(Interval x, Interval, Interval) { return {1 - x.high, 1 - x.low, false}; }

Interval abs(Interval x, Interval, Interval) {
  const double high = std::max(std::fabs(x.low), std::fabs(x.high));
  if (x.low <= 0 && x.high >= 0) return {0, high, x.nan};
  return {std::min(std::fabs(x.low), std::fabs(x.high)), high, x.nan};
}

Interval sign(Interval x, Interval, Interval) {
  return {x.low > 0 ? 1.0 : x.low == 0 ? 0.0 : -1.0, x.high < 0 ? -1.0 : x.high == 0 ? 0.0 : 1.0, x.nan};
}

Interval min(Interval x, Interval y, Interval) {
  return {std::min(x.low, y.low), std::min(x.high, y.high), x.nan || y.nan};
}
Interval max(Interval x, Interval y, Interval) {
  return {std::max(x.low, y.low), std::max(x.high, y.high), x.nan || y.nan};
}
Interval clamp(Interval x, Interval y, Interval z) { return min(max(x, y, {}), z, {}); }

Interval sqrt(Interval x, Interval, Interval) {
  if (x.high < 0) return Interval::everything();
  return {std::sqrt(std::max(0.0, x.low)), std::sqrt(x.high), x.nan || x.low < 0};
}

Interval exp(Interval x, Interval, Interval) {
  return monotone(x, [](double v) { return std::exp(v); });
}

Interval log(Interval x, Interval, Interval) {
  if (x.high < 0) return Interval::everything();
  return {std::log(std::max(0.0, x.low)), std::log(x.high), x.nan || x.low < 0};
}

Interval log1p(Interval x, Interval, Interval) {
  if (x.high < -1) return Interval::everything();
  return {std::log1p(std::max(-1.0, x.low)), std::log1p(x.high), x.nan || x.low < -1};
}

Interval tanh(Interval x, Interval, Interval) {
  return monotone(x, [](double v) { return std::tanh(v); });
}

Interval sigmoid(Interval x, Interval, Interval) {
  return monotone(x,
                  [](double v) { return v >= 0 ? 1 / (1 + std::exp(-v)) : std::exp(v) / (1 + std::exp(v)); });
}

Interval relu(Interval x, Interval, Interval) { return {std::max(0.0, x.low), std::max(0.0, x.high), x.nan}; }

Interval cos(Interval x, Interval, Interval) {
  const bool unbounded = std::isinf(x.low) || std::isinf(x.high);
  if (unbounded || x.high - x.low >= 2 * kPi || std::fabs(x.low) > 1e9 || std::fabs(x.high) > 1e9)
    return {-1, 1, x.nan || unbounded};
  Interval result = corners({std::cos(x.low), std::cos(x.high)}, x.nan);
  // Even multiples of pi are maxima, odd ones minima.
  const double first = std::ceil(x.low / kPi), last = std::floor(x.high / kPi);
  for (double multiple = first; multiple <= last; multiple += 1) {
    if (std::fmod(multiple, 2) == 0)
      result.high = 1;
    else
      result.low = -1;
  }
  return result;
}

Interval sin(Interval x, Interval, Interval) {
  Interval shifted = cos({x.low - kPi / 2, x.high - kPi / 2, x.nan}, {}, {});
  // The shift is rounded; a hair of slack keeps the bound safe.
  return {std::max(-1.0, shifted.low - 1e-6), std::min(1.0, shifted.high + 1e-6), shifted.nan};
}

Interval where(Interval x, Interval y, Interval z) {
  if (x.always_true()) return y;
  if (x.always_false()) return z;
  return hull(y, z);
}

}  // namespace bounds
}  // namespace saccade
