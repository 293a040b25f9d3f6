// Three bytes are four letters.
#include "saccade/base/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "saccade/base/error.h"

namespace saccade {
namespace {

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int, 256> values_of_letters() {
  std::array<int, 256> values{};
  values.fill(-1);
  for (size_t index = 0; index < kLetters.size(); ++index)
    values[static_cast<unsigned char>(kLetters[index])] = static_cast<int>(index);
  return values;
}

}  // namespace

std::string to_base64(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (size_t index = 0; index < 3; ++index)
      group = group << 8 | (index < count ? std::to_integer<std::uint32_t>(bytes[at + index]) : 0);
    for (size_t letter = 0; letter < 4; ++letter)
      text += letter <= count ? kLetters[group >> (18 - 6 * letter) & 63] : '=';
  }
  return text;
}

std::vector<std::byte> from_base64(std::string_view text, std::string_view where) {
  static constexpr std::array<int, 256> kValues = values_of_letters();
  require(text.size() % 4 == 0, "{}: {} letters of base64; expected a multiple of four", where, text.size());
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t at = 0; at < text.size(); at += 4) {
    const bool last = at + 4 == text.size();
    const size_t padding = !last || text[at + 3] != '=' ? 0 : text[at + 2] != '=' ? 1 : 2;
    std::uint32_t group = 0;
    for (size_t letter = 0; letter < 4; ++letter) {
      const int value = letter < 4 - padding ? kValues[static_cast<unsigned char>(text[at + letter])] : 0;
      require(value >= 0, "{}: letter {} is not base64", where, at + letter + 1);
      group = group << 6 | static_cast<std::uint32_t>(value);
    }
    for (size_t index = 0; index < 3 - padding; ++index)
      bytes.push_back(static_cast<std::byte>(group >> (16 - 8 * index) & 0xff));
    require((group & ((1U << (8 * padding)) - 1)) == 0, "{}: its last letters hold bits beyond its end",
            where);
  }
  return bytes;
}

}  // namespace saccade
