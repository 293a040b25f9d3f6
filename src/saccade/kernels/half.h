// Single numbers of the stored types, one at a time: for odd strides and the ends of rows.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "saccade/kernels/arrays.h"

namespace saccade::kernels {

inline float from_bfloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

inline uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (value != value) return static_cast<uint16_t>((bits >> 16) | 0x40);     // stays NaN
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);  // to nearest, ties to even
}

inline float from_float16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = (bits >> 10) & 31,
                 mantissa = bits & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  if (exponent == 0) {
    const float small = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -small : small;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

inline uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const float size = std::fabs(value);
  if (size != size) return sign | 0x7e00;
  if (size >= 65520.0f) return sign | 0x7c00;
  if (size < 6.103515625e-05f)  // below the smallest normal number: a multiple of 2^-24
    return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(size, 24)));
  const uint32_t rest = bits & 0x7fffffff;
  const uint32_t rounded = rest + 0xfff + ((rest >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112 << 10)));
}

template <class Real>
Real load_number(const void* data, Storage storage, int64_t index) {
  switch (storage) {
    case Storage::float32:
      return static_cast<Real>(static_cast<const float*>(data)[index]);
    case Storage::float64:
      return static_cast<Real>(static_cast<const double*>(data)[index]);
    case Storage::bfloat16:
      return static_cast<Real>(from_bfloat16(static_cast<const uint16_t*>(data)[index]));
    case Storage::float16:
      return static_cast<Real>(from_float16(static_cast<const uint16_t*>(data)[index]));
  }
  return 0;
}

template <class Real>
void store_number(Real value, void* data, Storage storage, int64_t index) {
  switch (storage) {
    case Storage::float32:
      static_cast<float*>(data)[index] = static_cast<float>(value);
      return;
    case Storage::float64:
      static_cast<double*>(data)[index] = static_cast<double>(value);
      return;
    case Storage::bfloat16:
      static_cast<uint16_t*>(data)[index] = to_bfloat16(static_cast<float>(value));
      return;
    case Storage::float16:
      static_cast<uint16_t*>(data)[index] = to_float16(static_cast<float>(value));
      return;
  }
}

}  // namespace saccade::kernels
