#include "saccade/weights/safetensors.h"

#include <gmock/gmock.h>

#include "saccade/weights/testing.h"

namespace saccade {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;

Safetensors parse(const std::string& file) { return parse_safetensors(as_bytes(file), "a.safetensors"); }

std::string error_of(std::string_view header, std::string_view data = "") {
  return message_of([&] { parse(safetensors_file(header, data)); });
}

// A header with one F32 tensor 't' of eight bytes, with one field replaced.
std::string error_with(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return error_of(
      fmt::format(R"({{"t":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", dtype, shape, offsets),
      "12345678");
}

TEST(ParseSafetensors, FindsTensorsInTheOrderOfTheirBytes) {
  const std::string file = safetensors_file(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I16","shape":[2],"data_offsets":[8,12]},)"
      R"("empty":{"dtype":"F64","shape":[3,0],"data_offsets":[8,8]},)"
      R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"c":{"dtype":"U8","shape":[],"data_offsets":[12,13]}}   )",
      "aaaaAAAAbbbbc");
  const Safetensors content = parse(file);
  EXPECT_THAT(content.metadata, ElementsAre(Pair("format", "pt")));
  std::vector<std::string> found;
  for (const TensorView& tensor : content.tensors) {
    found.push_back(
        fmt::format("{} {} {} {}", tensor.name, format_of(tensor.type).name, print_shape(tensor.shape),
                    std::string(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size())));
  }
  EXPECT_THAT(found,
              ElementsAre("a F32 [1, 2] aaaaAAAA", "empty F64 [3, 0] ", "b I16 [2] bbbb", "c U8 [] c"));
}

TEST(ParseSafetensors, AcceptsAFileWithoutTensors) {
  EXPECT_TRUE(parse(safetensors_file("{}", "")).tensors.empty());
}

TEST(ParseSafetensors, HoldsTheHeaderLengthToTheFile) {
  const auto error = [](const std::string& file) { return message_of([&] { parse(file); }); };
  EXPECT_THAT(error(""), AllOf(StartsWith("a.safetensors: is 0 bytes"), HasSubstr("at least 8")));
  EXPECT_THAT(error("1234567"), HasSubstr("is 7 bytes"));
  EXPECT_THAT(error(raw<std::uint64_t>({3}) + "{}"),
              HasSubstr("header length is 3; expected at most the 2 bytes"));
  EXPECT_THAT(error(raw<std::uint64_t>({UINT64_MAX}) + "{}"),
              HasSubstr("header length is 18446744073709551615"));
  EXPECT_THAT(error(raw<std::uint64_t>({0})), HasSubstr("a.safetensors: header:1:1: "));
}

TEST(ParseSafetensors, RefusesHeadersThatAreNoObject) {
  EXPECT_THAT(error_of("[]"), HasSubstr("header is array; expected an object"));
  EXPECT_THAT(error_of("{"), HasSubstr("header:1:2"));
  EXPECT_THAT(error_of(std::string(1000, '[')), HasSubstr("nested deeper than 200"));
  EXPECT_THAT(error_of(R"({"t":1})"), HasSubstr("tensor 't': is number; expected an object"));
  EXPECT_THAT(error_of(R"({"t":{}})"), HasSubstr("tensor 't': no 'dtype'"));
  EXPECT_THAT(error_of(R"({"__metadata__":{"a":1}})"),
              HasSubstr("'__metadata__' has number for 'a'; expected a string"));
  EXPECT_THAT(error_of(R"({"__metadata__":[]})"), HasSubstr("'__metadata__' is array; expected an object"));
}

TEST(ParseSafetensors, RefusesANameThatIsGivenTwice) {
  const std::string entry = R"({"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  EXPECT_THAT(error_of(R"({"t":)" + entry + R"(,"t":)" + entry + "}"), HasSubstr("'t' is given twice"));
  EXPECT_THAT(error_of(R"({"t":{"dtype":"F32","dtype":"F32"}})"), HasSubstr("'dtype' is given twice"));
}

