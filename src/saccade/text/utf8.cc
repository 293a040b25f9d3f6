// The tables of the Unicode standard on well-formed byte sequences, as comparisons.
#include "saccade/text/utf8.h"

#include <algorithm>
#include <cstring>

namespace saccade {
namespace {

bool continues(unsigned char byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

Character decode_character(std::string_view text) {
  const auto byte = [&](size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xC2 || first > 0xF4) return {kInvalidCharacter, 1};
  if (first < 0xE0) {
    if (text.size() < 2 || !continues(byte(1))) return {kInvalidCharacter, 1};
    return {static_cast<char32_t>((first & 0x1F) << 6 | (byte(1) & 0x3F)), 2};
  }
  // The second byte decides whether the form is overlong, a surrogate or beyond U+10FFFF.
  const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (text.size() < 2 || byte(1) < low || byte(1) > high) return {kInvalidCharacter, 1};
  if (text.size() < 3 || !continues(byte(2))) return {kInvalidCharacter, 2};
  if (first < 0xF0)
    return {static_cast<char32_t>((first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F)), 3};
  if (text.size() < 4 || !continues(byte(3))) return {kInvalidCharacter, 3};
  return {static_cast<char32_t>((first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 |
                                (byte(3) & 0x3F)),
          4};
}

Character last_character(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && continues(static_cast<unsigned char>(text[begin]))) --begin;
  return first_character(text.substr(begin));
}

void append_character(std::string& text, char32_t character) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (character < 0x80) {
    put(character);
  } else if (character < 0x800) {
    put(0xC0 | character >> 6);
    put(0x80 | (character & 0x3F));
  } else if (character < 0x10000) {
    put(0xE0 | character >> 12);
    put(0x80 | (character >> 6 & 0x3F));
    put(0x80 | (character & 0x3F));
  } else {
    put(0xF0 | character >> 18);
    put(0x80 | (character >> 12 & 0x3F));
    put(0x80 | (character >> 6 & 0x3F));
    put(0x80 | (character & 0x3F));
  }
}

std::string to_utf8(char32_t character) {
  std::string result;
  append_character(result, character);
  return result;
}

size_t valid_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight;
    if (at + sizeof eight <= text.size()) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    const Character character = first_character(text.substr(at));
    if (!character.valid()) return at;
    at += character.length;
  }
  return at;
}

std::string replace_invalid(std::string_view text) {
  std::string result;
  result.reserve(text.size() + 8);
  while (!text.empty()) {
    const size_t good = valid_prefix(text);
    result += text.substr(0, good);
    text.remove_prefix(good);
    if (text.empty()) break;
    append_character(result, kReplacementCharacter);
    text.remove_prefix(first_character(text).length);
  }
  return result;
}

size_t incomplete_suffix(std::string_view text) {
  for (size_t length = 1; length <= std::min<size_t>(3, text.size()); ++length) {
    const auto byte = static_cast<unsigned char>(text[text.size() - length]);
    if (continues(byte)) continue;
    if (byte < 0xC2 || byte > 0xF4) return 0;
    const size_t needed = byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    const Character character = decode_character(text.substr(text.size() - length));
    return length < needed && !character.valid() && character.length == length ? length : 0;
  }
  return 0;
}

}  // namespace saccade
