// A matrix as coloured cells with a bar that explains the colours, alone or many in a grid. Cells that have
// room show their value too.
#include <algorithm>
#include <cmath>

#include "saccade/base/error.h"
#include "saccade/report/layout.h"

namespace saccade {
namespace {

// More cells than this in one direction are averaged: they would be smaller than a pixel.
constexpr int64_t kMostCells = 160;

void check(const HeatMap& map) {
  require(map.rows >= 0 && map.columns >= 0 &&
              map.values.size() == static_cast<size_t>(map.rows) * static_cast<size_t>(map.columns),
          "chart: {} values for {} rows and {} columns", map.values.size(), map.rows, map.columns);
  require(map.row_names.empty() || map.row_names.size() == static_cast<size_t>(map.rows),
          "chart: {} names for {} rows", map.row_names.size(), map.rows);
  require(map.column_names.empty() || map.column_names.size() == static_cast<size_t>(map.columns),
          "chart: {} names for {} columns", map.column_names.size(), map.columns);
}

struct Cells {
  int64_t rows, columns;
  std::vector<double> values;
};

Cells coarse(const HeatMap& map) {
  const int64_t high = (map.rows + kMostCells - 1) / kMostCells,
                wide = (map.columns + kMostCells - 1) / kMostCells;
  if (high <= 1 && wide <= 1) return {map.rows, map.columns, map.values};
  const int64_t rows = (map.rows + high - 1) / high, columns = (map.columns + wide - 1) / wide;
  std::vector<double> sums(static_cast<size_t>(rows * columns), 0), counts(sums.size(), 0);
  for (int64_t row = 0; row < map.rows; ++row)
    for (int64_t column = 0; column < map.columns; ++column) {
      const double value = map.values[static_cast<size_t>(row * map.columns + column)];
      const auto cell = static_cast<size_t>(row / high * columns + column / wide);
      if (!std::isfinite(value)) continue;
      sums[cell] += value;
      ++counts[cell];
    }
  for (size_t cell = 0; cell < sums.size(); ++cell) sums[cell] /= counts[cell];  // 0/0: missing
  return {rows, columns, sums};
}

// From values to colours; the same for all maps of a picture.
class Colours {
 public:
  explicit Colours(std::span<const HeatMap> maps) : diverging_(maps.front().diverging) {
    Range range(false);
    for (const HeatMap& map : maps) range.add(coarse(map).values);
    if (maps.front().low) range.add(*maps.front().low);
    if (maps.front().high) range.add(*maps.front().high);
    low_ = maps.front().low.value_or(range.empty() ? 0 : range.low());
    high_ = maps.front().high.value_or(range.empty() ? 1 : range.high());
    if (diverging_) {
      high_ = std::max(std::abs(low_), std::abs(high_));
      if (high_ == 0) high_ = 1;
      low_ = -high_;
    }
    if (low_ == high_) {
      const double room = low_ == 0 ? 1 : std::abs(low_) / 10;
      low_ -= room;
      high_ += room;
    }
  }

  Colour of(double value) const {
    if (diverging_) return diverging_colour(value / high_);
    return sequential_colour(value / (high_ - low_) - low_ / (high_ - low_));
  }
  double low() const { return low_; }
  double high() const { return high_; }

