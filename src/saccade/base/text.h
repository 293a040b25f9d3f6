// Small tools for text that people read: suggestions for typos, lists, plurals, and tables whose columns line
// up.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

/// The candidate that `name` is most plausibly a typo of, or nothing when none is close. Close means at most
/// one edit (a letter inserted, deleted, replaced, or swapped with its neighbour) for each three letters, and
/// at least one; upper and lower case count as equal. The first of equally close candidates wins.
std::optional<std::string> nearest(std::string_view name, std::span<const std::string_view> candidates);
std::optional<std::string> nearest(std::string_view name, std::span<const std::string> candidates);

/// "; did you mean 'alpha'?", or "" when nothing is near: to be put at the end of a message about `name`.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates);
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

/// The elements of a range of strings with `separator` between them.
template <class Range>
std::string join(const Range& range, std::string_view separator) {
  std::string result;
  bool first = true;
  for (const auto& element : range) {
    if (!first) result += separator;
    result += element;
    first = false;
  }
  return result;
}

/// "1 tile", "3 tiles", "0 queries", "2 matches": a number and its noun, by the regular rules of English.
std::string plural(std::int64_t n, std::string_view word);

/// `text` without white space at its ends.
std::string_view trim(std::string_view text);

/// Text from a file as a message may show it: control characters, which could steer a terminal or end the
/// message, become "\x1b"; beyond `limit` bytes there is "...".
std::string printable(std::string_view text, std::size_t limit = 200);

/// The lines of `text` without their ends (LF or CR LF). An end of line at the end of the text starts no
/// further line, and an empty text has none.
std::vector<std::string_view> split_lines(std::string_view text);

/// How many columns of a terminal UTF-8 text takes: combining marks take none, East Asian wide characters and
/// emoji two. A byte that is not UTF-8 counts as one.
int display_width(std::string_view text);

/// A plain table: a header, rows, two spaces between columns. A column whose cells are all numbers, with or
/// without a unit ("1.5", "-3e-7", "12 %", "3.1x"), is aligned to the right; empty cells and dashes fit
/// anywhere.
class Table {
 public:
  explicit Table(std::vector<std::string> header);

  /// Adds a row, which must have as many cells as the header.
  void add(std::vector<std::string> row);

  /// How many rows were added.
  size_t rows() const { return rows_.size() - 1; }

  /// The table as text, each line ended and without trailing spaces.
  std::string print() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the header first
};

}  // namespace saccade
