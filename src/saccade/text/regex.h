// Regular expressions as tokenizer files write them. Those are in the syntax of Oniguruma; they are
// translated to PCRE2's, and whatever the two read differently is either rewritten or refused.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

/// The bytes of a text from `begin` to `end`, and whether the expression matched them or they lie between.
struct Stretch {
  size_t begin, end;
  bool match;
};

class Regex {
 public:
  /// Throws an Error when the pattern is wrong or uses what is not supported.
  explicit Regex(std::string_view pattern);

  /// All matches in their order, of which some may be empty, and what lies between them, which is not. A byte
  /// that is not UTF-8 counts as one control character.
  std::vector<Stretch> split(std::string_view text) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

/// The same for the occurrences of a plain text.
std::vector<Stretch> split_at(std::string_view text, std::string_view delimiter);

/// The pattern in PCRE2's syntax; for tests.
std::string to_pcre2(std::string_view pattern);

}  // namespace saccade
