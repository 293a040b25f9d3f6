// Widths are those of a terminal's columns, so that wide and combining characters keep the columns straight.
#include "saccade/cli/text_view.h"

#include <algorithm>
#include <utility>

#include "saccade/base/text.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

void append_wrapped(std::vector<std::string>& lines, std::string_view paragraph, int width) {
  std::string line;
  bool empty = true;  // a line of one space is not empty
  const auto end_line = [&] {
    lines.push_back(std::exchange(line, {}));
    empty = true;
  };
  for (size_t at = 0; at <= paragraph.size();) {
    const size_t space = std::min(paragraph.find(' ', at), paragraph.size());
    const std::string_view word = paragraph.substr(at, space - at);
    at = space + 1;
    if (!empty && display_width(line) + 1 + display_width(word) > width)
      end_line();
    else if (!empty)
      line += ' ';
    empty = false;
    for_each_character(word, [&](char32_t, size_t begin, size_t length) {
      const std::string_view character = word.substr(begin, length);
      // A word that is too long for any line.
      if (!line.empty() && display_width(line) + display_width(character) > width) end_line();
      line += character;
      empty = false;
    });
  }
  end_line();
}

void trim_end(std::string& text) { text.erase(text.find_last_not_of(' ') + 1); }

}  // namespace

std::string harmless(std::string_view text) {
  std::string result;
  for_each_character(text, [&](char32_t character, size_t begin, size_t length) {
    const bool control = (character < 0x20 && character != '\n' && character != '\t') ||
                         (character >= 0x7F && character < 0xA0) || character == kInvalidCharacter;
    result += control ? std::string_view("\uFFFD") : text.substr(begin, length);
  });
  return result;
}

std::vector<std::string> wrap(std::string_view text, int width) {
  std::string plain = harmless(text);
  std::ranges::replace(plain, '\t', ' ');
  std::vector<std::string> lines;
  for (const std::string_view paragraph : split_lines(plain))
    append_wrapped(lines, paragraph, std::max(width, 2));
  return lines;
}

std::string side_by_side(const TitledText& left, const TitledText& right, int width) {
  const int column = (width - 3) / 2;
  std::vector<std::vector<std::string>> columns;
  for (const TitledText* each : {&left, &right}) {
    std::vector<std::string> lines = wrap(each->title, column);
    lines.emplace_back(std::string(static_cast<size_t>(std::max(column, 1)), '-'));
    for (std::string& line : wrap(trim(each->text), column)) lines.push_back(std::move(line));
    columns.push_back(std::move(lines));
  }
  std::string result;
  for (size_t row = 0; row < std::max(columns[0].size(), columns[1].size()); ++row) {
    std::string line = row < columns[0].size() ? columns[0][row] : "";
    line.append(static_cast<size_t>(std::max(0, column - display_width(line))), ' ');
    line += " | ";
    if (row < columns[1].size()) line += columns[1][row];
    trim_end(line);
    result += line + "\n";
  }
  return result;
}

std::string one_by_one(const TitledText& first, const TitledText& second) {
  std::string result;
  for (const TitledText* each : {&first, &second}) {
    if (!result.empty()) result += "\n";
    result += each->title + ":\n" + each->text + "\n";
  }
  return result;
}

}  // namespace saccade
