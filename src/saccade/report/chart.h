// Charts as self-contained SVG text, made from plain numbers. A chart says what is shown; how it is laid out,
// where ticks stand and which colours are used follows from the numbers, the same way every time. Pictures
// follow the reader's light or dark theme, and need no font, script or file beside them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace saccade {

/// How numbers along an axis are written.
enum class Unit {
  number,   ///< 0.5, 20, 3k, 10⁻⁶
  bytes,    ///< KiB, MiB, ...
  seconds,  ///< µs, ms, s
  share,    ///< a fraction, shown in per cent
};

/// A line. A point that is not finite, or not positive on a logarithmic axis, leaves a gap.
struct Series {
  std::string name;
  std::vector<double> x, y;
  std::vector<double> low, high;  ///< Edges of a band around the line; empty: there is none.
  bool markers = false;           ///< Show the points themselves. A point between two gaps is always shown.
  bool muted = false;             ///< In grey, for what only serves as a comparison.
};

enum class Names {
  automatic,  ///< At the ends of the lines where they fit, otherwise in a legend; none for a single series.
  at_ends,
  legend,
  none,
};

struct LineChart {
  std::string title, subtitle, x_label, y_label;
  bool log_x = false, log_y = false;
  Unit x_unit = Unit::number, y_unit = Unit::number;
  std::vector<Series> series;
  std::optional<double> x_low, x_high, y_low, y_high;  ///< Ends of the axes; none: as the numbers ask for.
  std::vector<double> x_ticks;                         ///< Where x is labelled; empty: chosen.
  std::vector<std::string> x_names;  ///< Of x = 0, 1, 2, ...; only interactive plots show them.
  Names names = Names::automatic;
  /// The series follow one another (layers, steps): their colours do too, and a legend may show only some.
  bool ordered = false;
};

/// One bar in each category. `low` and `high` are ends of whiskers; empty: there are none.
struct BarSeries {
  std::string name;
  std::vector<double> values;
  std::vector<double> low, high;
};

struct BarChart {
  std::string title, subtitle, category_label, value_label;
  std::vector<std::string> categories;
  std::vector<BarSeries> series;
  bool log_value =
      false;  ///< Bars then begin at the bottom of the axis, and only their ends can be compared.
  Unit unit = Unit::number;
  bool horizontal = false;  ///< For long names of categories.
};

/// A matrix as colours, its first row on top. A value that is not finite is shown as missing.
struct HeatMap {
  std::string title, subtitle, x_label, y_label, value_label;
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;                        ///< Row by row.
  std::vector<std::string> row_names, column_names;  ///< Empty: numbers from 0.
  bool diverging = false;                            ///< Two colours that meet at 0, for values with a sign.
  Unit unit = Unit::number;
  std::optional<double> low, high;  ///< Values at the ends of the colours.
};

/// Small charts in a grid. Axes, colours and legend are shared, so that panels can be compared.
struct LinePanels {
  std::string title, subtitle;
  int columns = 3;
  std::vector<LineChart> panels;  ///< Labels, scales and units are those of the first.
};
struct HeatPanels {
  std::string title, subtitle;
  int columns = 3;
  std::vector<HeatMap> panels;  ///< All with as many rows and columns as the first, whose labels are used.
};

/// Of the whole picture, in pixels at its natural size. Heights of 0 follow from the content.
struct ChartSize {
  double width = 720, height = 0;
};

/// Throws Error for numbers that do not fit together, such as a series with more x than y.
std::string to_svg(const LineChart& chart, const ChartSize& size = {});
std::string to_svg(const BarChart& chart, const ChartSize& size = {});
std::string to_svg(const HeatMap& chart, const ChartSize& size = {});
std::string to_svg(const LinePanels& chart, const ChartSize& size = {});
std::string to_svg(const HeatPanels& chart, const ChartSize& size = {});

}  // namespace saccade
