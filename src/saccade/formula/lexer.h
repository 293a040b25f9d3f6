// Cuts the text of a formula into tokens. A newline or `;` ends a statement, except inside brackets, so that
// a long expression may be wrapped.
#pragma once

#include <string_view>
#include <vector>

#include "saccade/formula/diagnostic.h"

namespace saccade {

struct Token {
  enum class Kind { name, number, symbol, newline, end };
  Kind kind;
  std::string_view text;  // points into the source
  Span span;
  double number = 0;
  bool integer = false;  // a number written without point or exponent
};

// Always ends with an `end` token. Characters that belong to nothing are reported and left out.
std::vector<Token> tokenize(std::string_view text, Diagnostics& diagnostics);

}  // namespace saccade
