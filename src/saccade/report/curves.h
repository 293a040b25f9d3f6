// Curves over the steps of trainings: averaged over seeds, with their spread, and thinned out for long ones.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "saccade/base/json.h"
#include "saccade/report/chart.h"

namespace saccade {

struct MeanAndDeviation {
  double mean, deviation;  ///< Of a sample: divided by n - 1; 0 for a single value. NaN for none.
};
/// Of the finite ones.
MeanAndDeviation mean_and_deviation(std::span<const double> values);

using Curve = std::map<std::int64_t, double>;  ///< By step.

/// A member of each line, such as "/validation/loss", where there is one.
Curve curve_of(std::span<const Json> lines, const std::string& pointer);

/// Means of so many neighbouring steps that about `most` points are left; `window` says how many.
Curve thinned(const Curve& curve, std::size_t most, std::int64_t& window);

/// The mean of several at the steps that any of them has, with a band of one deviation where there are two or
/// more.
Series mean_curve(const std::string& name, std::span<const Curve> curves);

}  // namespace saccade
