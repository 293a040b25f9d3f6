// What a document is for a language model: its tokens between those that begin and end it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "saccade/text/tokenizer.h"

namespace saccade {

/// A document begins and ends with what the tokenizer itself puts around a text. If it puts nothing before
/// it, the token for the begin of a text does, or else the one for its end, as in GPT-2. If it puts nothing
/// after it, the token for the end does, unless the document has begun with that one.
class DocumentEncoder {
 public:
  explicit DocumentEncoder(Tokenizer tokenizer);

  std::vector<int32_t> encode(std::string_view text) const;

  const std::vector<int32_t>& begin() const { return begin_; }
  const std::vector<int32_t>& end() const { return end_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  Tokenizer tokenizer_;
  std::vector<int32_t> begin_, end_;
};

/// A number that two tokenizers share only if each id means the same token in both.
uint64_t vocabulary_fingerprint(const Tokenizer& tokenizer);

}  // namespace saccade
