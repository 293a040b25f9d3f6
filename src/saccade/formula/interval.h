// Intervals: what a value can be when its inputs are only known to lie between bounds. They decide, without
// looking at single elements, which tiles of a mask are empty or full and whether a mechanism ever looks
// ahead. A rule may be too wide, never too narrow. Booleans use 0 and 1, so that [0, 1] means "undecided".
#pragma once

#include <limits>

namespace saccade {

struct Interval {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool nan = false;  // the value may also be NaN

  static constexpr Interval everything() { return {.nan = true}; }
  // The bounds are never NaN themselves: minima and maxima of them would lose the other operand.
  static constexpr Interval point(double value) {
    return value == value ? Interval{value, value, false} : everything();
  }
  static constexpr Interval boolean(bool may_be_false, bool may_be_true) {
    return {may_be_false ? 0.0 : 1.0, may_be_true ? 1.0 : 0.0, false};
  }

  constexpr bool is_point() const { return low == high && !nan; }
  constexpr bool contains(double value) const { return value != value ? nan : low <= value && value <= high; }
  constexpr bool always_true() const { return low == 1 && high == 1; }
  constexpr bool always_false() const { return low == 0 && high == 0; }
};

// The smallest interval that holds both.
Interval hull(Interval a, Interval b);

// The interval rules of the operations; `operations.cc` refers to them.
namespace bounds {
Interval add(Interval x, Interval y, Interval);
Interval subtract(Interval x, Interval y, Interval);
Interval multiply(Interval x, Interval y, Interval);
Interval divide(Interval x, Interval y, Interval);
Interval floor_divide(Interval x, Interval y, Interval);
Interval modulo(Interval x, Interval y, Interval);
Interval negate(Interval x, Interval, Interval);
Interval power(Interval x, Interval y, Interval);
Interval less(Interval x, Interval y, Interval);
Interval less_equal(Interval x, Interval y, Interval);
Interval greater(Interval x, Interval y, Interval);
Interval greater_equal(Interval x, Interval y, Interval);
Interval equal(Interval x, Interval y, Interval);
Interval not_equal(Interval x, Interval y, Interval);
Interval logical_and(Interval x, Interval y, Interval);
Interval logical_or(Interval x, Interval y, Interval);
Interval logical_not(Interval x, Interval, Interval);
Interval abs(Interval x, Interval, Interval);
Interval sign(Interval x, Interval, Interval);
Interval min(Interval x, Interval y, Interval);
Interval max(Interval x, Interval y, Interval);
Interval clamp(Interval x, Interval y, Interval z);
Interval floor(Interval x, Interval, Interval);
Interval sqrt(Interval x, Interval, Interval);
Interval exp(Interval x, Interval, Interval);
Interval log(Interval x, Interval, Interval);
Interval log1p(Interval x, Interval, Interval);
Interval tanh(Interval x, Interval, Interval);
Interval sigmoid(Interval x, Interval, Interval);
Interval relu(Interval x, Interval, Interval);
Interval sin(Interval x, Interval, Interval);
Interval cos(Interval x, Interval, Interval);
Interval where(Interval x, Interval y, Interval z);
}  // namespace bounds

}  // namespace saccade
