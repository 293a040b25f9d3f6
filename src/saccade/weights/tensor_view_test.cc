#include "saccade/weights/tensor_view.h"

#include <gmock/gmock.h>

#include "saccade/weights/testing.h"

namespace saccade {
namespace {

using testing::HasSubstr;

TEST(ElementFormats, AreFoundByTheirNamesInBothFormats) {
  for (const ElementFormat& format : element_formats()) {
    EXPECT_EQ(format_of(format.type).name, format.name);
    const auto expected = format.in_safetensors ? std::optional(format.type) : std::nullopt;
    EXPECT_EQ(safetensors_type(format.name), expected) << format.name;
    if (format.gguf_id < 0) continue;
    EXPECT_EQ(gguf_type(static_cast<std::uint32_t>(format.gguf_id)), format.type) << format.name;
    EXPECT_EQ(gguf_type_name(static_cast<std::uint32_t>(format.gguf_id)), format.name);
  }
  EXPECT_EQ(safetensors_type("f32"), std::nullopt);
  EXPECT_EQ(gguf_type(20), std::nullopt);
  EXPECT_EQ(gguf_type(0xffffffff), std::nullopt) << "not the types that GGUF does not have";
}

TEST(ElementFormats, NameTypesThatAreNotRead) {
  EXPECT_EQ(gguf_type_name(20), "IQ4_NL");
  EXPECT_EQ(gguf_type_name(4), "type 4");
}

TEST(CountElements, MultipliesTheSizes) {
  const auto count = [](std::vector<std::int64_t> shape) { return count_elements(shape, "t"); };
  EXPECT_EQ(count({}), 1);
  EXPECT_EQ(count({2, 3}), 6);
  EXPECT_EQ(count({5, 0}), 0);
  EXPECT_EQ(count({std::int64_t{1} << 31, std::int64_t{1} << 31}), std::int64_t{1} << 62);
}

TEST(CountElements, RefusesWhatDoesNotFit) {
  const auto message = [](std::vector<std::int64_t> shape) {
    return message_of([&] { count_elements(shape, "file: tensor 't'"); });
  };
  EXPECT_EQ(message({-1, 2}), "file: tensor 't': shape is [-1, 2]; expected no negative size");
  EXPECT_THAT(message({std::int64_t{1} << 32, std::int64_t{1} << 31}), HasSubstr("fewer than 2^63 elements"));
  EXPECT_THAT(message({0, INT64_MAX, 2}), HasSubstr("fewer than 2^63 elements")) << "a zero excuses nothing";
}

TEST(CountBytes, CountsBlocksOfQuantisedRows) {
  const auto count = [](ElementType type, std::vector<std::int64_t> shape) {
    return count_bytes(type, shape, "t");
  };
  EXPECT_EQ(count(ElementType::F64, {2, 3}), 48);
  EXPECT_EQ(count(ElementType::Q8_0, {3, 64}), 3 * 2 * 34);
  EXPECT_EQ(count(ElementType::Q6_K, {2, 256}), 420);
  EXPECT_THAT(message_of([&] {
                count(ElementType::Q8_0, {64, 3});
              }),
              HasSubstr("expected the last size to be a multiple of 32 for Q8_0"));
  EXPECT_THAT(message_of([&] { count(ElementType::F64, {INT64_MAX / 4}); }),
              HasSubstr("fewer than 2^63 bytes"));
}

}  // namespace
}  // namespace saccade