TEST(ParseSafetensors, NamesTheFieldAndItsValue) {
  EXPECT_EQ(error_with("\"F32\"", "[2]", "[0,8]"), "nothing was thrown");
  EXPECT_THAT(error_with("\"F33\"", "[2]", "[0,8]"),
              AllOf(StartsWith("a.safetensors: tensor 't': 'dtype' is 'F33'; expected one of F64, F32"),
                    HasSubstr("BOOL")));
  EXPECT_THAT(error_with("32", "[2]", "[0,8]"), HasSubstr("'dtype' is number; expected a string"));
  EXPECT_THAT(error_with("\"F32\"", "2", "[0,8]"), HasSubstr("'shape' is number; expected a list"));
  for (const char* size : {"-2", "2.0", "2.5", "\"2\"", "null", "9223372036854775808", "1e30", "[2]", "true"})
    EXPECT_THAT(error_with("\"F32\"", fmt::format("[{}]", size), "[0,8]"), HasSubstr("'shape' holds "))
        << size;
  EXPECT_THAT(error_with("\"F32\"", "[NaN]", "[0,8]"), HasSubstr("header:1:"));
  EXPECT_THAT(error_with("\"F32\"", "[4294967296,4294967296]", "[0,8]"),
              HasSubstr("fewer than 2^63 elements"));
  EXPECT_THAT(error_with("\"F32\"", "[4611686018427387904]", "[0,8]"), HasSubstr("fewer than 2^63 bytes"));
  EXPECT_THAT(error_with("\"F32\"", "[3]", "[0,8]"), HasSubstr("[0, 8], 8 bytes; expected 12 for F32 [3]"));
}

TEST(ParseSafetensors, HoldsOffsetsToTheFile) {
  EXPECT_THAT(error_with("\"F32\"", "[2]", "[0]"), HasSubstr("'data_offsets' holds 1 number; expected 2"));
  EXPECT_THAT(error_with("\"F32\"", "[2]", "[8,0]"), HasSubstr("'data_offsets' is [8, 0]; expected a range"));
  EXPECT_THAT(error_with("\"F32\"", "[2]", "[8,16]"), HasSubstr("within the 8 bytes of data"));
  EXPECT_THAT(error_with("\"F32\"", "[2]", "[-8,0]"), HasSubstr("'data_offsets' holds -8"));
  EXPECT_THAT(error_with("\"F32\"", "[1]", "[0,4]"), HasSubstr("the last tensor ends at 4; expected 8"));
  EXPECT_THAT(error_with("\"F32\"", "[1]", "[4,8]"), HasSubstr("tensor 't' begins at 4; expected 0"));
}

TEST(ParseSafetensors, RefusesTensorsThatOverlap) {
  const auto pair = [](std::string_view first, std::string_view second) {
    return error_of(fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":{}}},)"
                                R"("b":{{"dtype":"U8","shape":[4],"data_offsets":{}}}}})",
                                first, second),
                    "12345678");
  };
  EXPECT_EQ(pair("[4,8]", "[0,4]"), "nothing was thrown");
  EXPECT_THAT(pair("[0,4]", "[2,6]"), HasSubstr("tensor 'b' begins at 2; expected 4"));
  EXPECT_THAT(pair("[0,4]", "[0,4]"), HasSubstr("begins at 0; expected 4"));
}

TEST(ParseSafetensorsIndex, MapsTensorsToFiles) {
  const auto entries =
      parse_safetensors_index(R"({"metadata":{},"weight_map":{"a":"x.st","b":"y.st"}})", "index");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[1].tensor + " " + entries[1].file, "b y.st");
}

TEST(ParseSafetensorsIndex, RefusesFilesElsewhere) {
  const auto error = [](std::string_view text) {
    return message_of([&] { parse_safetensors_index(text, "index"); });
  };
  for (const char* file : {"../secret", "/etc/passwd", "", ".", "..", "a\\u0000b", "sub/model"})
    EXPECT_THAT(error(fmt::format(R"({{"weight_map":{{"a":"{}"}}}})", file)),
                HasSubstr("a file beside the index"))
        << file;
  EXPECT_THAT(error("{}"), HasSubstr("index: no 'weight_map'"));
  EXPECT_THAT(error("[]"), HasSubstr("is array; expected an object"));
  EXPECT_THAT(error(R"({"weight_map":{"a":1}})"), HasSubstr("has number for 'a'"));
}

}  // namespace
}  // namespace saccade
