// One style sheet for all charts. Its rules begin with the class of the picture, so that a page may hold many
// charts and text of its own.
#include "saccade/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "saccade/base/text.h"

namespace saccade {
namespace {

constexpr std::string_view kLight = R"(.saccade-chart{color-scheme:light dark}
.saccade-chart text{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,"DejaVu Sans",sans-serif;font-size:12px;fill:#1f2630}
.saccade-chart .title{font-size:15px;font-weight:600}
.saccade-chart .panel{font-weight:600}
.saccade-chart .quiet{fill:#5b6673}
.saccade-chart .small{font-size:11px}
.saccade-chart .page{fill:#ffffff}
.saccade-chart .grid{stroke:#e6e9ed;stroke-width:1}
.saccade-chart .axis{stroke:#9aa4b0;stroke-width:1}
.saccade-chart .leader{stroke:#9aa4b0;stroke-width:.8;stroke-dasharray:1.5 2.5}
.saccade-chart .line{fill:none;stroke-width:1.9;stroke-linejoin:round;stroke-linecap:round}
.saccade-chart .band{fill-opacity:.17}
.saccade-chart .bar{fill-opacity:.88}
.saccade-chart .whisker{stroke:#1f2630;stroke-width:1.2}
.saccade-chart .missing{fill:#e3e6ea}
.saccade-chart .mark{stroke:#ffffff;stroke-width:1}
.saccade-chart .dash1{stroke-dasharray:7 4}
.saccade-chart .dash2{stroke-dasharray:2 4}
.saccade-chart .dash3{stroke-dasharray:9 3 2 3}
.saccade-chart .on-dark{fill:#ffffff}
.saccade-chart .on-light{fill:#1f2630}
)";
constexpr std::string_view kDark = R"(.saccade-chart text{fill:#e4e8ee}
.saccade-chart .quiet{fill:#a1abb8}
.saccade-chart .page{fill:#15181d}
.saccade-chart .grid{stroke:#2b3038}
.saccade-chart .axis{stroke:#69737f}
.saccade-chart .leader{stroke:#69737f}
.saccade-chart .whisker{stroke:#e4e8ee}
.saccade-chart .missing{fill:#31363e}
.saccade-chart .mark{stroke:#15181d}
.saccade-chart .on-dark{fill:#ffffff}
.saccade-chart .on-light{fill:#1f2630}
)";

// Hues that differ for the common kinds of colour blindness, each in a shade for white and one for black.
struct Shades {
  const char *light, *dark;
};
constexpr Shades kPalette[] = {{"#0b6cb3", "#57a9ea"}, {"#cf5504", "#ff9152"}, {"#0a8f6a", "#33c79b"},
                               {"#b0478c", "#e893c6"}, {"#a77400", "#ecbb45"}, {"#6650b8", "#ab99f2"},
                               {"#2b8fb5", "#7fd0ec"}, {"#7c4a24", "#c99a74"}};
constexpr Shades kMuted = {"#8b95a1", "#7d8793"};

constexpr Colour kSequence[] = {{33, 20, 74},   {62, 50, 137},  {50, 94, 158},  {31, 135, 152},
                                {61, 172, 128}, {148, 203, 92}, {247, 232, 134}};
constexpr Colour kSigned[] = {{16, 66, 128},   {47, 122, 186}, {142, 190, 224}, {243, 243, 241},
                              {240, 177, 133}, {205, 102, 46}, {130, 48, 10}};

Colour mix(std::span<const Colour> stops, double place) {
  const double at = std::clamp(place, 0.0, 1.0) * static_cast<double>(stops.size() - 1);
  const size_t index = std::min(static_cast<size_t>(at), stops.size() - 2);
  const double part = at - static_cast<double>(index);
  const Colour &a = stops[index], &b = stops[index + 1];
  return {a.red + part * (b.red - a.red), a.green + part * (b.green - a.green),
          a.blue + part * (b.blue - a.blue)};
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else if (code < 0x20 || code == 0x7f)
      result += ' ';  // XML has no way to write these
    else
      result += c;
  }
  return result;
}

std::string at(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string list_of(const std::vector<Point>& points) {
  std::string text;
  for (const Point& point : points) text += (text.empty() ? "" : " ") + at(point.x) + "," + at(point.y);
  return text;
}

// How many bytes the UTF-8 character at the beginning takes, or 0 when there is none.
size_t character_size(std::string_view text) {
  const auto byte = [&](size_t index) { return static_cast<unsigned char>(text[index]); };
  const size_t size = byte(0) < 0x80   ? 1
                      : byte(0) < 0xc2 ? 0
                      : byte(0) < 0xe0 ? 2
                      : byte(0) < 0xf0 ? 3
                      : byte(0) < 0xf5 ? 4
                                       : 0;
  if (size == 0 || size > text.size()) return 0;
  for (size_t index = 1; index < size; ++index)
    if ((byte(index) & 0xc0) != 0x80) return 0;
  return size;
}

std::string valid_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t size = character_size(text);
    result += size == 0 ? std::string_view("\uFFFD") : text.substr(0, size);
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return result;
}

double character_width(std::string_view character) {
  if (character.size() > 1) return 12 * 0.62 * display_width(character);
  const char c = character.front();
  if (std::string_view("iljtfrI.,:;'|!()[] ").find(c) != std::string_view::npos) return 12 * 0.38;
  if (std::string_view("mwMW@%").find(c) != std::string_view::npos) return 12 * 0.95;
  return 12 * (c >= 'A' && c <= 'Z' ? 0.70 : 0.62);
}

}  // namespace

std::string Colour::hex() const {
  const auto part = [](double value) { return static_cast<int>(std::lround(std::clamp(value, 0.0, 255.0))); };
  return fmt::format("#{:02x}{:02x}{:02x}", part(red), part(green), part(blue));
}

double Colour::lightness() const { return (0.30 * red + 0.59 * green + 0.11 * blue) / 255; }

Colour sequential_colour(double place) { return mix(kSequence, place); }
Colour diverging_colour(double place) { return mix(kSigned, (place + 1) / 2); }

Svg::Svg(double width, double height, std::string_view title, std::string_view description)
    : width_(width), height_(height), title_(valid_utf8(title)), description_(valid_utf8(description)) {}

void Svg::line(Point from, Point to, std::string_view classes) {
  body_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{}\"/>\n", at(from.x),
                       at(from.y), at(to.x), at(to.y), classes);
}

void Svg::rectangle(const Box& box, std::string_view classes) {
  body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"{}\"/>\n", at(box.left),
                       at(box.top), at(box.width), at(box.height), classes);
}

void Svg::rectangle(const Box& box, const Colour& colour, std::string_view note) {
  body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"", at(box.left),
                       at(box.top), at(box.width), at(box.height), colour.hex());
  body_ += note.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", escaped(valid_utf8(note)));
}

void Svg::path(const std::vector<Point>& points, std::string_view classes) {
  body_ += fmt::format("<polyline points=\"{}\" class=\"{}\"/>\n", list_of(points), classes);
}

void Svg::polygon(const std::vector<Point>& points, std::string_view classes) {
  body_ += fmt::format("<polygon points=\"{}\" class=\"{}\"/>\n", list_of(points), classes);
}

void Svg::marker(Point p, int shape, std::string_view classes) {
  constexpr double r = 3.6;
  switch (shape % 4) {
    case 0:
      body_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"mark {}\"/>\n", at(p.x), at(p.y),
                           at(r), classes);
      return;
    case 1:
      return rectangle({p.x - r * 0.9, p.y - r * 0.9, 1.8 * r, 1.8 * r}, fmt::format("mark {}", classes));
    case 2:
      return polygon({{p.x, p.y - 1.3 * r}, {p.x + 1.2 * r, p.y + 0.9 * r}, {p.x - 1.2 * r, p.y + 0.9 * r}},
                     fmt::format("mark {}", classes));
    default:
      return polygon(
          {{p.x, p.y - 1.35 * r}, {p.x + 1.35 * r, p.y}, {p.x, p.y + 1.35 * r}, {p.x - 1.35 * r, p.y}},
          fmt::format("mark {}", classes));
  }
}

void Svg::text(Point place, std::string_view text, std::string_view classes, Anchor anchor) {
  if (text.empty()) return;
  static constexpr std::array kAnchors = {"start", "middle", "end"};
  body_ += fmt::format("<text x=\"{}\" y=\"{}\"", at(place.x), at(place.y));
  if (!classes.empty()) body_ += fmt::format(" class=\"{}\"", classes);
  if (anchor != Anchor::start)
    body_ += fmt::format(" text-anchor=\"{}\"", kAnchors[static_cast<size_t>(anchor)]);
  body_ += fmt::format(">{}</text>\n", escaped(valid_utf8(text)));
}

void Svg::begin_clip(const Box& box) {
  // A picture inside the picture cuts off by itself; a clip path would need a name that no other chart has.
  body_ += fmt::format("<svg x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\" viewBox=\"{0} {1} {2} {3}\">\n",
                       at(box.left), at(box.top), at(box.width), at(box.height));
}

void Svg::end_clip() { body_ += "</svg>\n"; }

std::string Svg::name_of(const Ink& ink) {
  constexpr int kSteps = 32;  // of the sequence; more cannot be told apart
  const int palette = ink.index % static_cast<int>(std::size(kPalette));
  const int step = static_cast<int>(std::lround(std::clamp(ink.place, 0.0, 1.0) * kSteps));
  const std::string name = ink.kind == Ink::Kind::muted      ? "m"
                           : ink.kind == Ink::Kind::sequence ? fmt::format("o{}", step)
                                                             : fmt::format("p{}", palette);
  if (std::ranges::find(declared_, name) != declared_.end()) return name;
  declared_.push_back(name);
  const auto rules = [&](std::string_view colour) {
    return fmt::format(".saccade-chart .s{0}{{stroke:{1}}}\n.saccade-chart .f{0}{{fill:{1}}}\n", name,
                       colour);
  };
  if (ink.kind == Ink::Kind::sequence) {
    // What would be lost against the page is left out at that end.
    const double place = static_cast<double>(step) / kSteps;
    light_ += rules(sequential_colour(0.05 + 0.77 * place).hex());
    dark_ += rules(sequential_colour(0.36 + 0.64 * place).hex());
  } else {
    const Shades& shades = ink.kind == Ink::Kind::muted ? kMuted : kPalette[palette];
    light_ += rules(shades.light);
    dark_ += rules(shades.dark);
  }
  return name;
}

std::string Svg::stroke(const Ink& ink) {
  const int round =
      ink.kind == Ink::Kind::palette ? ink.index / static_cast<int>(std::size(kPalette)) % 4 : 0;
  return "s" + name_of(ink) + (round > 0 ? fmt::format(" dash{}", round) : "");
}

std::string Svg::fill(const Ink& ink) { return "f" + name_of(ink); }

std::string Svg::finish() const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"saccade-chart\" viewBox=\"0 0 {0} {1}\" "
      "width=\"{0}\" "
      "height=\"{1}\" role=\"img\" aria-label=\"{2}\">\n<title>{2}</title>\n<desc>{3}</desc>\n<style>\n{4}{5}"
      "@media (prefers-color-scheme:dark){{\n{6}{7}}}\n</style>\n<rect width=\"{0}\" height=\"{1}\" rx=\"6\" "
      "class=\"page\"/>\n{8}</svg>\n",
      at(width_), at(height_), escaped(title_), escaped(description_), kLight, light_, kDark, dark_, body_);
}

double text_width(std::string_view text) {
  double width = 0;
  const std::string valid = valid_utf8(text);
  for (std::string_view rest = valid; !rest.empty();) {
    const size_t size = character_size(rest);
    width += character_width(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  return width;
}

std::string fitted(std::string_view text, double width) {
  const std::string valid = valid_utf8(text);
  if (text_width(valid) <= width) return valid;
  std::string result;
  double used = 12 * 0.62;
  for (std::string_view rest = valid; !rest.empty();) {
    const size_t size = character_size(rest);
    used += character_width(rest.substr(0, size));
    if (used > width) break;
    result += rest.substr(0, size);
    rest.remove_prefix(size);
  }
  return result + "…";
}

}  // namespace saccade
