// A line chart: names at the ends of the lines where these leave room, otherwise a legend under the heading.
#include <algorithm>
#include <cmath>

#include "saccade/base/text.h"
#include "saccade/report/layout.h"
#include "saccade/report/lines.h"

namespace saccade {
namespace {

constexpr double kNameGap = 14, kNameHeight = 15;

struct EndName {
  Point end;     // of the line
  double y = 0;  // of the name
  size_t series = 0;
};

// Moves names apart from top to bottom, then back up from the frame's bottom.
void spread(std::vector<EndName>& names, const Box& box) {
  std::ranges::stable_sort(names, {}, &EndName::y);
  double free_from = box.top;
  for (EndName& name : names) {
    name.y = std::max(name.y, free_from);
    free_from = name.y + kNameHeight;
  }
  double free_to = box.bottom() + 4;
  for (size_t index = names.size(); index-- > 0;) {
    names[index].y = std::min(names[index].y, free_to);
    free_to = names[index].y - kNameHeight;
  }
}

bool at_ends(const LineChart& chart, double height) {
  if (chart.names == Names::at_ends) return true;
  if (chart.names != Names::automatic || chart.ordered) return false;
  double widest = 0;
  size_t named = 0;
  for (const Series& series : chart.series) {
    widest = std::max(widest, text_width(series.name));
    named += series.name.empty() ? 0 : 1;
  }
  return named > 1 && named <= 8 && widest <= 170 && static_cast<double>(named) * kNameHeight * 1.6 < height;
}

std::vector<LegendEntry> legend_of(const LineChart& chart) {
  const size_t count = chart.series.size();
  std::vector<LegendEntry> entries;
  for (size_t index = 0; index < count; ++index) {
    const Series& series = chart.series[index];
    if (series.name.empty() || !named_in_legend(index, count, chart.ordered)) continue;
    entries.push_back({series.name, ink_of(series, index, count, chart.ordered),
                       series.markers ? static_cast<int>(index) : -1});
  }
  return entries;
}

std::string description(const LineChart& chart) {
  std::vector<std::string> names;
  for (const Series& series : chart.series)
    if (!series.name.empty()) names.push_back(series.name);
  return "Lines of " + (chart.y_label.empty() ? "y" : chart.y_label) + " by " +
         (chart.x_label.empty() ? "x" : chart.x_label) + (names.empty() ? "" : ": " + join(names, ", ")) +
         ".";
}

}  // namespace

std::string to_svg(const LineChart& chart, const ChartSize& size) {
  check_series(chart);
  const double width = size.width, height = size.height > 0 ? size.height : 400;
  const size_t count = chart.series.size();
  std::vector<LegendEntry> legend;
  const bool ends = at_ends(chart, height - 120);
  if (!ends && chart.names != Names::none && (count > 1 || chart.names == Names::legend))
    legend = legend_of(chart);
  const double legend_room = legend_height(legend, width - 2 * kMargin);
  const double top = heading_height(chart.title, chart.subtitle) + (legend.empty() ? 0 : legend_room + 8) +
                     (chart.y_label.empty() ? 12 : 32);
  const double bottom = height - kMargin - (chart.x_label.empty() ? 20 : 34);
  const Axis y(y_range(chart), {.unit = chart.y_unit, .low = chart.y_low, .high = chart.y_high},
               static_cast<int>((bottom - top) / 48));
  const double left = kMargin + label_width(y.ticks()) + 8;
  const auto x_axis = [&](double pixels) {
    return Axis(x_range(chart),
                {.unit = chart.x_unit,
                 .low = chart.x_low,
                 .high = chart.x_high,
                 .round_out = false,
                 .ticks = chart.x_ticks},
                static_cast<int>(pixels / 72));
  };
  double names_room = 0;
  if (ends)
    for (const Series& series : chart.series)
      names_room = std::max(names_room, text_width(series.name) + kNameGap);
  names_room = std::min(names_room, width / 3);
  const Axis x = x_axis(width - left - kMargin - names_room);
  // The last label is centred under its tick and must not leave the picture.
  const double overhang =
      x.ticks().empty() ? 0 : text_width(x.ticks().back().label) / 2 * x.place(x.ticks().back().value);
  const Box box{left, top, std::max(40.0, width - left - std::max(kMargin + names_room, 8 + overhang)),
                std::max(40.0, bottom - top)};

  Svg svg(width, height, chart.title, description(chart));
  draw_heading(svg, width, chart.title, chart.subtitle);
  if (!legend.empty())
    draw_legend(svg, {kMargin, heading_height(chart.title, chart.subtitle) + 4}, width - 2 * kMargin, legend);
  draw_frame(svg, box, x, y, {.x_label = chart.x_label, .y_label = chart.y_label});
  const bool bounded = chart.x_low || chart.x_high || chart.y_low || chart.y_high;
  // Markers and thick lines at the very edge stay whole.
  if (bounded) svg.begin_clip({box.left - 5, box.top - 5, box.width + 10, box.height + 10});
  bool anything = false;
  std::vector<EndName> names;
  // What is muted lies below what it is compared with.
  for (const bool muted : {true, false})
    for (size_t index = 0; index < count; ++index) {
      const Series& series = chart.series[index];
      if (series.muted != muted) continue;
      draw_series(svg, box, x, y, series, ink_of(series, index, count, chart.ordered),
                  static_cast<int>(index));
      anything |= visible(series, x, y);
      if (!ends || series.name.empty()) continue;
      for (size_t point = series.x.size(); point-- > 0;)
        if (x.shows(series.x[point]) && y.shows(series.y[point])) {
          const Point end{box.left + x.place(series.x[point]) * box.width,
                          box.bottom() - y.place(series.y[point]) * box.height};
          names.push_back({end, end.y + 4, index});
          break;
        }
    }
  if (bounded) svg.end_clip();
  if (!anything)
    svg.text({box.left + box.width / 2, box.top + box.height / 2}, "nothing to show", "quiet",
             Anchor::middle);
  spread(names, box);
  for (const EndName& name : names) {
    const Series& series = chart.series[name.series];
    const Point start{box.right() + kNameGap - 6, name.y - 4};
    if (start.x - name.end.x > 14 || std::abs(start.y - name.end.y) > 3)
      svg.line({name.end.x + 4, name.end.y}, {start.x - 1, start.y}, "leader");
    svg.text({start.x + 2, name.y}, fitted(series.name, names_room),
             svg.fill(ink_of(series, name.series, count, chart.ordered)));
  }
  return svg.finish();
}

}  // namespace saccade
