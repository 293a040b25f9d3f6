// 16-bit floats, both ways and exactly: without branches, so that the
// compiler can turn a loop over them into vector instructions, and without denormal intermediates, which a
// thread that flushes them to zero would lose.
#pragma once

#include <bit>
#include <cstdint>

namespace saccade {

/// The value of an IEEE half. All halves are floats, so nothing is rounded; a NaN keeps its sign and payload.
inline float from_half(std::uint16_t half) {
  const std::uint32_t magnitude = half & 0x7fffu;
  const std::uint32_t sign = (half & 0x8000u) << 16;
  constexpr std::uint32_t kRebias = (127 - 15) << 23;
  const std::uint32_t normal = (magnitude << 13) + kRebias + (magnitude >= 0x7c00u ? kRebias : 0);
  const auto small =
      std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
  return std::bit_cast<float>((magnitude < 0x0400u ? small : normal) | sign);
}

/// The nearest half, of two equally near ones the even; beyond the largest, an infinity.
inline std::uint16_t to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t result = 0;
  if (magnitude > 0x7f800000u) {  // NaN: stays one even if its payload is in the bits that are lost
    result = 0x7e00u | ((magnitude >> 13) & 0x03ffu);
  } else if (magnitude >= 0x47800000u) {  // 2^16 and more
    result = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // 2^-14 and more; the largest round up into the infinity by carry
    result = (magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1)) >> 13;
  } else {  // adding 2^-1 moves the last place of a half to that of the float, which then rounds
    result = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  }
  return static_cast<std::uint16_t>(result | sign);
}

/// A bfloat16 is the upper half of a float.
inline float from_bfloat(std::uint16_t bfloat) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bfloat) << 16);
}

/// The nearest bfloat16, of two equally near ones the even.
inline std::uint16_t to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

}  // namespace saccade
