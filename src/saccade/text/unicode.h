// What kind a character is, as the parts of a tokenizer see it. Most of it is in one table, made when it is
// first asked for; see unicode_tables.h for why several answers exist to one question.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "saccade/text/utf8.h"

namespace saccade {

/// Sets of characters; a character can be in many. An invalid one is in none.
enum CharacterClass : uint16_t {
  kLetter = 1 << 0,          ///< \p{L} in a regular expression
  kNumber = 1 << 1,          ///< \p{N}
  kSpace = 1 << 2,           ///< white space: \s, and what Strip removes
  kLineEnd = 1 << 3,         ///< \r and \n
  kPunctuation = 1 << 4,     ///< what Punctuation and BertPreTokenizer cut out
  kMark = 1 << 5,            ///< what StripAccents removes
  kNonspacingMark = 1 << 6,  ///< what BertNormalizer's strip_accents removes
  kWord = 1 << 7,            ///< \w of Whitespace and of an added token's single_word
  kNumeric = 1 << 8,         ///< what Digits cuts out
  kUnwanted = 1 << 9,        ///< what BertNormalizer's clean_text removes
  kIdeograph = 1 << 10,      ///< what BertNormalizer's handle_chinese_chars puts spaces around
  kNotDecomposed = 1 << 11,  ///< has a decomposition that the normalizers do not know yet
};

/// The table's first characters; those beyond are rare and looked at one by one.
inline constexpr char32_t kClassTableSize = 0x32000;
const uint16_t* class_table();
uint16_t rare_classes(char32_t character);

inline uint16_t classes_of(char32_t character) {
  static const uint16_t* const table = class_table();
  return character < kClassTableSize ? table[character] : rare_classes(character);
}

inline bool is_in(char32_t character, uint16_t classes) { return (classes_of(character) & classes) != 0; }

/// The general category by Unicode 16, as utf8proc numbers it.
int category_of(char32_t character);

/// Adds the character in lower case, which for one character (U+0130) is two.
void append_lower(std::string& text, char32_t character);

enum class NormalForm { nfc, nfd, nfkc, nfkd };

/// Adds valid UTF-8 in one of Unicode's normal forms.
void append_normalized(std::string& out, std::string_view text, NormalForm form);

}  // namespace saccade
