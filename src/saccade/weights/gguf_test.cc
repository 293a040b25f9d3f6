#include "saccade/weights/gguf.h"

#include <gmock/gmock.h>

#include "saccade/weights/testing.h"

namespace saccade {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Gguf parse(const GgufBytes& file) { return Gguf::parse(as_bytes(file.bytes()), "a.gguf"); }

std::string error_of(const GgufBytes& file) {
  return message_of([&] { parse(file); });
}

// A file with one key of each type, and two tensors.
GgufBytes sample(std::uint32_t version = 3) {
  GgufBytes file(2, 16, version);
  file.key("u8", 0).number<std::uint8_t>(255).key("i8", 1).number<std::int8_t>(-1);
  file.key("u16", 2).number<std::uint16_t>(65535).key("i16", 3).number<std::int16_t>(-2);
  file.key("u32", 4).number<std::uint32_t>(4294967295).key("i32", 5).number<std::int32_t>(-3);
  file.key("f32", 6).number(1.5f).key("bool", 7).number<std::uint8_t>(1);
  file.key("text", 8).text("llama").key("u64", 10).number<std::uint64_t>(UINT64_MAX);
  file.key("i64", 11).number<std::int64_t>(-4).key("f64", 12).number(0.25);
  file.key("texts", 9).number<std::uint32_t>(8).number<std::uint64_t>(2).text("a").text("");
  file.key("integers", 9)
      .number<std::uint32_t>(5)
      .number<std::uint64_t>(2)
      .number<std::int32_t>(-5)
      .number<std::int32_t>(6);
  file.key("nothing", 9).number<std::uint32_t>(6).number<std::uint64_t>(0);
  file.key("nested", 9).number<std::uint32_t>(9).number<std::uint64_t>(1);
  file.number<std::uint32_t>(7).number<std::uint64_t>(2).number<std::uint8_t>(0).number<std::uint8_t>(1);
  file.tensor("second", {32, 2}, 8, 32).tensor("first", {3}, 0, 0);
  return file.align().data(raw<float>({1, 2, 3})).align().data(std::string(68, 'q'));
}

TEST(Gguf, ReadsMetadataOfEveryType) {
  for (const std::uint32_t version : {2u, 3u}) {
    const GgufBytes bytes = sample(version);
    const Gguf file = parse(bytes);
    EXPECT_EQ(file.version(), version);
    EXPECT_EQ(file.metadata().size(), 16u);
    EXPECT_EQ(file.integer("u8"), 255);
    EXPECT_EQ(file.integer("i8"), -1);
    EXPECT_EQ(file.integer("u16"), 65535);
    EXPECT_EQ(file.integer("i16"), -2);
    EXPECT_EQ(file.integer("u32"), 4294967295);
    EXPECT_EQ(file.integer("i32"), -3);
    EXPECT_EQ(file.integer("i64"), -4);
    EXPECT_EQ(file.real("f32"), 1.5);
    EXPECT_EQ(file.real("f64"), 0.25);
    EXPECT_EQ(file.real("u8"), 255);
    EXPECT_TRUE(file.boolean("bool"));
    EXPECT_EQ(file.text("text"), "llama");
    EXPECT_THAT(file.texts("texts"), ElementsAre("a", ""));
    EXPECT_THAT(file.integers("integers"), ElementsAre(-5, 6));
    EXPECT_THAT(file.reals("integers"), ElementsAre(-5, 6));
    EXPECT_THAT(file.reals("nothing"), ElementsAre());
    const auto& nested = std::get<GgufArray>(*file.find("nested"));
    const auto& inner = std::get<std::vector<GgufArray>>(nested.elements).at(0);
    EXPECT_EQ(std::get<std::vector<bool>>(inner.elements), (std::vector<bool>{false, true}));
  }
}

TEST(Gguf, ReadsTensorsWithTheOutermostDimensionFirst) {
  const GgufBytes bytes = sample();
  const Gguf file = parse(bytes);
  ASSERT_EQ(file.tensors().size(), 2u);
  const TensorView &second = file.tensors()[0], &first = file.tensors()[1];
  EXPECT_EQ(second.name, "second");
  EXPECT_EQ(second.type, ElementType::Q8_0);
  EXPECT_THAT(second.shape, ElementsAre(2, 32));
  EXPECT_EQ(second.bytes.size(), 68u);
  EXPECT_EQ(second.bytes[0], std::byte{'q'});
  float values[3];
  ASSERT_EQ(first.bytes.size(), sizeof values);
  std::memcpy(values, first.bytes.data(), sizeof values);
  EXPECT_THAT(values, ElementsAre(1, 2, 3));
}

TEST(Gguf, FallsBackWhenAKeyIsMissing) {
  const GgufBytes bytes = sample();
  const Gguf file = parse(bytes);
  EXPECT_EQ(file.integer("none", 7), 7);
  EXPECT_EQ(file.real("none", 0.5), 0.5);
  EXPECT_EQ(file.text("none", "x"), "x");
  EXPECT_EQ(file.boolean("none", true), true);
  EXPECT_EQ(file.integer("u8", 7), 255);
  EXPECT_FALSE(file.has("none"));
}

TEST(Gguf, NamesTheKeyTheValueAndTheExpectedType) {
  const GgufBytes bytes = sample();
  const Gguf file = parse(bytes);
  EXPECT_EQ(message_of([&] { file.text("texst"); }), "a.gguf: no key 'texst'; did you mean 'text'?");
  EXPECT_EQ(message_of([&] { file.text("u8"); }), "a.gguf: key 'u8' is uint8 255; expected a string");
  EXPECT_EQ(message_of([&] { file.integer("text", 3); }),
            "a.gguf: key 'text' is string 'llama'; expected an integer of 64 bits");
  EXPECT_THAT(message_of([&] { file.integer("u64"); }), HasSubstr("uint64 18446744073709551615"));
  EXPECT_THAT(message_of([&] { file.integer("f32"); }), HasSubstr("float32 1.5"));
  EXPECT_THAT(message_of([&] { file.integer("bool"); }), HasSubstr("boolean true"));
  EXPECT_THAT(message_of([&] { file.real("bool"); }), HasSubstr("expected a number"));
  EXPECT_THAT(message_of([&] { file.boolean("u8"); }), HasSubstr("expected a boolean"));
  EXPECT_THAT(message_of([&] { file.texts("integers"); }),
              HasSubstr("array of 2 int32; expected a list of strings"));
  EXPECT_THAT(message_of([&] { file.integers("texts"); }),
              HasSubstr("array of 2 string; expected a list of integers"));
  EXPECT_THAT(message_of([&] { file.reals("f32"); }), HasSubstr("expected a list of numbers"));
}

TEST(Gguf, RefusesOtherFiles) {
  const auto error = [](std::string_view bytes) {
    return message_of([&] { Gguf::parse(as_bytes(bytes), "a.gguf"); });
  };
  EXPECT_THAT(error(""), HasSubstr("does not begin with 'GGUF'"));
  EXPECT_THAT(error("GGML1234"), HasSubstr("does not begin with 'GGUF'"));
  EXPECT_THAT(error("GGUF"), HasSubstr("version: the file ends after 4 bytes; expected 4 more"));
  EXPECT_THAT(error_of(GgufBytes(0, 0, 1)), HasSubstr("version is 1; expected 2 or 3"));
  EXPECT_THAT(error_of(GgufBytes(0, 0, 0x03000000)), HasSubstr("big endian"));
}

TEST(Gguf, EveryTruncationIsAnError) {
  const std::string whole = sample().bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(message_of([&] { Gguf::parse(as_bytes(whole).first(size), "a.gguf"); }), "nothing was thrown")
        << size;
  }
}

