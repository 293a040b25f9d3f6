// What a tokenizer puts around a text is seen by encoding a letter with and without it.
#include "saccade/data/document_encoder.h"

#include <algorithm>

#include "saccade/data/hash.h"

namespace saccade {

DocumentEncoder::DocumentEncoder(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {
  const std::vector<int32_t> bare = tokenizer_.encode("a", false), whole = tokenizer_.encode("a", true);
  if (const auto inner = std::search(whole.begin(), whole.end(), bare.begin(), bare.end());
      !bare.empty() && inner != whole.end()) {
    begin_.assign(whole.begin(), inner);
    end_.assign(inner + static_cast<std::ptrdiff_t>(bare.size()), whole.end());
  }
  const SpecialIds& special = tokenizer_.special_ids();
  if (begin_.empty() && (special.bos || special.eos)) begin_ = {special.bos ? *special.bos : *special.eos};
  if (end_.empty() && special.eos && std::ranges::find(begin_, *special.eos) == begin_.end())
    end_ = {*special.eos};
}

std::vector<int32_t> DocumentEncoder::encode(std::string_view text) const {
  std::vector<int32_t> ids = tokenizer_.encode(text, false);
  ids.insert(ids.begin(), begin_.begin(), begin_.end());
  ids.insert(ids.end(), end_.begin(), end_.end());
  return ids;
}

uint64_t vocabulary_fingerprint(const Tokenizer& tokenizer) {
  uint64_t result = hash_bytes("vocabulary");
  for (int32_t id = 0; id < tokenizer.size(); ++id)
    result = hash_number(result ^ hash_bytes(tokenizer.token_of(id)));
  return result;
}

}  // namespace saccade
