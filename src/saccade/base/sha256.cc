// The names of the variables in the rounds are those of the standard.
#include "saccade/base/sha256.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "saccade/base/mapped_file.h"

namespace saccade {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace

void Sha256::mix(const std::byte* block) {
  std::array<std::uint32_t, 64> w;
  for (std::size_t t = 0; t < 16; ++t) {
    w[t] = 0;
    for (std::size_t byte = 0; byte < 4; ++byte)
      w[t] = w[t] << 8 | std::to_integer<std::uint32_t>(block[4 * t + byte]);
  }
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t early = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
    const std::uint32_t late = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = w[t - 16] + early + w[t - 7] + late;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t choice = (e & f) ^ (~e & g), majority = (a & b) ^ (a & c) ^ (b & c);
    const std::uint32_t first =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + choice + kRounds[t] + w[t];
    const std::uint32_t second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + majority;
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::array<std::uint32_t, 8> mixed = {a, b, c, d, e, f, g, h};
  for (std::size_t index = 0; index < 8; ++index) state_[index] += mixed[index];
}

void Sha256::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t held = size_ % pending_.size();
    if (held == 0 && bytes.size() >= pending_.size()) {
      mix(bytes.data());
      size_ += pending_.size();
      bytes = bytes.subspan(pending_.size());
      continue;
    }
    const std::size_t count = std::min(pending_.size() - held, bytes.size());
    std::memcpy(pending_.data() + held, bytes.data(), count);
    size_ += count;
    bytes = bytes.subspan(count);
    if (held + count == pending_.size()) mix(pending_.data());
  }
}

void Sha256::add(std::string_view text) { add(std::as_bytes(std::span(text))); }

std::string Sha256::finish() {
  const std::uint64_t bits = size_ * 8;
  // A one, zeros, and the length in the last eight bytes of a block.
  std::array<std::byte, 72> end{std::byte{0x80}};
  const std::size_t zeros = (55 - size_ % 64 + 64) % 64;
  for (std::size_t byte = 0; byte < 8; ++byte)
    end[1 + zeros + byte] = static_cast<std::byte>(bits >> (56 - 8 * byte) & 0xff);
  add(std::span<const std::byte>(end).first(1 + zeros + 8));
  std::string digits;
  for (const std::uint32_t word : state_) digits += fmt::format("{:08x}", word);
  return digits;
}

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.add(text);
  return hash.finish();
}

std::string sha256_of_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  Sha256 hash;
  hash.add(file.bytes());
  return hash.finish();
}

}  // namespace saccade