TEST(Gguf, BelievesNoCountThatTheFileCannotHold) {
  const std::uint64_t huge = std::uint64_t{1} << 60;
  EXPECT_THAT(error_of(GgufBytes(huge, 0)),
              HasSubstr("header: states 1152921504606846976 tensors; expected at most 0"));
  EXPECT_THAT(error_of(GgufBytes(0, huge)), HasSubstr("keys; expected at most 0"));
  EXPECT_THAT(error_of(GgufBytes(0, 1).number(huge).data("12345")),
              HasSubstr("bytes of text; expected at most 5"));
  EXPECT_THAT(error_of(GgufBytes(0, 1).key("k", 8).number(huge)), HasSubstr("key 'k': states 11529"));
  for (std::uint32_t type = 0; type < 13; ++type) {
    GgufBytes file(0, 1);
    file.key("k", 9).number(type).number(UINT64_MAX).data(std::string(100, '\0'));
    EXPECT_THAT(error_of(file), HasSubstr("elements; expected at most ")) << type;
  }
}

TEST(Gguf, RefusesWrongMetadata) {
  EXPECT_THAT(error_of(GgufBytes(0, 1).key("k", 13).number<std::uint64_t>(0)),
              HasSubstr("key 'k': value type is 13; expected 0 to 12"));
  EXPECT_THAT(error_of(GgufBytes(0, 1).key("k", 7).number<std::uint8_t>(2)),
              HasSubstr("key 'k': boolean is 2"));
  EXPECT_THAT(
      error_of(GgufBytes(0, 2).key("k", 0).number<std::uint8_t>(2).key("k", 0).number<std::uint8_t>(2)),
      HasSubstr("the key 'k' is given twice"));
  GgufBytes deep(0, 1);
  deep.key("k", 9);
  for (int level = 0; level < 100; ++level) deep.number<std::uint32_t>(9).number<std::uint64_t>(1);
  EXPECT_THAT(error_of(deep.number<std::uint32_t>(0).number<std::uint64_t>(0)),
              HasSubstr("nested deeper than 8"));
}

