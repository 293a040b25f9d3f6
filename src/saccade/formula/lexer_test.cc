#include "saccade/formula/lexer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The tokens' texts, with a statement's end as ";".
std::vector<std::string> words(std::string_view text, Diagnostics& diagnostics) {
  std::vector<std::string> result;
  for (const Token& token : tokenize(text, diagnostics)) {
    if (token.kind == Token::Kind::end) break;
    result.push_back(token.kind == Token::Kind::newline ? ";" : std::string(token.text));
  }
  return result;
}

std::vector<std::string> words(std::string_view text) {
  Diagnostics diagnostics;
  std::vector<std::string> result = words(text, diagnostics);
  EXPECT_FALSE(diagnostics.any()) << text;
  return result;
}

std::vector<std::string> errors(std::string_view text) {
  Diagnostics diagnostics;
  tokenize(text, diagnostics);
  std::vector<std::string> result;
  for (const Diagnostic& diagnostic : diagnostics.take()) result.push_back(diagnostic.message);
  return result;
}

TEST(Lexer, CutsNamesNumbersAndSymbols) {
  EXPECT_THAT(words("score=s-abs(alpha_2*d)^.5"),
              ElementsAre("score", "=", "s", "-", "abs", "(", "alpha_2", "*", "d", ")", "^", ".5", ";"));
}

TEST(Lexer, PrefersTheLongerSymbol) {
  EXPECT_THAT(words("a<=b>=c==d!=e//f<g"),
              ElementsAre("a", "<=", "b", ">=", "c", "==", "d", "!=", "e", "//", "f", "<", "g", ";"));
}

TEST(Lexer, EndsAStatementAtANewlineOrSemicolon) {
  EXPECT_THAT(words("a = 1; b = 2\nc = 3"),
              ElementsAre("a", "=", "1", ";", "b", "=", "2", ";", "c", "=", "3", ";"));
}

TEST(Lexer, AcceptsTheLineEndsOfWindows) {
  EXPECT_THAT(words("a = 1\r\nb = 2\r\n"), ElementsAre("a", "=", "1", ";", "b", "=", "2", ";", ";"));
}

TEST(Lexer, SkipsCommentsWithWhateverIsInThem) {
  EXPECT_THAT(words("# (α → β; ((\na # [\nb"), ElementsAre(";", "a", ";", "b", ";"));
}

TEST(Lexer, WrapsLinesInsideBrackets) {
  EXPECT_THAT(
      words("a = (1 +\n  2) + b[i,\n\n j]\nc"),
      ElementsAre("a", "=", "(", "1", "+", "2", ")", "+", "b", "[", "i", ",", "j", "]", ";", "c", ";"));
}

TEST(Lexer, ForgetsAnOpenBracketWhereAStatementStarts) {
  EXPECT_THAT(words("a = (1 +\nb = 2"), ElementsAre("a", "=", "(", "1", "+", ";", "b", "=", "2", ";"));
  EXPECT_THAT(words("a = (1\nparam b = 2\nc"),
              ElementsAre("a", "=", "(", "1", ";", "param", "b", "=", "2", ";", "c", ";"));
  EXPECT_THAT(words("a = (1; b"), ElementsAre("a", "=", "(", "1", ";", "b", ";"));
}

TEST(Lexer, TakesNeitherAComparisonNorASinkForAStatement) {
  EXPECT_THAT(words("(a\nb == c)"), ElementsAre("(", "a", "b", "==", "c", ")", ";"));
  EXPECT_THAT(words("softmax(s,\n sink = 0)"),
              ElementsAre("softmax", "(", "s", ",", "sink", "=", "0", ")", ";"));
}

TEST(Lexer, ReadsNumbersOfEveryForm) {
  const struct {
    std::string_view text;
    double value;
    bool integer;
  } cases[] = {{"0", 0, true},           {"007", 7, true},        {"1.5", 1.5, false},
               {".25", 0.25, false},     {"3.", 3, false},        {"1e3", 1000, false},
               {"1E+3", 1000, false},    {"2.5e-1", 0.25, false}, {"1e30", 1e30, false},
               {"1e-300", 1e-300, false}};
  for (const auto& expected : cases) {
    Diagnostics diagnostics;
    const std::vector<Token> tokens = tokenize(expected.text, diagnostics);
    ASSERT_EQ(tokens.size(), 3u) << expected.text;
    EXPECT_EQ(tokens[0].kind, Token::Kind::number);
    EXPECT_EQ(tokens[0].number, expected.value) << expected.text;
    EXPECT_EQ(tokens[0].integer, expected.integer) << expected.text;
    EXPECT_FALSE(diagnostics.any());
  }
}

TEST(Lexer, SpansPointIntoTheText) {
  Diagnostics diagnostics;
  const std::string text = "  alpha <= 12.5 # end";
  for (const Token& token : tokenize(text, diagnostics))
    EXPECT_EQ(text.substr(token.span.begin, token.span.end - token.span.begin), token.text);
}

TEST(Lexer, RefusesNumbersOutOfRange) {
  EXPECT_THAT(errors("1e30"), IsEmpty());
  EXPECT_THAT(errors("1e31"),
              ElementsAre("the number 1e31 is out of range; the largest is 1e30, in at most 64 characters"));
  EXPECT_THAT(errors("1e999"), ElementsAre(HasSubstr("the number 1e999 is out of range")));
  EXPECT_THAT(errors("1e-999"), ElementsAre(HasSubstr("the number 1e-999 is out of range")));
  EXPECT_THAT(errors(std::string(64, '0')), IsEmpty());
  EXPECT_THAT(errors(std::string(65, '0')),
              ElementsAre(HasSubstr("the number 00000000000000000000… is out of range")));
}

TEST(Lexer, RefusesNamesThatNobodyCanRead) {
  EXPECT_THAT(errors(std::string(64, 'a')), IsEmpty());
  EXPECT_THAT(errors(std::string(65, 'a')),
              ElementsAre("a name may have at most 64 characters; this one has 65"));
}

TEST(Lexer, AsksForAMultiplicationSign) {
  EXPECT_THAT(errors("2d"), ElementsAre("'2d' is neither a number nor a name; write a * between 2 and d"));
  EXPECT_THAT(errors("0x1F"),
              ElementsAre("'0x1F' is neither a number nor a name; write a * between 0 and x1F"));
}

TEST(Lexer, ReportsWhatBelongsToNothingAndGoesOn) {
  Diagnostics diagnostics;
  EXPECT_THAT(words(std::string_view("a $ b\0c", 7), diagnostics), ElementsAre("a", "b", "c", ";"));
  const std::vector<Diagnostic> list = diagnostics.take();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].message, "'$' has no meaning in a formula");
  EXPECT_EQ(list[1].message, "the byte 0x00 has no meaning in a formula");
}

TEST(Lexer, ReportsACharacterOfSeveralBytesOnce) {
  EXPECT_THAT(errors("a − b"), ElementsAre("the byte 0xE2 has no meaning in a formula"));
  EXPECT_THAT(errors("\xFF"), ElementsAre("the byte 0xFF has no meaning in a formula"));
}

TEST(Lexer, AnEmptyTextIsOneEmptyStatement) {
  EXPECT_THAT(words(""), ElementsAre(";"));
  EXPECT_THAT(words(" \t\r"), ElementsAre(";"));
}

}  // namespace
}  // namespace saccade
