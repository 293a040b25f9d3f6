#include "saccade/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "saccade/base/error.h"

namespace saccade {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string error_of(std::string_view text) {
  try {
    parse_json(text, "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') +
         std::string(static_cast<std::size_t>(depth), ']');
}

TEST(ParseJson, KeepsTheOrderOfMembers) {
  EXPECT_EQ(dump(parse_json(R"({"b": 1, "a": [true, null, "x"]})", "")), R"({"b":1,"a":[true,null,"x"]})");
}

TEST(ParseJson, NamesThePlaceOfAnError) {
  EXPECT_THAT(error_of("{\n  \"a\": 1,\n  \"b\": ?\n}"),
              AllOf(StartsWith("config.json:3:8: "), Not(HasSubstr("json.exception"))));
  EXPECT_THAT(error_of(""), StartsWith("config.json:1:1: "));
  EXPECT_THAT(error_of("[1, 2"), StartsWith("config.json:1:6: "));
  EXPECT_THAT(error_of("1 2"), StartsWith("config.json:1:3: "));
}

TEST(ParseJson, RefusesNumbersThatNoDoubleHolds) {
  EXPECT_THAT(error_of("[1e999]"), AllOf(StartsWith("config.json: "), HasSubstr("1e999")));
}

TEST(ParseJson, RefusesTextThatIsNotUtf8) {
  EXPECT_THAT(error_of("\"\xff\""), StartsWith("config.json:1:2: "));
}

TEST(ParseJson, BoundsNesting) {
  EXPECT_EQ(error_of(nested(kJsonDepth)), "no error");
  EXPECT_THAT(error_of(nested(kJsonDepth + 2)), HasSubstr("nested deeper than 200 levels"));
  EXPECT_THAT(error_of(std::string(1'000'000, '[')), HasSubstr("nested deeper"));
}

TEST(ParseUniqueJson, RefusesAKeyThatIsGivenTwice) {
  const auto parse = [](std::string_view text) {
    try {
      return parse_unique_json(text, "config.json").dump();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(parse(R"({"b": {"a": 1}, "a": [{"a": 2}, {"a": 3}]})"), R"({"a":[{"a":2},{"a":3}],"b":{"a":1}})");
  EXPECT_EQ(parse(R"({"a": 1, "a": 1})"), "config.json: the key 'a' is given twice in one object");
  EXPECT_EQ(parse(R"([{"b": {"a": 1, "c": {"a": 0}, "a": 2}}])"),
            "config.json: the key 'a' is given twice in one object");
  EXPECT_THAT(parse("[1, 2"), StartsWith("config.json:1:6: "));
  EXPECT_THAT(parse(nested(kJsonDepth + 2)), HasSubstr("nested deeper than 200 levels"));
}

TEST(DumpJson, WritesNonFiniteNumbersAsNull) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(dump(Json::array({infinity, -infinity, std::numeric_limits<double>::quiet_NaN(), 1.5})),
            "[null,null,null,1.5]");
}

TEST(DumpJson, DoublesSurviveARoundTrip) {
  const double third = 1.0 / 3.0;
  EXPECT_EQ(parse_json(dump(Json(third)), "").get<double>(), third);
}

TEST(DumpJson, ReplacesBytesThatAreNotUtf8) { EXPECT_EQ(dump(Json("a\xff")), "\"a\uFFFD\""); }

TEST(DumpJson, IndentsOnRequest) { EXPECT_EQ(dump(Json{{"a", 1}}, 2), "{\n  \"a\": 1\n}"); }

}  // namespace
}  // namespace saccade
