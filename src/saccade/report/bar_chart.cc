// Bars in groups, upright or lying, with whiskers. Both directions are one drawing: a bar has a place along
// the categories and an extent along the values.
#include <algorithm>
#include <cmath>

#include "saccade/base/error.h"
#include "saccade/report/layout.h"

namespace saccade {
namespace {

void check(const BarChart& chart) {
  for (const BarSeries& series : chart.series) {
    for (const auto* list : {&series.values, &series.low, &series.high})
      require((list->empty() && list != &series.values) || list->size() == chart.categories.size(),
              "chart: the bars '{}' have {} numbers for {} categories", series.name, list->size(),
              chart.categories.size());
    require(series.low.empty() == series.high.empty(),
            "chart: the whiskers of '{}' have one end; expected two", series.name);
  }
}

Range values_of(const BarChart& chart) {
  Range range(chart.log_value);
  if (!chart.log_value) range.add(0.0);
  for (const BarSeries& series : chart.series)
    for (const auto* list : {&series.values, &series.low, &series.high}) range.add(*list);
  return range;
}

struct Drawing {
  const BarChart& chart;
  const Axis& axis;
  Box box;

  // From along categories (pixels) and along values (0 to 1) to the page.
  Point at(double along, double share) const {
    return chart.horizontal ? Point{box.left + share * box.width, box.top + along}
                            : Point{box.left + along, box.bottom() - share * box.height};
  }
  double length() const { return chart.horizontal ? box.height : box.width; }
  double slot() const { return length() / static_cast<double>(std::max<size_t>(chart.categories.size(), 1)); }

  void bars(Svg& svg) const {
    const double base = std::clamp(chart.log_value ? 0.0 : axis.place(0), 0.0, 1.0);
    const double gap = std::min(slot() * 0.24, 24.0);
    const double thick =
        std::min((slot() - gap) / static_cast<double>(std::max<size_t>(chart.series.size(), 1)), 46.0);
    for (size_t index = 0; index < chart.series.size(); ++index) {
      const BarSeries& series = chart.series[index];
      const Ink ink{.index = static_cast<int>(index)};
      for (size_t category = 0; category < chart.categories.size(); ++category) {
        const double middle = slot() * (static_cast<double>(category) + 0.5);
        const double start =
            middle + thick * (static_cast<double>(index) - static_cast<double>(chart.series.size()) / 2);
        const double value = series.values[category];
        if (!axis.shows(value)) continue;
        const double inset = thick > 4 ? 0.5 : 0;
        const Point a = at(start + inset, base), b = at(start + thick - inset, axis.place(value));
        svg.rectangle({std::min(a.x, b.x), std::min(a.y, b.y), std::abs(a.x - b.x), std::abs(a.y - b.y)},
                      "bar " + svg.fill(ink));
        if (!series.low.empty())
          whisker(svg, start + thick / 2, std::min(thick / 4, 5.0), series.low[category],
                  series.high[category]);
      }
    }
  }

  void whisker(Svg& svg, double along, double half, double low, double high) const {
    if (std::isnan(low) || std::isnan(high)) return;
    const auto share = [&](double value, double otherwise) {
      const double place = axis.place(value);
      return std::isfinite(place) ? std::clamp(place, 0.0, 1.0) : otherwise;
    };
    const double from = share(low, 0), to = share(high, 1);
    svg.line(at(along, from), at(along, to), "whisker");
    for (const double end : {from, to}) svg.line(at(along - half, end), at(along + half, end), "whisker");
  }
};

}  // namespace

std::string to_svg(const BarChart& chart, const ChartSize& size) {
  check(chart);
  const auto categories = static_cast<double>(chart.categories.size());
  const double group = 12 + 18 * static_cast<double>(std::max<size_t>(chart.series.size(), 1));
  double widest = 0;
  for (const std::string& name : chart.categories) widest = std::max(widest, text_width(name));
  std::vector<LegendEntry> legend;
  if (chart.series.size() > 1)
    for (size_t index = 0; index < chart.series.size(); ++index)
      legend.push_back({chart.series[index].name, {.index = static_cast<int>(index)}, -1, true});
  const double legend_room = legend.empty() ? 0 : legend_height(legend, size.width - 2 * kMargin) + 8;
  const std::string& above = chart.horizontal ? chart.category_label : chart.value_label;
  const std::string& below = chart.horizontal ? chart.value_label : chart.category_label;
  const double top = heading_height(chart.title, chart.subtitle) + legend_room + (above.empty() ? 12 : 32);
  const double foot = kMargin + (below.empty() ? 20 : 34);
  const double height = size.height > 0    ? size.height
                        : chart.horizontal ? top + foot + categories * group
                                           : 360;
  const double plot_height = std::max(40.0, height - top - foot);
  const Axis axis(values_of(chart), {.unit = chart.unit},
                  static_cast<int>(chart.horizontal ? (size.width - widest) / 90 : plot_height / 48));
  const double names_room = chart.horizontal ? std::min(widest, size.width * 0.4) : label_width(axis.ticks());
  const double left = kMargin + names_room + 8;
  const double overhang =
      chart.horizontal && !axis.ticks().empty() ? text_width(axis.ticks().back().label) / 2 : 0;
  const Drawing drawing{
      chart,
      axis,
      {left, top, std::max(40.0, size.width - left - std::max(kMargin, 8 + overhang)), plot_height}};
  const Box& box = drawing.box;

  Svg svg(size.width, height, chart.title,
          fmt::format("Bars of {} for {} categories.", chart.value_label, chart.categories.size()));
  draw_heading(svg, size.width, chart.title, chart.subtitle);
  draw_legend(svg, {kMargin, heading_height(chart.title, chart.subtitle) + 4}, size.width - 2 * kMargin,
              legend);
  for (const Tick& tick : axis.ticks()) {
    svg.line(drawing.at(0, axis.place(tick.value)), drawing.at(drawing.length(), axis.place(tick.value)),
             "grid");
    const Point foot_of = drawing.at(chart.horizontal ? drawing.length() : 0, axis.place(tick.value));
    if (chart.horizontal)
      svg.text({foot_of.x, foot_of.y + 18}, tick.label, "quiet", Anchor::middle);
    else
      svg.text({foot_of.x - 8, foot_of.y + 4}, tick.label, "quiet", Anchor::end);
  }
  drawing.bars(svg);
  const double base = std::clamp(chart.log_value ? 0.0 : axis.place(0), 0.0, 1.0);
  svg.line(drawing.at(0, base), drawing.at(drawing.length(), base), "axis");
  const int stride = name_stride(chart.categories.size(), drawing.slot(),
                                 chart.horizontal ? 13 : std::min(widest, 90.0) + 8);
  for (size_t category = 0; category < chart.categories.size(); category += static_cast<size_t>(stride)) {
    const double along = drawing.slot() * (static_cast<double>(category) + 0.5);
    if (chart.horizontal)
      svg.text({box.left - 8, box.top + along + 4}, fitted(chart.categories[category], names_room), "",
               Anchor::end);
    else
      svg.text({box.left + along, box.bottom() + 18},
               fitted(chart.categories[category], drawing.slot() * stride), "quiet", Anchor::middle);
  }
  svg.text({kMargin, box.top - 10}, above, "quiet");
  svg.text({box.left + box.width / 2, box.bottom() + 36}, below, "quiet", Anchor::middle);
  return svg.finish();
}

}  // namespace saccade
