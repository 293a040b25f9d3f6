// A series is cut at its gaps into runs; each run is a band, a line and its markers.
#include "saccade/report/lines.h"

#include <algorithm>
#include <cmath>

#include "saccade/base/error.h"

namespace saccade {
namespace {

// Of many points that fall into one column of pixels, four draw the same picture: first, lowest, highest and
// last.
std::vector<Point> thinned(const std::vector<Point>& points, double width) {
  if (static_cast<double>(points.size()) < 6 * width) return points;
  if (!std::ranges::is_sorted(points, {}, &Point::x)) return points;
  std::vector<Point> kept;
  for (size_t first = 0; first < points.size();) {
    size_t end = first, low = first, high = first;
    for (; end < points.size() && std::floor(points[end].x) == std::floor(points[first].x); ++end) {
      if (points[end].y < points[low].y) low = end;
      if (points[end].y > points[high].y) high = end;
    }
    std::vector<size_t> chosen = {first, low, high, end - 1};
    std::ranges::sort(chosen);
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    for (const size_t index : chosen) kept.push_back(points[index]);
    first = end;
  }
  return kept;
}

}  // namespace

void check_series(const LineChart& chart) {
  for (const Series& series : chart.series) {
    require(series.x.size() == series.y.size(), "chart: the series '{}' has {} x and {} y", series.name,
            series.x.size(), series.y.size());
    for (const auto* edge : {&series.low, &series.high})
      require(edge->empty() || edge->size() == series.y.size(),
              "chart: the band of '{}' has {} points; expected {}", series.name, edge->size(),
              series.y.size());
    require(series.low.empty() == series.high.empty(), "chart: the band of '{}' has one edge; expected two",
            series.name);
  }
}

Range x_range(const LineChart& chart) {
  Range range(chart.log_x);
  const Range y(chart.log_y);
  for (const Series& series : chart.series)
    for (size_t index = 0; index < series.x.size(); ++index)
      if (y.shows(series.y[index])) range.add(series.x[index]);
  return range;
}

Range y_range(const LineChart& chart) {
  Range range(chart.log_y);
  const Range x(chart.log_x);
  for (const Series& series : chart.series)
    for (size_t index = 0; index < series.x.size(); ++index) {
      if (!x.shows(series.x[index])) continue;
      range.add(series.y[index]);
      if (series.low.empty() || !range.shows(series.y[index])) continue;
      range.add(series.low[index]);
      range.add(series.high[index]);
    }
  return range;
}

Ink ink_of(const Series& series, size_t index, size_t count, bool ordered) {
  if (series.muted) return {.kind = Ink::Kind::muted};
  if (ordered)
    return {.kind = Ink::Kind::sequence,
            .place = count > 1 ? static_cast<double>(index) / static_cast<double>(count - 1) : 0};
  return {.kind = Ink::Kind::palette, .index = static_cast<int>(index)};
}

bool named_in_legend(size_t index, size_t count, bool ordered) {
  constexpr size_t kShown = 7;
  if (!ordered || count <= kShown) return true;
  const double stride = static_cast<double>(count - 1) / (kShown - 1);
  const double nearest = std::round(std::round(static_cast<double>(index) / stride) * stride);
  return static_cast<size_t>(nearest) == index;
}

bool visible(const Series& series, const Axis& x, const Axis& y) {
  for (size_t index = 0; index < series.x.size(); ++index)
    if (x.shows(series.x[index]) && y.shows(series.y[index])) return true;
  return false;
}

void draw_series(Svg& svg, const Box& box, const Axis& x, const Axis& y, const Series& series, const Ink& ink,
                 int shape) {
  const auto exists = [](const Axis& axis, double value) { return std::isfinite(axis.place(value)); };
  const auto across = [&](double value) { return box.left + x.place(value) * box.width; };
  const auto up = [&](double value) { return box.bottom() - y.place(value) * box.height; };
  // The edge of a band that lies beyond the axis, or below every logarithm, ends at the frame.
  const auto edge = [&](double value, double otherwise) {
    const double at = exists(y, value) ? up(value) : otherwise;
    return std::clamp(at, box.top, box.bottom());
  };
  for (size_t first = 0; first < series.x.size();) {
    size_t end = first;
    std::vector<Point> line, low, high;
    for (; end < series.x.size() && exists(x, series.x[end]) && exists(y, series.y[end]); ++end) {
      const Point point{across(series.x[end]), up(series.y[end])};
      line.push_back(point);
      if (series.low.empty()) continue;
      const bool known = !std::isnan(series.low[end]) && !std::isnan(series.high[end]);
      low.push_back({point.x, known ? edge(series.low[end], box.bottom())
                                    : std::clamp(point.y, box.top, box.bottom())});
      high.push_back(
          {point.x, known ? edge(series.high[end], box.top) : std::clamp(point.y, box.top, box.bottom())});
    }
    if (low.size() > 1) {
      std::vector<Point> outline = thinned(high, box.width), back = thinned(low, box.width);
      outline.insert(outline.end(), back.rbegin(), back.rend());
      svg.polygon(outline, "band " + svg.fill(ink));
    } else if (low.size() == 1) {
      svg.line(low.front(), high.front(), "line " + svg.stroke(ink));
    }
    if (line.size() > 1) svg.path(thinned(line, box.width), "line " + svg.stroke(ink));
    if (series.markers || line.size() == 1)
      for (const Point& point : line) svg.marker(point, shape, svg.fill(ink));
    first = std::max(end, first + 1);
  }
}

}  // namespace saccade
