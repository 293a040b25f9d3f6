// An axis: a range of numbers, where they fall along a line of pixels, and which of them are labelled.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "saccade/report/chart.h"

namespace saccade {

/// The smallest range that holds all numbers that an axis can show: finite ones and, on a logarithmic axis,
/// positive ones.
class Range {
 public:
  explicit Range(bool log) : log_(log) {}

  bool shows(double value) const;
  void add(double value);
  void add(std::span<const double> values);
  void add(const Range& other);
  bool empty() const { return low_ > high_; }
  double low() const { return low_; }
  double high() const { return high_; }
  bool log() const { return log_; }

 private:
  bool log_;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -std::numeric_limits<double>::infinity();
};

struct Tick {
  double value;
  std::string label;
};

struct AxisOptions {
  Unit unit = Unit::number;
  std::optional<double> low, high;  // given ends
  bool round_out = true;            // ends that are not given become ticks
  std::vector<double> ticks;        // given ticks; empty: chosen
};

class Axis {
 public:
  /// `wanted` is about how many ticks there is room for.
  Axis(const Range& range, const AxisOptions& options, int wanted);

  /// 0 at the low end, 1 at the high end; beyond these outside of the axis.
  double place(double value) const;
  bool shows(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  void choose_linear(const AxisOptions& options, int wanted);
  void choose_log(const AxisOptions& options, int wanted);

  bool log_;
  double low_ = 0, high_ = 1;
  std::vector<Tick> ticks_;
};

/// A number with few digits: for labels of single values.
std::string number_text(double value, Unit unit = Unit::number);

}  // namespace saccade
