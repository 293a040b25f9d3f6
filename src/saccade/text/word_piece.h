// WordPiece: a word is cut into the longest tokens, from left to right; all but the first carry a prefix.
#pragma once

#include <string>

#include "saccade/text/model.h"

namespace saccade {

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";
  int64_t max_input_chars_per_word = 100;  // a longer word is unknown
};

class WordPieceModel final : public Model {
 public:
  WordPieceModel(Vocabulary vocabulary, WordPieceOptions options, std::string_view where);

  void encode(std::string_view piece, WordCache& cache, std::vector<int32_t>& ids) const override;

 private:
  void encode_anew(std::string_view word, std::vector<int32_t>& ids) const;

  WordPieceOptions options_;
  int32_t unk_;
  size_t longest_token_ = 0;  // in bytes; nothing longer need be tried
};

}  // namespace saccade
