// Two small hashes, the same on every machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace saccade {

/// FNV-1a, for checksums.
constexpr uint64_t hash_bytes(std::string_view bytes) {
  uint64_t result = 0xCBF29CE484222325;
  for (const char byte : bytes) result = (result ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  return result;
}

/// The last steps of splitmix64: every bit of the number changes about half of those of the result.
constexpr uint64_t hash_number(uint64_t number) {
  number += 0x9E3779B97F4A7C15;
  number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9;
  number = (number ^ (number >> 27)) * 0x94D049BB133111EB;
  return number ^ (number >> 31);
}

}  // namespace saccade
