// A token that is half a character decodes to U+FFFD, which says nothing.
#include "saccade/text/piece.h"

namespace saccade {

std::string piece_of(const Tokenizer& tokenizer, int32_t id) {
  const std::string text = tokenizer.decode(std::span(&id, 1), false);
  const bool whole = !text.empty() && text.find("\xEF\xBF\xBD") == std::string::npos;
  return whole ? text : std::string(tokenizer.token_of(id));
}

}  // namespace saccade
