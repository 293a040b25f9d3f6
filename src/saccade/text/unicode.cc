// utf8proc's properties, corrected by the tables of differences.
#include "saccade/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <vector>

#include "saccade/base/error.h"
#include "saccade/text/unicode_tables.h"

namespace saccade {
namespace {

// The range of a sorted table that holds a character, or nothing.
template <class Range, size_t count>
const Range* find_range(const Range (&table)[count], char32_t character) {
  const Range* found =
      std::upper_bound(std::begin(table), std::end(table), character,
                       [](char32_t value, const Range& range) { return value < range.first; });
  if (found == std::begin(table)) return nullptr;
  --found;
  return character <= found->last ? found : nullptr;
}

bool is_space(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_ascii_punctuation(char32_t c) {
  return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) ||
         (c >= 0x7B && c <= 0x7E);
}

bool is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_letter(int category) { return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO; }
bool is_mark(int category) { return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME; }
bool is_number(int category) { return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO; }
bool is_punctuation(int category) {
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool is_unwanted(char32_t c, int category) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  if (c == kReplacementCharacter || category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CO)
    return true;
  return category == UTF8PROC_CATEGORY_CF && !find_range(kNotYetFormat, c);
}

uint16_t find_classes(char32_t c) {
  const int category = category_of(c);
  uint16_t result = 0;
  const auto add = [&](bool holds, CharacterClass one) {
    if (holds) result |= one;
  };
  add(is_letter(category), kLetter);
  add(is_number(category), kNumber);
  add(is_space(c), kSpace);
  add(c == '\r' || c == '\n', kLineEnd);
  add(is_ascii_punctuation(c) || find_range(kFormerPunctuation, c) ||
          (is_punctuation(category) && !find_range(kNotYetPunctuation, c)),
      kPunctuation);
  add(find_range(kFormerMark, c) || (is_mark(category) && !find_range(kNotYetMark, c)), kMark);
  add(find_range(kFormerNonspacing, c) ||
          (category == UTF8PROC_CATEGORY_MN && !find_range(kNotYetNonspacing, c)),
      kNonspacingMark);
  add(is_letter(category) || is_mark(category) || category == UTF8PROC_CATEGORY_ND ||
          category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_PC ||
          find_range(kOtherWordCharacters, c),
      kWord);
  add(is_number(category) || find_range(kNewerNumbers, c), kNumeric);
  add(is_unwanted(c, category), kUnwanted);
  add(is_ideograph(c), kIdeograph);
  add(find_range(kNotYetDecomposed, c), kNotDecomposed);
  return result;
}

void append_with_utf8proc(std::string& out, std::string_view text, NormalForm form) {
  if (text.empty()) return;
  int options = UTF8PROC_STABLE;
  options |= form == NormalForm::nfc || form == NormalForm::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::nfkc || form == NormalForm::nfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* raw = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &raw, static_cast<utf8proc_option_t>(options));
  require(length >= 0, "cannot bring text into a Unicode normal form: {}", utf8proc_errmsg(length));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(raw, std::free);
  out.append(reinterpret_cast<const char*>(raw), static_cast<size_t>(length));
}

}  // namespace

const uint16_t* class_table() {
  static const std::vector<uint16_t> table = [] {
    std::vector<uint16_t> result(kClassTableSize);
    for (char32_t c = 0; c < kClassTableSize; ++c) result[c] = find_classes(c);
    return result;
  }();
  return table.data();
}

uint16_t rare_classes(char32_t character) {
  return character == kInvalidCharacter ? 0 : find_classes(character);
}

int category_of(char32_t character) {
  if (const CategoryRange* range = find_range(kUnicode16, character)) return range->category;
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

void append_lower(std::string& text, char32_t character) {
  if (character < 0x80) {
    text += static_cast<char>(character >= 'A' && character <= 'Z' ? character + 32 : character);
  } else if (character == 0x130) {
    text += "i\u0307";
  } else if (const CaseRange* range = find_range(kNewerCase, character)) {
    append_character(text, character + static_cast<char32_t>(range->to_lower));
  } else {
    append_character(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))));
  }
}

// ASCII is in every normal form already; only its last character before another one may take part in a
// composition. The stretches between are handed to utf8proc, cut at characters that must stay as they are.
void append_normalized(std::string& out, std::string_view text, NormalForm form) {
  size_t at = 0;
  while (at < text.size()) {
    size_t ascii = at;
    while (ascii < text.size() && static_cast<unsigned char>(text[ascii]) < 0x80) ++ascii;
    if (ascii == text.size()) {
      out += text.substr(at);
      return;
    }
    const size_t begin = ascii > at ? ascii - 1 : at;
    out += text.substr(at, begin - at);
    size_t end = ascii, piece = begin;
    while (end < text.size() && static_cast<unsigned char>(text[end]) >= 0x80) {
      const Character character = decode_character(text.substr(end));
      if (is_in(character.value, kNotDecomposed)) {
        append_with_utf8proc(out, text.substr(piece, end - piece), form);
        out += text.substr(end, character.length);
        piece = end + character.length;
      }
      end += character.length;
    }
    append_with_utf8proc(out, text.substr(piece, end - piece), form);
    at = end;
  }
}

}  // namespace saccade
