#include "saccade/formula/diagnostic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "saccade/base/text.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;

std::string render_at(std::string_view text, size_t begin, size_t end) {
  return render({{begin, end}, "wrong"}, "my.attn", text);
}

// The place that a rendered diagnostic marks, cut out of its line by the caret's columns.
std::string marked(const std::string& rendered) {
  const auto lines = split_lines(rendered);
  if (lines.size() != 3) return "not three lines";
  const size_t caret = lines[2].find('^');
  // Only for texts in which a character is one byte.
  return std::string(lines[1].substr(caret, lines[2].size() - caret));
}

TEST(Diagnostic, ShowsPlaceMessageLineAndCaret) {
  EXPECT_EQ(render_at("mask = causal\nscore = aplha * d\n", 22, 27),
            "my.attn:2:9: wrong\n"
            "    score = aplha * d\n"
            "            ^^^^^");
}

TEST(Diagnostic, CountsCharactersNotBytes) {
  EXPECT_EQ(render_at("a = α + ß", 9, 11),
            "my.attn:1:9: wrong\n"
            "    a = α + ß\n"
            "            ^");
}

TEST(Diagnostic, PutsTheCaretBelowWideCharacters) {
  // Each of the two characters takes two columns of a terminal; the column number still counts characters.
  EXPECT_EQ(render_at("注意 $", 7, 8),
            "my.attn:1:4: wrong\n"
            "    注意 $\n"
            "         ^");
}

TEST(Diagnostic, ShowsTabsAndControlCharactersAsBlanks) {
  EXPECT_EQ(render_at("\ta\x1B = b\r\n", 6, 7),
            "my.attn:1:7: wrong\n"
            "     a  = b \n"
            "          ^");
}

TEST(Diagnostic, PointsBehindTheLastCharacter) {
  EXPECT_EQ(render_at("score =", 7, 7),
            "my.attn:1:8: wrong\n"
            "    score =\n"
            "           ^");
  EXPECT_EQ(render_at("score =\n", 7, 8),
            "my.attn:1:8: wrong\n"
            "    score =\n"
            "           ^");
}

TEST(Diagnostic, SurvivesPlacesOutsideTheText) {
  EXPECT_EQ(render_at("", 0, 0), "my.attn:1:1: wrong\n    \n    ^");
  EXPECT_EQ(render_at("a", 70, 90), "my.attn:1:2: wrong\n    a\n     ^");
}

TEST(Diagnostic, EndsTheMarkAtTheEndOfTheLine) {
  EXPECT_EQ(render_at("ab(\ncd)", 1, 7), "my.attn:1:2: wrong\n    ab(\n     ^^");
}

TEST(Diagnostic, CutsLongLinesAroundTheCaret) {
  for (size_t before : {0u, 10u, 49u, 50u, 51u, 500u, 99'000u}) {
    const std::string text = std::string(before, 'a') + "HERE" + std::string(99'000, 'b');
    const std::string rendered = render_at(text, before, before + 4);
    EXPECT_LT(rendered.size(), 300u);
    EXPECT_EQ(marked(rendered), "HERE");
    EXPECT_THAT(rendered, HasSubstr(fmt::format("my.attn:1:{}: ", before + 1)));
  }
}

TEST(Diagnostic, DoesNotCutACharacterInTwo) {
  const std::string sign = "→";  // three bytes, so that windows of a round size do not fit
  std::string text;
  for (int count = 0; count < 200; ++count) text += sign;
  for (size_t begin = 0; begin < text.size(); begin += 3) {
    const std::string rendered = render_at(text, begin, begin + 3);
    const std::string line(split_lines(rendered)[1].substr(4));
    ASSERT_EQ(line.size() % 3, 0u) << begin;
    for (size_t at = 0; at < line.size(); at += 3) ASSERT_EQ(line.substr(at, 3), sign) << begin;
  }
}

TEST(Diagnostics, ComeInTheOrderOfTheText) {
  Diagnostics diagnostics;
  diagnostics.report({5, 6}, "second");
  diagnostics.report({1, 2}, "first");
  diagnostics.report({5, 7}, "third");
  EXPECT_EQ(diagnostics.count(), 3u);
  std::vector<std::string> messages;
  for (const Diagnostic& diagnostic : diagnostics.take()) messages.push_back(diagnostic.message);
  EXPECT_THAT(messages, ElementsAre("first", "second", "third"));
}

TEST(Diagnostics, SayTheSameThingAboutAPlaceOnce) {
  Diagnostics diagnostics;
  diagnostics.report({1, 2}, "unknown");
  diagnostics.report({1, 2}, "unknown");
  diagnostics.report({3, 4}, "unknown");
  EXPECT_EQ(diagnostics.count(), 2u);
}

TEST(Diagnostics, DoNotGrowWithoutEnd) {
  Diagnostics diagnostics;
  for (size_t count = 0; count < 10'000; ++count) diagnostics.report({count, count + 1}, "wrong");
  const FormulaError error(diagnostics.take(), "my.attn", "text");
  EXPECT_THAT(error.diagnostics(), SizeIs(200));
  EXPECT_THAT(error.what(), EndsWith("\nmy.attn: 180 more errors not shown"));
  EXPECT_LT(std::string(error.what()).size(), 5'000u);
}

}  // namespace
}  // namespace saccade
