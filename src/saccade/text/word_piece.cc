// Tries ever shorter beginnings of what is left of a word, starting with the length of the longest token.
#include "saccade/text/word_piece.h"

#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/text/utf8.h"

namespace saccade {

WordPieceModel::WordPieceModel(Vocabulary vocabulary, WordPieceOptions options, std::string_view where)
    : Model(std::move(vocabulary)), options_(std::move(options)) {
  const auto unk = this->vocabulary().find(options_.unk_token);
  require(unk.has_value(), "{}: the unk_token '{}' is not in the vocabulary", where, options_.unk_token);
  unk_ = *unk;
  for (int32_t id = 0; id < this->vocabulary().end(); ++id)
    longest_token_ = std::max(longest_token_, this->vocabulary().token(id).size());
}

void WordPieceModel::encode(std::string_view piece, WordCache& cache, std::vector<int32_t>& ids) const {
  if (!WordCache::accepts(piece)) return encode_anew(piece, ids);
  const auto known = cache.get(piece);
  if (known.data()) {
    ids.insert(ids.end(), known.begin(), known.end());
    return;
  }
  const size_t first = ids.size();
  encode_anew(piece, ids);
  cache.put(std::span(ids).subspan(first));
}

void WordPieceModel::encode_anew(std::string_view word, std::vector<int32_t>& ids) const {
  int64_t characters = 0;
  for_each_character(word, [&](char32_t, size_t, size_t) { ++characters; });
  const size_t first = ids.size();
  const auto unknown = [&] {
    ids.resize(first);
    ids.push_back(unk_);
  };
  if (characters > options_.max_input_chars_per_word) return unknown();

  std::string token;
  for (size_t begin = 0; begin < word.size();) {
    token = begin > 0 ? options_.continuing_subword_prefix : std::string();
    const size_t prefix = token.size();
    token += word.substr(begin, longest_token_ > prefix ? longest_token_ - prefix : 1);
    std::optional<int32_t> id;
    while (token.size() > prefix && !(id = vocabulary().find(token))) token.pop_back();
    if (!id) return unknown();
    ids.push_back(*id);
    begin += token.size() - prefix;
  }
}

}  // namespace saccade
