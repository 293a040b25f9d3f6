// Writes the elements of a chart: coordinates with one decimal, text escaped, colours by class so that a
// style sheet can give them another value in the dark.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saccade {

struct Point {
  double x, y;
};

struct Box {
  double left, top, width, height;
  double right() const { return left + width; }
  double bottom() const { return top + height; }
};

enum class Anchor { start, middle, end };

/// Where a colour comes from: the palette by number, the sequence at a place from 0 to 1, or grey.
struct Ink {
  enum class Kind { palette, sequence, muted } kind = Kind::palette;
  int index = 0;
  double place = 0;
};

struct Colour {
  double red, green, blue;  // 0 to 255
  std::string hex() const;
  double lightness() const;  // 0 to 1, as seen
};

/// Dark to light for 0 to 1.
Colour sequential_colour(double place);
/// One colour, nearly white, another colour for -1 to 1.
Colour diverging_colour(double place);

class Svg {
 public:
  Svg(double width, double height, std::string_view title, std::string_view description);

  void line(Point from, Point to, std::string_view classes);
  void rectangle(const Box& box, std::string_view classes);
  void rectangle(const Box& box, const Colour& colour, std::string_view note = {});
  /// An open line through points.
  void path(const std::vector<Point>& points, std::string_view classes);
  void polygon(const std::vector<Point>& points, std::string_view classes);
  /// A small mark whose shape goes by number, as a help for those who cannot tell the colours apart.
  void marker(Point at, int shape, std::string_view classes);
  void text(Point at, std::string_view text, std::string_view classes, Anchor anchor = Anchor::start);
  /// What is drawn until `end_clip` is cut off outside of a box; its coordinates stay those of the page.
  void begin_clip(const Box& box);
  void end_clip();

  /// The class that strokes or fills with an ink, declared in the style sheet on first use.
  std::string stroke(const Ink& ink);
  std::string fill(const Ink& ink);

  std::string finish() const;

 private:
  std::string name_of(const Ink& ink);

  double width_, height_;
  std::string title_, description_, body_;
  std::vector<std::string> declared_;  // names of inks
  std::string light_, dark_;           // their rules
};

/// About how wide text of 12 pixels is, rather too much than too little.
double text_width(std::string_view text);
/// Text that is cut to about a width, with "…" at its end.
std::string fitted(std::string_view text, double width);

}  // namespace saccade
