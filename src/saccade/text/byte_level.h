// The alphabet of byte-level vocabularies: each byte is written as one printable character, so that a
// vocabulary can be a file of text although its tokens are arbitrary bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace saccade {

/// The character that stands for a byte: itself where that is printable and no space, else one from U+0100
/// on.
char32_t character_of_byte(unsigned char byte);

/// The byte that a character stands for, or -1.
int byte_of_character(char32_t character);

/// Bytes written in the alphabet.
std::string to_byte_alphabet(std::string_view bytes);

/// The bytes that a text in the alphabet stands for; nothing if another character is in it.
std::optional<std::string> from_byte_alphabet(std::string_view text);

}  // namespace saccade
