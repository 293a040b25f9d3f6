// Learns a byte-level BPE vocabulary from texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "saccade/text/tokenizer.h"

namespace saccade {

struct BpeTrainerOptions {
  int64_t vocabulary_size = 8192;  // with the special tokens and the 256 bytes, which are always there
  int64_t min_frequency = 2;       // a pair that occurs less often is not merged
  std::vector<std::string> special_tokens = {"<|endoftext|>"};  // the first ids
  bool add_prefix_space = false;
};

/// Feed it texts, then train. Texts of two languages give a vocabulary for both. The result is that of the
/// BpeTrainer of the `tokenizers` package with a ByteLevel pre-tokenizer and its full alphabet.
class BpeTrainer {
 public:
  explicit BpeTrainer(BpeTrainerOptions options);

  /// Counts the words of a text.
  void add(std::string_view text);

  Tokenizer train() const;

 private:
  BpeTrainerOptions options_;
  std::unordered_map<std::string, int64_t> words_;
};

}  // namespace saccade
