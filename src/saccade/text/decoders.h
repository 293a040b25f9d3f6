// What turns the tokens of a sequence back into its text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "saccade/text/json_part.h"

namespace saccade {

class TextDecoder {
 public:
  TextDecoder() = default;
  virtual ~TextDecoder() = default;
  TextDecoder(const TextDecoder&) = delete;
  TextDecoder& operator=(const TextDecoder&) = delete;

  /// Changes tokens into parts of the text; put together, they are the text.
  virtual void decode(std::vector<std::string>& tokens) const = 0;
};

/// The decoder that a tokenizer file describes; throws an Error that names what is not supported.
std::unique_ptr<TextDecoder> make_decoder(const JsonPart& part);

}  // namespace saccade
