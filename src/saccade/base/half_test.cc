#include "saccade/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace saccade {
namespace {

TEST(Half, EveryValueIsWhatItsBitsSay) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = from_half(half);
    const int exponent = (half >> 10) & 31, fraction = half & 1023;
    EXPECT_EQ(std::signbit(value), half >> 15 == 1) << bits;
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), fraction != 0) << bits;
      EXPECT_EQ(std::isinf(value), fraction == 0) << bits;
      continue;
    }
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    EXPECT_EQ(std::abs(value), magnitude) << bits;
    EXPECT_EQ(to_half(value), half) << bits;
  }
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  for (int bits = 0; bits < 0x7bff; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const auto next = static_cast<std::uint16_t>(bits + 1);
    const float below = from_half(half), above = from_half(next), middle = (below + above) / 2;
    EXPECT_EQ(to_half(middle), bits % 2 == 0 ? half : next) << bits;
    EXPECT_EQ(to_half(std::nextafter(middle, 0.0f)), half) << bits;
    EXPECT_EQ(to_half(std::nextafter(middle, 1e9f)), next) << bits;
  }
  EXPECT_EQ(to_half(65519.0f), 0x7bff);
  EXPECT_EQ(to_half(65520.0f), 0x7c00);
  EXPECT_EQ(to_half(-1e30f), 0xfc00);
  EXPECT_TRUE(std::isnan(from_half(to_half(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Bfloat, RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(to_bfloat(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(to_bfloat(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(to_bfloat(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(to_bfloat(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(from_bfloat(to_bfloat(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace saccade
