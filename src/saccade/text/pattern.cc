// Chooses between searching for a text, a scanner and a regular expression.
#include "saccade/text/pattern.h"

#include "saccade/base/error.h"

namespace saccade {

Pattern::Pattern(const JsonPart& part) {
  const JsonPart pattern = part.part("pattern");
  const auto string = pattern.optional_text("String"), expression = pattern.optional_text("Regex");
  if (string.has_value() == expression.has_value())
    fail("{}: expected {{\"String\": ...}} or {{\"Regex\": ...}}, found {}", pattern.path(),
         dump(pattern.json()));
  if (string) {
    delimiter_ = *string;
  } else {
    with_context(pattern.path(), [&] { *this = Pattern(*expression); });
  }
}

Pattern::Pattern(std::string_view expression) : regex_(expression), scanner_(scanner_for(expression)) {}

std::vector<Stretch> Pattern::split(std::string_view text) const {
  if (!regex_) return split_at(text, delimiter_);
  if (!scanner_) return regex_->split(text);
  std::vector<Stretch> result;
  for (size_t at = 0; at < text.size(); at = result.back().end)
    result.push_back({at, scanner_(text, at), true});
  return result;
}

std::string Pattern::replace(std::string_view text, std::string_view content) const {
  std::string result;
  result.reserve(text.size());
  for (const Stretch& stretch : split(text))
    result += stretch.match ? content : text.substr(stretch.begin, stretch.end - stretch.begin);
  return result;
}

}  // namespace saccade
