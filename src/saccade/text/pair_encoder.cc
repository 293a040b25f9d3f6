#include "saccade/text/pair_encoder.h"

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/text/utf8.h"

namespace saccade {

PairEncoder::PairEncoder(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {
  const SpecialIds& special = tokenizer_.special_ids();
  const std::optional<int32_t> end = special.eos ? special.eos : special.sep;
  require(end.has_value(), "translation: the tokenizer has no token for the end of a text");
  end_ = *end;
  begin_ = special.bos.value_or(end_);
}

std::vector<int32_t> PairEncoder::source(std::string_view line) const {
  std::vector<int32_t> ids = tokenizer_.encode(trim(line), false);
  ids.push_back(end_);
  return ids;
}

std::vector<int32_t> PairEncoder::target(std::string_view line) const {
  std::vector<int32_t> ids = source(line);
  ids.insert(ids.begin(), begin_);
  return ids;
}

std::string PairEncoder::line(std::span<const int32_t> ids) const {
  std::string text = replace_invalid(tokenizer_.decode(ids));
  // A line end inside would shift all lines that follow.
  for (char& c : text)
    if (c == '\n' || c == '\r' || c == '\0') c = ' ';
  return std::string(trim(text));
}

}  // namespace saccade
