// Suggestions by edit distance, the words of lists and plurals, and columns measured in terminal cells.
#include "saccade/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "saccade/base/error.h"

namespace saccade {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// The Damerau-Levenshtein distance in which no piece is edited twice; three rows of its table are enough.
int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before_previous(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before_previous[j - 2] + 1);
      }
    }
    std::swap(before_previous, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

template <class String>
std::optional<std::string> nearest_of(std::string_view name, std::span<const String> candidates) {
  // Nobody types a name of this length; without a limit a hostile input would make the search slow.
  constexpr std::size_t kLongest = 256;
  if (name.size() > kLongest) return std::nullopt;
  const std::string wanted = lower(name);
  std::optional<std::string> best;
  int best_distance = 0;
  for (const String& candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    const int longest = static_cast<int>(std::max(name.size(), candidate.size()));
    const int shortest = static_cast<int>(std::min(name.size(), candidate.size()));
    const int allowed = std::max(1, longest / 3);
    const int distance = edit_distance(wanted, lower(candidate));
    // Between names as short as the distance itself every letter would differ: that is no typo.
    if (distance > allowed || (distance > 0 && distance >= shortest)) continue;
    if (!best || distance < best_distance) {
      best = std::string(candidate);
      best_distance = distance;
    }
  }
  return best;
}

template <class String>
std::string did_you_mean_one_of(std::string_view name, std::span<const String> candidates) {
  const auto near = nearest_of(name, candidates);
  return near ? fmt::format("; did you mean '{}'?", *near) : "";
}

bool ends_with_any(std::string_view word, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](auto ending) { return word.ends_with(ending); });
}

// Decodes the code point that `text` starts with and the number of bytes it takes.
struct Decoded {
  char32_t code;
  std::size_t size;
};

Decoded decode(std::string_view text) {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char first = byte(0);
  const std::size_t size = first < 0x80 ? 1 : first < 0xC0 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (size <= 1 || size > text.size()) return {first, 1};
  char32_t code = first & (0xFF >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {first, 1};
    code = code << 6 | (byte(i) & 0x3F);
  }
  return {code, size};
}

struct CodeRange {
  char32_t first, last;
};

// The blocks of combining marks and of wide characters that occur in practice, by Unicode's charts.
constexpr CodeRange kZeroWidth[] = {{0x0300, 0x036F}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x200B, 0x200F},
                                    {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}};
constexpr CodeRange kWide[] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},
                               {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
                               {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F},
                               {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};

bool within(std::span<const CodeRange> ranges, char32_t code) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const CodeRange& range) { return range.first <= code && code <= range.last; });
}

enum class CellKind { number, text, blank };

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A number is a sign, digits with at most one point, an exponent, and a unit in which no further digit
// occurs.
CellKind kind_of(std::string_view cell) {
  if (cell.empty() || cell == "-" || cell == "–" || cell == "—") return CellKind::blank;
  if (lower(cell) == "nan" || lower(cell) == "inf" || lower(cell) == "-inf") return CellKind::number;
  if (cell.front() == '-' || cell.front() == '+') cell.remove_prefix(1);
  std::size_t at = 0;
  int digits = 0, points = 0;
  for (; at < cell.size() && (is_digit(cell[at]) || cell[at] == '.'); ++at)
    ++(cell[at] == '.' ? points : digits);
  if (digits == 0 || points > 1) return CellKind::text;
  if (at < cell.size() && (cell[at] == 'e' || cell[at] == 'E')) {
    std::size_t exponent = at + 1;
    if (exponent < cell.size() && (cell[exponent] == '-' || cell[exponent] == '+')) ++exponent;
    if (exponent < cell.size() && is_digit(cell[exponent])) {
      for (at = exponent; at < cell.size() && is_digit(cell[at]);) ++at;
    }
  }
  const std::string_view unit = cell.substr(at);
  const bool plain = unit.size() <= 8 && std::none_of(unit.begin(), unit.end(), [](char c) {
                       return is_digit(c) || c == '-' || c == ':' || c == ',';
                     });
  return plain ? CellKind::number : CellKind::text;
}

}  // namespace

std::optional<std::string> nearest(std::string_view name, std::span<const std::string_view> candidates) {
  return nearest_of(name, candidates);
}

std::optional<std::string> nearest(std::string_view name, std::span<const std::string> candidates) {
  return nearest_of(name, candidates);
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates) {
  return did_you_mean_one_of(name, candidates);
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  return did_you_mean_one_of(name, candidates);
}

std::string plural(std::int64_t n, std::string_view word) {
  if (n == 1 || word.empty()) return fmt::format("{} {}", n, word);
  if (word.ends_with('y') && !ends_with_any(word, {"ay", "ey", "oy", "uy"})) {
    return fmt::format("{} {}ies", n, word.substr(0, word.size() - 1));
  }
  const bool hisses = ends_with_any(word, {"s", "x", "z", "ch", "sh"}) && !word.ends_with("epoch");
  return fmt::format("{} {}{}", n, word, hisses ? "es" : "s");
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const auto first = text.find_first_not_of(kSpace);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string printable(std::string_view text, std::size_t limit) {
  const bool cut = text.size() > limit;
  if (cut) {
    while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0) == 0x80)
      --limit;  // no half character
    text = text.substr(0, limit);
  }
  std::string result;
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x20 || code == 0x7f) {
      result += fmt::format("\\x{:02x}", code);
    } else {
      result += byte;
    }
  }
  return cut ? result + "..." : result;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return lines;
}

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const auto [code, size] = decode(text);
    width += within(kZeroWidth, code) ? 0 : within(kWide, code) ? 2 : 1;
    text.remove_prefix(size);
  }
  return width;
}

Table::Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }

void Table::add(std::vector<std::string> row) {
  invariant(row.size() == rows_.front().size(), "table: a row has as many cells as the header");
  rows_.push_back(std::move(row));
}

std::string Table::print() const {
  const std::size_t columns = rows_.front().size();
  std::vector<int> width(columns, 0);
  std::vector<bool> right(columns, false);
  for (std::size_t column = 0; column < columns; ++column) {
    bool number = false, text = false;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const std::string& cell = rows_[row][column];
      width[column] = std::max(width[column], display_width(cell));
      if (row == 0) continue;  // a header is text even above numbers
      number |= kind_of(cell) == CellKind::number;
      text |= kind_of(cell) == CellKind::text;
    }
    right[column] = number && !text;
  }

  std::string result;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t column = 0; column < columns; ++column) {
      const std::string padding(static_cast<std::size_t>(width[column] - display_width(row[column])), ' ');
      if (column > 0) line += "  ";
      line += right[column] ? padding + row[column] : row[column] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    result += line + "\n";
  }
  return result;
}

}  // namespace saccade
