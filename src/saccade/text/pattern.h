// What a Split or Replace looks for: a plain text or a regular expression.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/text/json_part.h"
#include "saccade/text/regex.h"
#include "saccade/text/scanners.h"

namespace saccade {

class Pattern {
 public:
  /// Reads {"pattern": {"String": "..."}} or {"pattern": {"Regex": "..."}}.
  explicit Pattern(const JsonPart& part);

  /// A regular expression.
  explicit Pattern(std::string_view expression);

  std::vector<Stretch> split(std::string_view text) const;
  std::string replace(std::string_view text, std::string_view content) const;

  /// A scanner that finds the same, which then matches everywhere; or null.
  Scanner scanner() const { return scanner_; }

 private:
  std::string delimiter_;
  std::optional<Regex> regex_;
  Scanner scanner_ = nullptr;
};

}  // namespace saccade
