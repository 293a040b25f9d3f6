// Text from ids that come one at a time, as a model generates them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "saccade/text/tokenizer.h"

namespace saccade {

/// Gives the text of each id as soon as it is certain. A character may be spread over several ids, and is
/// held back until it is complete; what comes out is always UTF-8.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special_tokens = true);

  /// The text that the id adds, which may be "".
  std::string push(int32_t id);

  /// What was held back, with U+FFFD for what never became a character. The next push starts a new text.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  std::vector<int32_t> ids_;  // the last ids whose text was given, then those whose text was not
  size_t given_ids_ = 0;
  std::string given_;  // the text of the former
};

}  // namespace saccade
