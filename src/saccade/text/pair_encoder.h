// Sentences as a translation model reads and writes them: a source with its end, a target between begin and
// end, and a line of text out of tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/text/tokenizer.h"

namespace saccade {

class PairEncoder {
 public:
  /// Throws Error when the tokenizer has no token for the end of a text. Where it has none for the begin, the
  /// end serves as both.
  explicit PairEncoder(Tokenizer tokenizer);

  /// The tokens of a line and the end.
  std::vector<int32_t> source(std::string_view line) const;
  /// The begin, the tokens of a line, and the end.
  std::vector<int32_t> target(std::string_view line) const;
  /// One line of valid UTF-8 without spaces at its ends, whatever the tokens are.
  std::string line(std::span<const int32_t> ids) const;

  int32_t begin() const { return begin_; }
  int32_t end() const { return end_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  Tokenizer tokenizer_;
  int32_t begin_, end_;
};

}  // namespace saccade
