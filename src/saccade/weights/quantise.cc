// Rounding to 16 bits, and ggml's blocks of signed bytes with one scale.
#include "saccade/weights/quantise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "saccade/base/error.h"
#include "saccade/base/half.h"

namespace saccade {
namespace {

template <std::uint16_t (*kConvert)(float)>
void convert(std::span<const float> floats, std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const std::uint16_t value = kConvert(floats[i]);
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
}

// The scale maps the largest magnitude to 127. The values are divided by the exact scale, not by the half
// that is stored: so does ggml.
void q8_0(std::span<const float, 32> floats, std::span<std::byte, 34> bytes) {
  float largest = 0;
  for (const float value : floats) largest = std::max(largest, std::abs(value));
  const float scale = largest / 127;
  const float inverse = scale == 0 ? 0 : 1 / scale;
  const std::uint16_t stored = to_half(scale);
  std::memcpy(bytes.data(), &stored, sizeof stored);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    // Not below -128 nor above 127, whatever the scale overflowed to; a NaN has no place in a byte.
    const float rounded = std::round(floats[i] * inverse);
    const float bounded = std::isnan(rounded) ? 0 : std::clamp(rounded, -127.0f, 127.0f);
    bytes[i + 2] = static_cast<std::byte>(static_cast<std::int8_t>(bounded));
  }
}

}  // namespace

bool can_quantise(ElementType type) {
  return type == ElementType::F32 || type == ElementType::F16 || type == ElementType::BF16 ||
         type == ElementType::Q8_0;
}

void from_floats(ElementType type, std::span<const float> floats, std::span<std::byte> bytes) {
  const ElementFormat& format = format_of(type);
  require(can_quantise(type), "cannot write weights as {}; expected F32, F16, BF16 or Q8_0", format.name);
  const auto block_elements = static_cast<std::size_t>(format.block_elements);
  invariant(floats.size() % block_elements == 0, "floats to convert are whole blocks");
  invariant(bytes.size() == floats.size() / block_elements * static_cast<std::size_t>(format.block_bytes),
            "there is room for the converted floats");
  if (floats.empty()) return;
  if (type == ElementType::F32) std::memcpy(bytes.data(), floats.data(), bytes.size());
  if (type == ElementType::F16) convert<to_half>(floats, bytes);
  if (type == ElementType::BF16) convert<to_bfloat>(floats, bytes);
  if (type == ElementType::Q8_0) {
    for (std::size_t block = 0; block * 32 < floats.size(); ++block)
      q8_0(floats.subspan(block * 32).first<32>(), bytes.subspan(block * 34).first<34>());
  }
}

}  // namespace saccade
