#include "saccade/report/curves.h"

#include <cmath>

namespace saccade {

MeanAndDeviation mean_and_deviation(std::span<const double> values) {
  double sum = 0, count = 0, squares = 0;
  for (const double value : values)
    if (std::isfinite(value)) {
      sum += value;
      ++count;
    }
  const double mean = count > 0 ? sum / count : std::nan("");
  for (const double value : values)
    if (std::isfinite(value)) squares += (value - mean) * (value - mean);
  return {mean, count > 1 ? std::sqrt(squares / (count - 1)) : count > 0 ? 0 : std::nan("")};
}

Curve curve_of(std::span<const Json> lines, const std::string& pointer) {
  const Json::json_pointer place(pointer);
  Curve curve;
  for (const Json& line : lines) {
    if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer()) continue;
    if (!line.contains(place) || !line.at(place).is_number()) continue;
    curve[line["step"].get<std::int64_t>()] = line.at(place).get<double>();
  }
  return curve;
}

Curve thinned(const Curve& curve, std::size_t most, std::int64_t& window) {
  const auto size = static_cast<std::int64_t>(curve.size());
  window = std::max<std::int64_t>(
      1, (size + static_cast<std::int64_t>(most) - 1) / static_cast<std::int64_t>(most));
  if (window == 1) return curve;
  Curve result;
  double sum = 0;
  std::int64_t count = 0;
  for (const auto& [step, value] : curve) {
    sum += value;
    if (++count < window) continue;
    result[step] = sum / static_cast<double>(count);
    sum = 0;
    count = 0;
  }
  if (count > 0) result[curve.rbegin()->first] = sum / static_cast<double>(count);
  return result;
}

Series mean_curve(const std::string& name, std::span<const Curve> curves) {
  std::map<std::int64_t, std::vector<double>> by_step;
  for (const Curve& curve : curves)
    for (const auto& [step, value] : curve) by_step[step].push_back(value);
  Series series{.name = name};
  for (const auto& [step, values] : by_step) {
    const MeanAndDeviation found = mean_and_deviation(values);
    series.x.push_back(static_cast<double>(step));
    series.y.push_back(found.mean);
    if (curves.size() < 2) continue;
    series.low.push_back(found.mean - found.deviation);
    series.high.push_back(found.mean + found.deviation);
  }
  series.markers = series.x.size() <= 12;
  return series;
}

}  // namespace saccade