 private:
  bool diverging_;
  double low_, high_;
};

constexpr double kBarWidth = 12, kBarGap = 20;

double bar_room(const Axis& axis) { return kBarGap + kBarWidth + 8 + label_width(axis.ticks()); }

Axis bar_axis(const Colours& colours, Unit unit, double height) {
  Range range(false);
  range.add(colours.low());
  range.add(colours.high());
  return Axis(range, {.unit = unit, .low = colours.low(), .high = colours.high()},
              static_cast<int>(height / 30));
}

void draw_bar(Svg& svg, Point top_left, double height, const Axis& axis, const Colours& colours) {
  const int pieces = std::max(2, static_cast<int>(height / 3));
  for (int piece = 0; piece < pieces; ++piece) {
    const double part = (piece + 0.5) / pieces;
    const double top = top_left.y + height - height * (piece + 1) / pieces;
    // A little higher than its part, so that no seam shows between two.
    svg.rectangle({top_left.x, top, kBarWidth, height / pieces + (piece > 0 ? 0.6 : 0)},
                  colours.of(colours.low() * (1 - part) + colours.high() * part));
  }
  for (const Tick& tick : axis.ticks())
    svg.text({top_left.x + kBarWidth + 6, top_left.y + height * (1 - axis.place(tick.value)) + 4}, tick.label,
             "quiet");
}

std::string name_at(const std::vector<std::string>& names, int64_t index) {
  return names.empty() ? std::to_string(index) : names[static_cast<size_t>(index)];
}

double widest_name(const std::vector<std::string>& names, int64_t count) {
  double widest = names.empty() ? text_width(std::to_string(std::max<int64_t>(count - 1, 0))) : 0;
  for (const std::string& name : names) widest = std::max(widest, text_width(name));
  return widest;
}

void draw_cells(Svg& svg, const Box& box, const HeatMap& map, const Colours& colours) {
  const Cells cells = coarse(map);
  if (cells.rows == 0 || cells.columns == 0) {
    svg.text({box.left + box.width / 2, box.top + box.height / 2}, "nothing to show", "quiet",
             Anchor::middle);
    return;
  }
  const double wide = box.width / static_cast<double>(cells.columns),
               high = box.height / static_cast<double>(cells.rows);
  const double gap = std::min(wide, high) > 8 ? 1 : 0;
  const bool exact = cells.rows == map.rows && cells.columns == map.columns;
  double widest_text = 0;
  for (const double value : cells.values)
    widest_text = std::max(widest_text, text_width(number_text(value, map.unit)));
  const bool written = exact && high >= 15 && wide >= widest_text + 6;
  for (int64_t row = 0; row < cells.rows; ++row)
    for (int64_t column = 0; column < cells.columns; ++column) {
      const double value = cells.values[static_cast<size_t>(row * cells.columns + column)];
      // A cell without a gap reaches a little into the next, so that no seam shows.
      const Box cell{box.left + wide * static_cast<double>(column), box.top + high * static_cast<double>(row),
                     wide - gap + (gap == 0 && column + 1 < cells.columns ? 0.4 : 0),
                     high - gap + (gap == 0 && row + 1 < cells.rows ? 0.4 : 0)};
      if (!std::isfinite(value)) {
        svg.rectangle(cell, "missing");
        continue;
      }
      const Colour colour = colours.of(value);
      svg.rectangle(cell, colour,
                    exact && cells.values.size() <= 4096
                        ? fmt::format("{}, {}: {}", name_at(map.row_names, row),
                                      name_at(map.column_names, column), number_text(value, map.unit))
                        : "");
      if (written)
        svg.text({cell.left + cell.width / 2, cell.top + cell.height / 2 + 4}, number_text(value, map.unit),
                 colour.lightness() < 0.55 ? "small on-dark" : "small on-light", Anchor::middle);
    }
}

void draw_names(Svg& svg, const Box& box, const HeatMap& map, bool below, bool beside, double room) {
  const double wide = box.width / static_cast<double>(std::max<int64_t>(map.columns, 1));
  const double high = box.height / static_cast<double>(std::max<int64_t>(map.rows, 1));
  const double widest = std::min(widest_name(map.column_names, map.columns), 90.0);
  const int across = name_stride(static_cast<size_t>(map.columns), wide, widest + 6);
  const int down = name_stride(static_cast<size_t>(map.rows), high, 14);
  for (int64_t column = 0; below && column < map.columns; column += across)
    svg.text({box.left + wide * (static_cast<double>(column) + 0.5), box.bottom() + 16},
             fitted(name_at(map.column_names, column), wide * across), "quiet", Anchor::middle);
  for (int64_t row = 0; beside && row < map.rows; row += down)
    svg.text({box.left - 7, box.top + high * (static_cast<double>(row) + 0.5) + 4},
             fitted(name_at(map.row_names, row), room), "quiet", Anchor::end);
}

std::string description(const HeatMap& map, size_t panels) {
  std::string text = fmt::format("Colours for {} by {} values", map.rows, map.columns);
  if (panels > 1) text += fmt::format(" in each of {} panels", panels);
  if (map.rows > kMostCells || map.columns > kMostCells) text += "; neighbours are averaged to make room";
  return text + ".";
}

}  // namespace

std::string to_svg(const HeatMap& chart, const ChartSize& size) {
  HeatPanels panels{.title = chart.title, .subtitle = chart.subtitle, .columns = 1, .panels = {chart}};
  panels.panels.front().title.clear();
  return to_svg(panels, size);
}

std::string to_svg(const HeatPanels& chart, const ChartSize& size) {
  require(chart.columns > 0, "chart: {} columns of panels; expected at least 1", chart.columns);
  require(!chart.panels.empty(), "chart: it has no panels; expected at least 1");
  const HeatMap& first = chart.panels.front();
  bool titles = false;
  for (const HeatMap& panel : chart.panels) {
    check(panel);
    require(panel.rows == first.rows && panel.columns == first.columns,
            "chart: a panel of {} by {} values beside one of {} by {}", panel.rows, panel.columns, first.rows,
            first.columns);
    titles |= !panel.title.empty();
  }
  const int count = static_cast<int>(chart.panels.size()), columns = std::min(chart.columns, count);
  const int rows = (count + columns - 1) / columns;
  const Colours colours(chart.panels);
  const bool captioned = !first.y_label.empty() || !first.value_label.empty();
  const double gap = 16, caption = titles ? 22 : 0;
  const double top = heading_height(chart.title, chart.subtitle) + (captioned ? 33 : 12);
  const double below = kMargin + (first.x_label.empty() ? 18 : 34);
  const double names_room = std::min(widest_name(first.row_names, first.rows), size.width / 4);
  const double left = kMargin + names_room + 7;
  // Few rows stay flat, square matrices square.
  const double bar_guess = kBarGap + kBarWidth + 50;
  const double width_each =
      std::max(20.0, (size.width - left - kMargin - bar_guess - gap * (columns - 1)) / columns);
  const double across = static_cast<double>(std::max<int64_t>(first.columns, 1));
  const auto down = static_cast<double>(std::max<int64_t>(first.rows, 1));
  const double natural = std::clamp(width_each * down / across, std::min(down, 16.0) * 9,
                                    std::min(down * 32, columns > 1 ? 300.0 : 460.0));
  const double high_each =
      size.height > 0 ? std::max(20.0, (size.height - top - below - gap * (rows - 1)) / rows - caption)
                      : std::max(natural, rows == 1 ? 90.0 : 30.0);
  const double all_high = rows * (high_each + caption) + gap * (rows - 1);
  const double bar_height = std::min(all_high - caption, 320.0);
  const Axis axis = bar_axis(colours, first.unit, bar_height);
  const double panel_width =
      std::max(20.0, (size.width - left - kMargin - bar_room(axis) - gap * (columns - 1)) / columns);
  const double height = top + all_high + below;

  Svg svg(size.width, height, chart.title, description(first, chart.panels.size()));
  draw_heading(svg, size.width, chart.title, chart.subtitle);
  svg.text({kMargin, top - 10}, fitted(first.y_label, size.width / 2 - kMargin), "quiet");
  svg.text({size.width - kMargin, top - 10}, fitted(first.value_label, size.width / 2 - kMargin), "quiet",
           Anchor::end);
  for (int index = 0; index < count; ++index) {
    const HeatMap& panel = chart.panels[static_cast<size_t>(index)];
    const int row = index / columns, column = index % columns;
    const Box box{left + column * (panel_width + gap), top + caption + row * (high_each + caption + gap),
                  panel_width, high_each};
    svg.text({box.left, box.top - 7}, fitted(panel.title, panel_width), "panel");
    draw_cells(svg, box, panel, colours);
    draw_names(svg, box, panel, index + columns >= count, column == 0, names_room);
  }
  const double right = left + columns * panel_width + (columns - 1) * gap;
  draw_bar(svg, {right + kBarGap, top + caption}, bar_height, axis, colours);
  svg.text({left + (right - left) / 2, height - kMargin + 2}, first.x_label, "quiet", Anchor::middle);
  return svg.finish();
}

}  // namespace saccade