TEST(Gguf, TakesTheAlignmentFromTheMetadata) {
  const auto with_alignment = [](std::uint32_t alignment, std::uint64_t offset) {
    GgufBytes file(1, 1);
    file.key("general.alignment", 4).number(alignment).tensor("t", {1}, 0, offset);
    return file.align(alignment ? alignment : 1).data(std::string(300, 'x'));
  };
  EXPECT_EQ(parse(with_alignment(8, 40)).tensors().size(), 1u);
  EXPECT_EQ(parse(with_alignment(256, 256)).tensors().size(), 1u);
  EXPECT_THAT(error_of(with_alignment(64, 40)),
              HasSubstr("tensor 't': offset is 40; expected a multiple of 64"));
  EXPECT_THAT(error_of(with_alignment(0, 0)), HasSubstr("'general.alignment' is 0; expected a power of two"));
  EXPECT_THAT(error_of(with_alignment(24, 0)), HasSubstr("is 24; expected a power of two"));
  EXPECT_THAT(error_of(GgufBytes(0, 1).key("general.alignment", 0).number<std::uint8_t>(8)),
              HasSubstr("is of type uint8; expected uint32"));
}

std::string tensor_error(std::vector<std::uint64_t> sizes, std::uint32_t type, std::uint64_t offset) {
  return error_of(
      GgufBytes(1, 0).tensor("t", std::move(sizes), type, offset).align().data(std::string(64, 'x')));
}

