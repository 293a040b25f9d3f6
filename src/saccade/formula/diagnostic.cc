// Renders diagnostics: line and column are found from the byte offset only when an error is shown.
#include "saccade/formula/diagnostic.h"

#include <algorithm>

#include "saccade/base/text.h"

namespace saccade {
namespace {

constexpr size_t kMostShown = 20;       // after that many errors, more of them do not help
constexpr size_t kMostCollected = 200;  // a hostile file cannot make the list grow without end
constexpr size_t kWindow = 100;         // longer source lines are cut around the caret

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

size_t count_characters(std::string_view bytes) {
  return static_cast<size_t>(std::count_if(bytes.begin(), bytes.end(), starts_character));
}

// The line as it can be shown on a terminal: control characters become blanks, so that the caret stays below
// its place.
std::string without_controls(std::string_view line) {
  std::string result(line);
  for (char& c : result)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  return result;
}

std::string render_all(const std::vector<Diagnostic>& list, std::string_view name, std::string_view text) {
  std::string result;
  for (size_t index = 0; index < std::min(list.size(), kMostShown); ++index) {
    if (index > 0) result += '\n';
    result += render(list[index], name, text);
  }
  if (list.size() > kMostShown)
    result += fmt::format("\n{}: {} more errors not shown", name, list.size() - kMostShown);
  return result;
}

}  // namespace

FormulaError::FormulaError(std::vector<Diagnostic> diagnostics, std::string_view name, std::string_view text)
    : Error(render_all(diagnostics, name, text)), diagnostics_(std::move(diagnostics)) {}

std::vector<Diagnostic> Diagnostics::take() {
  std::ranges::stable_sort(list_, {}, [](const Diagnostic& diagnostic) { return diagnostic.span.begin; });
  return std::move(list_);
}

void Diagnostics::add(Span span, std::string message) {
  if (list_.size() >= kMostCollected) return;
  // The same sentence about the same place, met on two paths, is one error.
  for (const Diagnostic& known : list_)
    if (known.span.begin == span.begin && known.message == message) return;
  list_.push_back({span, std::move(message)});
}

std::string render(const Diagnostic& diagnostic, std::string_view name, std::string_view text) {
  const size_t begin = std::min(diagnostic.span.begin, text.size());
  const size_t line_begin = begin == 0 ? 0 : text.rfind('\n', begin - 1) + 1;  // npos + 1 is 0
  const size_t line_end = std::min(text.find('\n', begin), text.size());
  const size_t line_number =
      1 + static_cast<size_t>(std::count(text.begin(), text.begin() + line_begin, '\n'));
  const size_t column = count_characters(text.substr(line_begin, begin - line_begin));

  size_t show_begin = line_begin, show_end = line_end;
  if (line_end - line_begin > kWindow) {
    show_begin = begin - std::min(begin - line_begin, kWindow / 2);
    show_end = std::min(line_end, show_begin + kWindow);
    while (show_begin > line_begin && !starts_character(text[show_begin])) --show_begin;
    while (show_end < line_end && !starts_character(text[show_end])) ++show_end;
  }
  const auto columns = [&](size_t from, size_t to) {  // of a terminal
    return static_cast<size_t>(display_width(without_controls(text.substr(from, to - from))));
  };
  const size_t span_end = std::clamp(diagnostic.span.end, begin, show_end);
  return fmt::format("{}:{}:{}: {}\n    {}\n    {}{}", name, line_number, column + 1, diagnostic.message,
                     without_controls(text.substr(show_begin, show_end - show_begin)),
                     std::string(columns(show_begin, begin), ' '),
                     std::string(std::max<size_t>(1, columns(begin, span_end)), '^'));
}

}  // namespace saccade
