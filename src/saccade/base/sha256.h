// SHA-256 (FIPS 180-4), to name files by what is in them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace saccade {

/// Takes bytes in pieces of any sizes; the result depends only on all of them together.
class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  /// 64 hexadecimal digits. Once, after the last add.
  std::string finish();

 private:
  void mix(const std::byte* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};  // bytes that do not fill a block yet
  std::uint64_t size_ = 0;               // bytes so far
};

std::string sha256(std::string_view text);
/// Of a regular file; throws an Error that names it when it cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace saccade
