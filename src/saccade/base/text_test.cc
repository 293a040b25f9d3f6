#include "saccade/base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "saccade/base/error.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::array<std::string_view, 6> kNames = {"alpha", "beta", "causal", "softmax", "i", "score"};

TEST(Nearest, FindsEachKindOfTypo) {
  EXPECT_EQ(nearest("aplha", kNames), "alpha");      // swapped
  EXPECT_EQ(nearest("casal", kNames), "causal");     // deleted
  EXPECT_EQ(nearest("betta", kNames), "beta");       // inserted
  EXPECT_EQ(nearest("sofrmax", kNames), "softmax");  // replaced
}

TEST(Nearest, CountsASwapAsOneEdit) {
  // Two replacements would be too far for a word of four letters.
  EXPECT_EQ(nearest("btea", kNames), "beta");
}

TEST(Nearest, IgnoresCase) { EXPECT_EQ(nearest("SOFTMAX", kNames), "softmax"); }

TEST(Nearest, IsSilentWhenNothingIsClose) {
  EXPECT_EQ(nearest("window", kNames), std::nullopt);
  EXPECT_EQ(nearest("", kNames), std::nullopt);
  EXPECT_EQ(nearest("x", kNames), std::nullopt) << "one letter for another is no typo";
}

TEST(Nearest, PrefersTheCloserThenTheFirst) {
  const std::vector<std::string> names = {"train", "trace", "trait"};
  EXPECT_EQ(nearest("trai", names), "train");
  EXPECT_EQ(nearest("trac", names), "trace");
}

TEST(Nearest, RefusesToMeasureHugeNames) {
  const std::string huge(100'000, 'a');
  const std::vector<std::string> names = {huge};
  EXPECT_EQ(nearest(huge, names), std::nullopt);
}

TEST(DidYouMean, IsAnEndingForAMessage) {
  EXPECT_EQ(did_you_mean("aplha", kNames), "; did you mean 'alpha'?");
  EXPECT_EQ(did_you_mean("window", kNames), "");
}

TEST(Join, PutsTheSeparatorOnlyBetween) {
  EXPECT_EQ(join(std::vector<std::string>{}, ", "), "");
  EXPECT_EQ(join(std::vector<std::string>{"a"}, ", "), "a");
  EXPECT_EQ(join(kNames, " "), "alpha beta causal softmax i score");
}

TEST(Plural, FollowsTheRegularRules) {
  EXPECT_EQ(plural(1, "tile"), "1 tile");
  EXPECT_EQ(plural(0, "tile"), "0 tiles");
  EXPECT_EQ(plural(-2, "query"), "-2 queries");
  EXPECT_EQ(plural(2, "key"), "2 keys");
  EXPECT_EQ(plural(3, "match"), "3 matches");
  EXPECT_EQ(plural(3, "pass"), "3 passes");
  EXPECT_EQ(plural(3, "epoch"), "3 epochs");
}

TEST(Trim, RemovesWhiteSpaceAtBothEndsOnly) {
  EXPECT_EQ(trim(" \t a b \r\n"), "a b");
  EXPECT_EQ(trim(" \n "), "");
}

TEST(SplitLines, AcceptsEveryKindOfEnd) {
  EXPECT_THAT(split_lines(""), IsEmpty());
  EXPECT_THAT(split_lines("a\nb"), ElementsAre("a", "b"));
  EXPECT_THAT(split_lines("a\r\nb\n"), ElementsAre("a", "b"));
  EXPECT_THAT(split_lines("\n\na\n\n"), ElementsAre("", "", "a", ""));
}

TEST(DisplayWidth, CountsTerminalCellsNotBytes) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("naïve ≥ 1 µs"), 12);
  EXPECT_EQ(display_width("e\u0301"), 1) << "a combining accent";
  EXPECT_EQ(display_width("注意"), 4);
  EXPECT_EQ(display_width("\xff\xc3"), 2) << "bytes that are not UTF-8";
}

TEST(Table, AlignsNumbersRightAndTextLeft) {
  Table table({"mechanism", "ms", "ratio"});
  table.add({"causal", "1.5", "1x"});
  table.add({"alibi", "12.25", "8.2x"});
  table.add({"window", "-", ""});
  EXPECT_EQ(table.print(),
            "mechanism     ms  ratio\n"
            "causal       1.5     1x\n"
            "alibi      12.25   8.2x\n"
            "window         -\n");
}

TEST(Table, OneWordMakesAColumnText) {
  Table table({"n", "size"});
  table.add({"1", "12"});
  table.add({"2024-01-02", "all"});
  EXPECT_EQ(table.print(), "n           size\n1           12\n2024-01-02  all\n");
}

TEST(Table, LinesUpWideCharacters) {
  Table table({"name", "x"});
  table.add({"注意", "1"});
  table.add({"µ", "22"});
  EXPECT_EQ(table.print(), "name   x\n注意   1\nµ     22\n");
}

TEST(Table, RefusesARowOfAnotherLength) {
  Table table({"a", "b"});
  EXPECT_THROW(table.add({"1"}), std::logic_error);
}

TEST(Printable, ShowsControlCharactersAsNumbers) {
  EXPECT_EQ(printable("plain \xc3\xa4"), "plain \xc3\xa4");
  EXPECT_EQ(printable(std::string_view("a\0b\x1b[2J\n\x7f", 9)), "a\\x00b\\x1b[2J\\x0a\\x7f");
}

TEST(Printable, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdef", 5), "abcde...");
  EXPECT_EQ(printable("abc\xc3\xa4", 4), "abc...");
}

}  // namespace
}  // namespace saccade
