// Small line charts in a grid. Only the outer panels carry tick labels, since all axes are the same, and one
// legend names the series of all.
#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/report/layout.h"
#include "saccade/report/lines.h"

namespace saccade {
namespace {

// A series has the colour of its name, whichever panel it is in.
struct Cast {
  std::vector<std::string> names;
  size_t index_of(const std::string& name) const {
    return static_cast<size_t>(std::ranges::find(names, name) - names.begin());
  }
};

Cast cast_of(const LinePanels& chart) {
  Cast cast;
  for (const LineChart& panel : chart.panels)
    for (const Series& series : panel.series)
      if (cast.index_of(series.name) == cast.names.size()) cast.names.push_back(series.name);
  return cast;
}

std::vector<LegendEntry> legend_of(const LinePanels& chart, const Cast& cast, bool ordered) {
  std::vector<LegendEntry> entries;
  if (cast.names.size() < 2) return entries;
  std::vector<bool> seen(cast.names.size(), false);
  for (const LineChart& panel : chart.panels)
    for (const Series& series : panel.series) {
      const size_t index = cast.index_of(series.name);
      if (series.name.empty() || seen[index] || !named_in_legend(index, cast.names.size(), ordered)) continue;
      seen[index] = true;
      entries.push_back({series.name, ink_of(series, index, cast.names.size(), ordered),
                         series.markers ? static_cast<int>(index) : -1});
    }
  return entries;
}

}  // namespace

std::string to_svg(const LinePanels& chart, const ChartSize& size) {
  require(chart.columns > 0, "chart: {} columns of panels; expected at least 1", chart.columns);
  require(!chart.panels.empty(), "chart: it has no panels; expected at least 1");
  const LineChart& first = chart.panels.front();
  Range x_values(first.log_x), y_values(first.log_y);
  for (const LineChart& panel : chart.panels) {
    check_series(panel);
    x_values.add(x_range(panel));
    y_values.add(y_range(panel));
  }
  const int count = static_cast<int>(chart.panels.size()), columns = std::min(chart.columns, count);
  const int rows = (count + columns - 1) / columns;
  const Cast cast = cast_of(chart);
  const std::vector<LegendEntry> legend = legend_of(chart, cast, first.ordered);
  constexpr double kGap = 18, kPanelTitle = 22;
  const double legend_room = legend.empty() ? 0 : legend_height(legend, size.width - 2 * kMargin) + 8;
  const double top =
      heading_height(chart.title, chart.subtitle) + legend_room + (first.y_label.empty() ? 4 : 24);
  const double below = kMargin + (first.x_label.empty() ? 20 : 36);
  const double panel_height = size.height > 0
                                  ? std::max(40.0, (size.height - top - below) / rows - kPanelTitle - 8)
                                  : std::clamp(size.width / columns * 0.62, 130.0, 230.0);
  const double height = top + rows * (kPanelTitle + panel_height + 8) + below;
  const Axis y(y_values, {.unit = first.y_unit, .low = first.y_low, .high = first.y_high},
               static_cast<int>(panel_height / 40));
  const double left = kMargin + label_width(y.ticks()) + 8;
  const double panel_width = std::max(30.0, (size.width - left - kMargin - (columns - 1) * kGap) / columns);
  const Axis x(x_values,
               {.unit = first.x_unit,
                .low = first.x_low,
                .high = first.x_high,
                .round_out = false,
                .ticks = first.x_ticks},
               static_cast<int>(panel_width / 60));

  Svg svg(size.width, height, chart.title,
          fmt::format("{} panels of {} by {}.", count, first.y_label, first.x_label));
  draw_heading(svg, size.width, chart.title, chart.subtitle);
  draw_legend(svg, {kMargin, heading_height(chart.title, chart.subtitle) + 4}, size.width - 2 * kMargin,
              legend);
  svg.text({kMargin, top - 6}, first.y_label, "quiet");
  for (int index = 0; index < count; ++index) {
    const LineChart& panel = chart.panels[static_cast<size_t>(index)];
    const int row = index / columns, column = index % columns;
    const Box box{left + column * (panel_width + kGap),
                  top + kPanelTitle + row * (kPanelTitle + panel_height + 8), panel_width, panel_height};
    svg.text({box.left, box.top - 7}, fitted(panel.title, panel_width), "panel");
    // The lowest of its column, also where the last row is not full.
    draw_frame(svg, box, x, y,
               {.x = index + columns >= count, .y = column == 0, .x_label = {}, .y_label = {}});
    svg.begin_clip({box.left - 5, box.top - 5, box.width + 10, box.height + 10});
    for (const Series& series : panel.series) {
      const size_t member = cast.index_of(series.name);
      draw_series(svg, box, x, y, series, ink_of(series, member, cast.names.size(), first.ordered),
                  static_cast<int>(member));
    }
    svg.end_clip();
  }
  svg.text({left + (size.width - left - kMargin) / 2, height - kMargin + 2}, first.x_label, "quiet",
           Anchor::middle);
  return svg.finish();
}

}  // namespace saccade
