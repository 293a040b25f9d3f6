// Lines within a frame, for a single chart and for panels alike.
#pragma once

#include "saccade/report/axis.h"
#include "saccade/report/svg.h"

namespace saccade {

/// Throws Error for series whose lists have different lengths.
void check_series(const LineChart& chart);

/// The ranges of x and y, bands included.
Range x_range(const LineChart& chart);
Range y_range(const LineChart& chart);

/// How one of `count` series is inked.
Ink ink_of(const Series& series, size_t index, size_t count, bool ordered);

/// Whether a legend names a series: all of them, but of many ordered ones the first, the last and some
/// between, which is enough to read the colours.
bool named_in_legend(size_t index, size_t count, bool ordered);

/// Whether any point of it can be seen.
bool visible(const Series& series, const Axis& x, const Axis& y);

void draw_series(Svg& svg, const Box& box, const Axis& x, const Axis& y, const Series& series, const Ink& ink,
                 int shape);

}  // namespace saccade