TEST(Gguf, RefusesWrongTensors) {
  EXPECT_EQ(tensor_error({16}, 0, 0), "nothing was thrown");
  EXPECT_EQ(tensor_error({16, 0}, 0, 64), "nothing was thrown");
  EXPECT_THAT(
      tensor_error({16}, 20, 0),
      AllOf(StartsWith("a.gguf: tensor 't': is of type IQ4_NL, which is not supported"), HasSubstr("Q6_K")));
  EXPECT_THAT(tensor_error({16}, 77, 0), HasSubstr("is of type type 77"));
  EXPECT_THAT(tensor_error({1, 1, 1, 1, 1}, 0, 0), HasSubstr("has 5 dimensions; expected at most 4"));
  EXPECT_THAT(tensor_error({UINT64_MAX}, 0, 0), HasSubstr("a dimension is 18446744073709551615"));
  EXPECT_THAT(tensor_error({std::uint64_t{1} << 32, std::uint64_t{1} << 32}, 0, 0),
              HasSubstr("fewer than 2^63 elements"));
  EXPECT_THAT(tensor_error({16}, 8, 0), HasSubstr("expected the last size to be a multiple of 32 for Q8_0"));
  EXPECT_THAT(tensor_error({17}, 0, 0),
              HasSubstr("68 bytes at offset 0; expected to end within the 64 bytes"));
  EXPECT_THAT(tensor_error({1}, 0, std::uint64_t{1} << 63),
              HasSubstr("4 bytes at offset 9223372036854775808"));
  EXPECT_THAT(tensor_error({1}, 0, 33), HasSubstr("offset is 33; expected a multiple of 32"));
}

TEST(Gguf, RefusesTensorsThatOverlapOrShareAName) {
  const auto pair = [](std::string_view second, std::uint64_t offset) {
    GgufBytes file(2, 0);
    file.tensor("a", {16}, 0, 0).tensor(second, {8}, 0, offset);
    return error_of(file.align().data(std::string(128, 'x')));
  };
  EXPECT_EQ(pair("b", 64), "nothing was thrown");
  EXPECT_EQ(pair("b", 96), "nothing was thrown") << "a gap does no harm";
  EXPECT_THAT(pair("b", 32), HasSubstr("tensors 'a' and 'b' overlap at offset 32"));
  EXPECT_THAT(pair("b", 0), HasSubstr("overlap at offset 0"));
  EXPECT_THAT(pair("a", 64), HasSubstr("the tensor 'a' is given twice"));
}

class GgufParts : public DirectoryTest {
 protected:
  // The part of this number, with one tensor.
  std::filesystem::path part(std::uint16_t number, std::string_view tensor, std::string_view file) const {
    GgufBytes bytes(1, 3);
    bytes.key("split.no", 2).number(number).key("split.count", 2).number<std::uint16_t>(2);
    bytes.key("split.tensors.count", 5).number<std::int32_t>(2).tensor(tensor, {1}, 0, 0);
    return make(file, bytes.align().data(raw<float>({static_cast<float>(number)})).bytes());
  }
};

TEST_F(GgufParts, AreOpenedTogether) {
  part(1, "b", "m-00002-of-00002.gguf");
  const Gguf file = Gguf::open(part(0, "a", "m-00001-of-00002.gguf"));
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[1].name, "b");
  float value = 0;
  std::memcpy(&value, file.tensors()[1].bytes.data(), sizeof value);
  EXPECT_EQ(value, 1);
}

TEST_F(GgufParts, MustAllBeThereAndInTheirPlaces) {
  const auto first = part(0, "a", "m-00001-of-00002.gguf");
  EXPECT_THAT(message_of([&] { Gguf::open(first); }),
              AllOf(HasSubstr("m-00002-of-00002.gguf"), HasSubstr("No such file")));
  const auto second = part(0, "b", "m-00002-of-00002.gguf");
  EXPECT_THAT(message_of([&] { Gguf::open(first); }), HasSubstr("'split.no' is 0; expected 1"));
  part(1, "a", "m-00002-of-00002.gguf");
  EXPECT_THAT(message_of([&] { Gguf::open(first); }), HasSubstr("'a' is also in a part before it"));
  EXPECT_THAT(message_of([&] { Gguf::open(second); }),
              HasSubstr("is a part of 2 ('split.count'); expected the first one, whose name ends in "
                        "'-00001-of-00002.gguf'"));
}

}  // namespace
}  // namespace saccade
