// Small tokenizers for tests, written out so that every id can be checked by eye.
#pragma once

#include <fmt/format.h>

#include <string>

#include "saccade/text/tokenizer.h"

namespace saccade {

/// A GGUF vocabulary of all bytes, a few merges and one control token: " the" and "ing" are tokens.
inline GgufVocabulary small_byte_vocabulary() {
  GgufVocabulary vocabulary{.model = "gpt2", .pre = "gpt-2"};
  const auto add = [&](const std::string& token, int32_t type) {
    vocabulary.tokens.push_back(token);
    vocabulary.types.push_back(type);
  };
  add("<|end|>", 3);
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    static int next = 0;
    if (byte == 0) next = 0x100;
    const int character = printable ? byte : next++;
    std::string text;
    if (character < 0x80) {
      text += static_cast<char>(character);
    } else {
      text += static_cast<char>(0xC0 | character >> 6);
      text += static_cast<char>(0x80 | (character & 0x3F));
    }
    add(text, 1);
  }
  for (const auto& [left, right] : {std::pair<std::string, std::string>{"t", "h"},
                                    {"th", "e"},
                                    {"\u0120", "the"},
                                    {"i", "n"},
                                    {"in", "g"}}) {
    vocabulary.merges.push_back(fmt::format("{} {}", left, right));
    add(left + right, 1);
  }
  return vocabulary;
}

}  // namespace saccade
