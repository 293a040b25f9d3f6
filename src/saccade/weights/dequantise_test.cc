#include "saccade/weights/dequantise.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "saccade/base/half.h"
#include "saccade/base/random.h"
#include "saccade/weights/quantise.h"
#include "saccade/weights/testing.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> floats_of(ElementType type, const std::string& bytes, std::vector<std::int64_t> shape) {
  const TensorView tensor{.name = "t", .type = type, .shape = std::move(shape), .bytes = as_bytes(bytes)};
  std::vector<float> result(static_cast<std::size_t>(tensor.elements()));
  to_floats(tensor, result.data());
  return result;
}

std::string random_bytes(std::size_t size, RandomStream& random) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.below(256));
  return bytes;
}

TEST(ToFloats, ConvertsFloatsOfAllWidths) {
  EXPECT_THAT(floats_of(ElementType::F32, raw<float>({1.5f, -2}), {2}), ElementsAre(1.5f, -2));
  EXPECT_THAT(floats_of(ElementType::F64, raw<double>({1.0 / 3, 1e300}), {2}),
              ElementsAre(1.0f / 3, INFINITY));
  EXPECT_THAT(floats_of(ElementType::F16, raw<std::uint16_t>({0x3c00, 0xc000}), {2}), ElementsAre(1, -2));
  EXPECT_THAT(floats_of(ElementType::BF16, raw<std::uint16_t>({0x3f80, 0xc000}), {2}), ElementsAre(1, -2));
  EXPECT_THAT(floats_of(ElementType::F32, "", {0, 3}), ElementsAre());
}

TEST(ToFloats, ReadsFromAnyAddress) {
  const std::string bytes = "x" + raw<float>({1, 2, 3});
  const TensorView tensor{.name = "t", .shape = {3}, .bytes = as_bytes(bytes).subspan(1)};
  float values[3];
  to_floats(tensor, values);
  EXPECT_THAT(values, ElementsAre(1, 2, 3));
}

TEST(ToFloats, UnpacksSmallBlocks) {
  const std::string half = raw<std::uint16_t>({0x3800}),
                    minus_four = raw<std::uint16_t>({0xc400});  // 0.5, -4
  std::string bytes;  // of value i in the low and 15 - i in the high half
  for (int i = 0; i < 16; ++i) bytes += static_cast<char>(i | (15 - i) << 4);
  const auto q4_0 = floats_of(ElementType::Q4_0, half + bytes, {32});
  const auto q4_1 = floats_of(ElementType::Q4_1, half + minus_four + bytes, {32});
  const std::string fifth = raw<std::uint32_t>({0x80000001});  // of the first and the last
  const auto q5_0 = floats_of(ElementType::Q5_0, half + fifth + bytes, {32});
  const auto q5_1 = floats_of(ElementType::Q5_1, half + minus_four + fifth + bytes, {32});
  for (std::size_t i = 0; i < 32; ++i) {
    const int four = static_cast<int>(i < 16 ? i : 31 - i);
    const int five = four + (i % 31 == 0 ? 16 : 0);
    EXPECT_EQ(q4_0[i], 0.5f * static_cast<float>(four - 8)) << i;
    EXPECT_EQ(q4_1[i], 0.5f * static_cast<float>(four) - 4) << i;
    EXPECT_EQ(q5_0[i], 0.5f * static_cast<float>(five - 16)) << i;
    EXPECT_EQ(q5_1[i], 0.5f * static_cast<float>(five) - 4) << i;
  }
}

// The definition as ggml's dequantize_row_q6_K states it, with its interleaved loop.
TEST(ToFloats, UnpacksQ6KAsGgmlDoes) {
  RandomStream random(1, "q6_k");
  std::string bytes = random_bytes(210, random);
  bytes.replace(208, 2, raw<std::uint16_t>({0x2e66}));
  const auto ours = floats_of(ElementType::Q6_K, bytes, {256});
  const auto* low = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const auto *high = low + 128, *scales = low + 192;
  const float d = from_half(0x2e66);
  for (std::size_t n = 0; n < 256; n += 128, low += 64, high += 32, scales += 8) {
    for (std::size_t l = 0; l < 32; ++l) {
      const int values[] = {(low[l] & 15) | (high[l] & 3) << 4, (low[l + 32] & 15) | (high[l] >> 2 & 3) << 4,
                            low[l] >> 4 | (high[l] >> 4 & 3) << 4, low[l + 32] >> 4 | (high[l] >> 6) << 4};
      for (std::size_t part = 0; part < 4; ++part) {
        const auto scale = static_cast<float>(static_cast<std::int8_t>(scales[l / 16 + part * 2]));
        EXPECT_EQ(ours[n + part * 32 + l], d * scale * static_cast<float>(values[part] - 32))
            << n << ' ' << l;
      }
    }
  }
}

