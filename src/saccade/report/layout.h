// The parts that charts have in common: a heading, a legend, the frame with its grid and tick labels.
#pragma once

#include <string>
#include <vector>

#include "saccade/report/axis.h"
#include "saccade/report/svg.h"

namespace saccade {

inline constexpr double kMargin = 16;
inline constexpr double kLineHeight = 17;

/// Room that title and subtitle take from the top, and drawing them there.
double heading_height(const std::string& title, const std::string& subtitle);
void draw_heading(Svg& svg, double width, const std::string& title, const std::string& subtitle);

struct LegendEntry {
  std::string name;
  Ink ink;
  int shape = -1;      // of a marker; -1: a line alone
  bool block = false;  // a small bar instead of a line
};

/// Entries in as many rows as they need within a width.
double legend_height(const std::vector<LegendEntry>& entries, double width);
void draw_legend(Svg& svg, Point top_left, double width, const std::vector<LegendEntry>& entries);

/// Width of the widest tick label.
double label_width(const std::vector<Tick>& ticks);

struct FrameLabels {
  bool x = true, y = true;       // whether ticks are labelled
  std::string x_label, y_label;  // empty: none
};
/// Grid, axes, tick labels and the names of the axes around a box. Labels of x that would touch are left out.
void draw_frame(Svg& svg, const Box& box, const Axis& x, const Axis& y, const FrameLabels& labels);

/// Names along an edge, as many as fit: every one, every second, every fifth, ...
int name_stride(size_t count, double pixels_each, double pixels_needed);

}  // namespace saccade
