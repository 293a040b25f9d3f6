#include "saccade/cli/text_view.h"

#include <gmock/gmock.h>

#include "saccade/base/text.h"

namespace saccade {
namespace {

using testing::ElementsAre;

TEST(TextView, ControlCharactersDoNotReachATerminal) {
  EXPECT_EQ(harmless("a\tb\nc\x1b[31m\r"), "a\tb\nc\uFFFD[31m\uFFFD");
  EXPECT_EQ(harmless("\xC2\x9B"), "\uFFFD");
  EXPECT_EQ(harmless("größer \u4f60"), "größer \u4f60");
}

TEST(TextView, WrapsBetweenWordsAndInsideThoseThatAreTooLong) {
  EXPECT_THAT(wrap("one two three", 8), ElementsAre("one two", "three"));
  EXPECT_THAT(wrap("one\n\ntwo", 8), ElementsAre("one", "", "two"));
  EXPECT_THAT(wrap("abcdefgh", 3), ElementsAre("abc", "def", "gh"));
  EXPECT_THAT(wrap("\u4f60\u597d\u4f60", 4), ElementsAre("\u4f60\u597d", "\u4f60"));
}

TEST(TextView, ColumnsFitTheWidth) {
  const std::string shown =
      side_by_side({"first", " the quick brown fox jumps over"}, {"second", "\u4f60\u597d, a short one"}, 31);
  for (const std::string_view line : split_lines(shown)) {
    EXPECT_LE(display_width(line), 31) << line;
    EXPECT_EQ(line.find(" |"), line.rfind(" |"));
  }
  EXPECT_THAT(shown, testing::StartsWith("first          | second\n"
                                         "-------------- | --------------\n"
                                         "the quick      | \u4f60\u597d, a short\n"
                                         "brown fox      | one\n"));
}

TEST(TextView, OneByOneKeepsTheTextsAsTheyAre) {
  EXPECT_EQ(one_by_one({"a", " x\ny"}, {"b", "z"}), "a:\n x\ny\n\nb:\nz\n");
}

}  // namespace
}  // namespace saccade
