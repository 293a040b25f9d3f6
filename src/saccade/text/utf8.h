// UTF-8, one character at a time: strict (no overlong forms, no surrogates), and never past the end of the
// text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace saccade {

inline constexpr char32_t kInvalidCharacter = 0xFFFFFFFF;
inline constexpr char32_t kReplacementCharacter = 0xFFFD;

/// A character of a text and its number of bytes. Bytes that are not UTF-8 read as kInvalidCharacter; its
/// length is then that of the longest beginning of a character that is there, and at least one.
struct Character {
  char32_t value;
  uint32_t length;

  bool valid() const { return value != kInvalidCharacter; }
};

/// The first character of a text that is not ASCII, or one that is; the text must not be empty.
Character decode_character(std::string_view text);

inline Character first_character(std::string_view text) {
  const auto byte = static_cast<unsigned char>(text.front());
  return byte < 0x80 ? Character{byte, 1} : decode_character(text);
}

/// The last character of valid UTF-8 that is not empty.
Character last_character(std::string_view text);

/// Adds a character to the end of a text.
void append_character(std::string& text, char32_t character);
std::string to_utf8(char32_t character);

/// How many bytes at the start of a text are valid UTF-8.
size_t valid_prefix(std::string_view text);
inline bool is_utf8(std::string_view text) { return valid_prefix(text) == text.size(); }

/// The text with U+FFFD in place of what is not UTF-8, one for each longest beginning of a character. This is
/// what Python's errors="replace" and Rust's from_utf8_lossy do.
std::string replace_invalid(std::string_view text);

/// How many bytes at the end of a text begin a character that is not yet complete: 0 to 3.
size_t incomplete_suffix(std::string_view text);

/// Calls `use(character, begin, length)` for each character of a text.
template <class Use>
void for_each_character(std::string_view text, Use&& use) {
  for (size_t at = 0; at < text.size();) {
    const Character character = first_character(text.substr(at));
    use(character.value, at, static_cast<size_t>(character.length));
    at += character.length;
  }
}

}  // namespace saccade
