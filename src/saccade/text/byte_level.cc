// The alphabet comes with GPT-2: Latin-1 without its spaces and control characters, and from U+0100 on the
// bytes that are left, in their order.
#include "saccade/text/byte_level.h"

#include <array>

#include "saccade/text/utf8.h"

namespace saccade {
namespace {

struct Alphabet {
  std::array<char32_t, 256> characters;
  std::array<int, 0x180> bytes;

  Alphabet() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
      const char32_t character = printable ? static_cast<char32_t>(byte) : next++;
      characters[static_cast<size_t>(byte)] = character;
      bytes[character] = byte;
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

char32_t character_of_byte(unsigned char byte) { return alphabet().characters[byte]; }

int byte_of_character(char32_t character) {
  const auto& bytes = alphabet().bytes;
  return character < bytes.size() ? bytes[character] : -1;
}

std::string to_byte_alphabet(std::string_view bytes) {
  std::string result;
  result.reserve(bytes.size() * 2);
  for (char byte : bytes) append_character(result, character_of_byte(static_cast<unsigned char>(byte)));
  return result;
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    const int byte = character.valid() ? byte_of_character(character.value) : -1;
    if (byte < 0) return std::nullopt;
    result += static_cast<char>(byte);
    text.remove_prefix(character.length);
  }
  return result;
}

}  // namespace saccade
