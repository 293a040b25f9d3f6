// The name of the vertical axis stands above it, level, where it is read without turning the head.
#include "saccade/report/layout.h"

#include <algorithm>
#include <cmath>

namespace saccade {
namespace {

constexpr double kSwatch = 20, kSwatchGap = 6, kEntryGap = 18;

double entry_width(const LegendEntry& entry) {
  return kSwatch + kSwatchGap + text_width(entry.name) + kEntryGap;
}

// Calls `place` with each entry and where it goes; returns the number of rows.
template <class Place>
int lay_out(const std::vector<LegendEntry>& entries, double width, const Place& place) {
  int row = 0;
  double x = 0;
  for (const LegendEntry& entry : entries) {
    const double needed = entry_width(entry);
    if (x > 0 && x + needed - kEntryGap > width) {
      ++row;
      x = 0;
    }
    place(entry, x, row);
    x += needed;
  }
  return entries.empty() ? 0 : row + 1;
}

}  // namespace

double heading_height(const std::string& title, const std::string& subtitle) {
  return kMargin + (title.empty() ? 0 : 18) + (subtitle.empty() ? 0 : 17);
}

void draw_heading(Svg& svg, double width, const std::string& title, const std::string& subtitle) {
  double y = kMargin;
  // The title's letters are a quarter wider than those that `fitted` measures.
  if (!title.empty()) svg.text({kMargin, y += 13}, fitted(title, (width - 2 * kMargin) / 1.25), "title");
  if (!subtitle.empty())
    svg.text({kMargin, y + (title.empty() ? 12 : 19)}, fitted(subtitle, width - 2 * kMargin), "quiet");
}

double legend_height(const std::vector<LegendEntry>& entries, double width) {
  return lay_out(entries, width, [](const LegendEntry&, double, int) {}) * kLineHeight;
}

void draw_legend(Svg& svg, Point top_left, double width, const std::vector<LegendEntry>& entries) {
  lay_out(entries, width, [&](const LegendEntry& entry, double x, int row) {
    const Point at{top_left.x + x, top_left.y + row * kLineHeight + kLineHeight / 2};
    if (entry.block) {
      svg.rectangle({at.x + 6, at.y - 5, 10, 10}, "bar " + svg.fill(entry.ink));
    } else {
      svg.line(at, {at.x + kSwatch, at.y}, "line " + svg.stroke(entry.ink));
      if (entry.shape >= 0) svg.marker({at.x + kSwatch / 2, at.y}, entry.shape, svg.fill(entry.ink));
    }
    svg.text({at.x + kSwatch + kSwatchGap, at.y + 4}, fitted(entry.name, width - kSwatch - kSwatchGap), "");
  });
}

double label_width(const std::vector<Tick>& ticks) {
  double width = 0;
  for (const Tick& tick : ticks) width = std::max(width, text_width(tick.label));
  return width;
}

void draw_frame(Svg& svg, const Box& box, const Axis& x, const Axis& y, const FrameLabels& labels) {
  for (const Tick& tick : y.ticks()) {
    const double at = box.bottom() - y.place(tick.value) * box.height;
    svg.line({box.left, at}, {box.right(), at}, "grid");
    if (labels.y) svg.text({box.left - 8, at + 4}, tick.label, "quiet", Anchor::end);
  }
  double free_from = -1e9;
  for (const Tick& tick : x.ticks()) {
    const double at = box.left + x.place(tick.value) * box.width, half = text_width(tick.label) / 2;
    svg.line({at, box.bottom()}, {at, box.bottom() + 4}, "axis");
    if (!labels.x || at - half < free_from) continue;
    svg.text({at, box.bottom() + 18}, tick.label, "quiet", Anchor::middle);
    free_from = at + half + 6;
  }
  svg.line({box.left, box.bottom()}, {box.right(), box.bottom()}, "axis");
  const double label_left = labels.y ? box.left - 8 - label_width(y.ticks()) : box.left;
  svg.text({std::max(label_left, kMargin), box.top - 10}, fitted(labels.y_label, box.right() - label_left),
           "quiet");
  svg.text({box.left + box.width / 2, box.bottom() + (labels.x ? 36 : 18)},
           fitted(labels.x_label, box.width + 40), "quiet", Anchor::middle);
}

int name_stride(size_t count, double pixels_each, double pixels_needed) {
  int stride = 1;
  for (const int factor : {1, 2, 5}) {
    stride = factor;
    if (pixels_each * stride >= pixels_needed) return stride;
  }
  while (pixels_each * stride < pixels_needed && stride < static_cast<int>(count)) stride *= 2;
  return stride;
}

}  // namespace saccade