// The definition as ggml's dequantize_row_q4_K states it.
TEST(ToFloats, UnpacksQ4KAsGgmlDoes) {
  RandomStream random(2, "q4_k");
  std::string bytes = random_bytes(144, random);
  bytes.replace(0, 4, raw<std::uint16_t>({0x2e66, 0x3001}));
  const auto ours = floats_of(ElementType::Q4_K, bytes, {256});
  const auto* packed = reinterpret_cast<const std::uint8_t*>(bytes.data()) + 4;
  const auto* values = packed + 12;
  for (std::size_t group = 0; group < 8; ++group) {
    const int scale =
        group < 4 ? packed[group] & 63 : (packed[group + 4] & 15) | (packed[group - 4] >> 6) << 4;
    const int minimum =
        group < 4 ? packed[group + 4] & 63 : packed[group + 4] >> 4 | (packed[group] >> 6) << 4;
    const float d = from_half(0x2e66) * static_cast<float>(scale);
    const float m = from_half(0x3001) * static_cast<float>(minimum);
    for (std::size_t l = 0; l < 32; ++l) {
      const int byte = values[group / 2 * 32 + l];
      const int value = group % 2 == 0 ? byte & 15 : byte >> 4;
      EXPECT_EQ(ours[group * 32 + l], d * static_cast<float>(value) - m) << group << ' ' << l;
    }
  }
}

TEST(ToFloats, APartIsTheSameAsInTheWhole) {
  RandomStream random(3, "parts");
  for (const ElementFormat& format : element_formats()) {
    if (format.kind == ElementKind::integer) continue;
    const std::int64_t row = 3 * format.block_elements, rows = 5;
    const std::string bytes = random_bytes(static_cast<std::size_t>(rows * 3 * format.block_bytes), random);
    const TensorView tensor{.name = "t", .type = format.type, .shape = {rows, row}, .bytes = as_bytes(bytes)};
    const auto whole = floats_of(format.type, bytes, {rows, row});
    for (std::int64_t first = 0; first <= rows; ++first) {
      std::vector<float> part(static_cast<std::size_t>((rows - first) * row));
      to_floats(tensor, first * row, (rows - first) * row, part.data());
      const auto same = std::span(whole).subspan(static_cast<std::size_t>(first * row));
      EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(part)), std::as_bytes(same)))
          << format.name << " from row " << first;
    }
  }
}

TEST(ToFloats, RefusesIntegers) {
  EXPECT_EQ(message_of([] { floats_of(ElementType::I64, raw<std::int64_t>({1}), {1}); }),
            "tensor 't' has type I64; expected floats");
}

TEST(ToFloats, RefusesPartsOfBlocks) {
  const std::string bytes(34 * 2, '\0');
  const TensorView tensor{.name = "t", .type = ElementType::Q8_0, .shape = {64}, .bytes = as_bytes(bytes)};
  float out[64];
  EXPECT_THROW(to_floats(tensor, 16, 32, out), std::logic_error);
  EXPECT_THROW(to_floats(tensor, 32, 64, out), std::logic_error);
}

TEST(FromFloats, ComesBackWithinTheTypesPrecision) {
  RandomStream random(4, "quantise");
  std::vector<float> floats(32 * 20);
  float largest = 0;
  for (float& value : floats)
    largest = std::max(largest, std::abs(value = static_cast<float>(random.normal())));
  const struct {
    ElementType type;
    float tolerance;
  } cases[] = {{ElementType::F32, 0},
               {ElementType::F16, largest / 2048},
               {ElementType::BF16, largest / 256},
               {ElementType::Q8_0, largest / 254 * 1.01f}};
  for (const auto& [type, tolerance] : cases) {
    const ElementFormat& format = format_of(type);
    std::string bytes(floats.size() / static_cast<std::size_t>(format.block_elements) *
                          static_cast<std::size_t>(format.block_bytes),
                      '\0');
    from_floats(type, floats, std::as_writable_bytes(std::span(bytes)));
    const auto back = floats_of(type, bytes, {static_cast<std::int64_t>(floats.size())});
    for (std::size_t i = 0; i < floats.size(); ++i)
      EXPECT_LE(std::abs(back[i] - floats[i]), tolerance) << format.name;
  }
}

TEST(FromFloats, KeepsZerosAndSurvivesWhatIsNotFinite) {
  std::vector<float> floats(32, 0.0f);
  std::string bytes(34, 'x');
  from_floats(ElementType::Q8_0, floats, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(bytes, std::string(34, '\0'));
  floats[3] = INFINITY;
  floats[4] = NAN;
  from_floats(ElementType::Q8_0, floats, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(bytes.substr(0, 2), raw<std::uint16_t>({0x7c00}));
  EXPECT_THAT(message_of([&] { from_floats(ElementType::Q4_K, floats, {}); }),
              HasSubstr("as Q4_K; expected F32"));
}

}  // namespace
}  // namespace saccade
