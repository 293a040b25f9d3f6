#include "saccade/text/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/base/error.h"
#include "saccade/base/random.h"
#include "saccade/text/scanners.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  std::vector<std::string> result;
  for (const Stretch& stretch : Regex(pattern).split(text))
    if (stretch.match) result.emplace_back(text.substr(stretch.begin, stretch.end - stretch.begin));
  return result;
}

std::string refusal(std::string_view pattern) {
  try {
    const Regex regex(pattern);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Regex, FindsAllMatchesAndWhatIsBetween) {
  const auto stretches = Regex("b+").split("abbcb");
  ASSERT_EQ(stretches.size(), 4u);
  EXPECT_EQ(stretches[1].begin, 1u);
  EXPECT_EQ(stretches[1].end, 3u);
  EXPECT_TRUE(stretches[1].match);
  EXPECT_FALSE(stretches[2].match);
}

TEST(Regex, ReadsOnigurumasSyntax) {
  EXPECT_THAT(matches(R"(\h+)", "xyz 1aF g"), ElementsAre("1aF"));  // hexadecimal digits, not blanks
  EXPECT_THAT(matches(R"(^b$)", "a\nb\nc"), ElementsAre("b"));      // lines
  EXPECT_THAT(matches(R"(\s)", "a\u180Eb\u3000c"), ElementsAre("\u3000"));
  EXPECT_THAT(matches(R"(\u00e9|\x41)", "A\u00E9"), ElementsAre("A", "\u00E9"));
  EXPECT_THAT(matches(R"(\p{Han}+)", "a\u4E2D\u3001\U0002EBF0"), ElementsAre("\u4E2D", "\U0002EBF0"));
  EXPECT_THAT(matches(R"(\p{Lu}\p{^Lu}*)", "AbcDe"), ElementsAre("Abc", "De"));
}

TEST(Regex, KnowsTheLettersOfUnicode16) {
  EXPECT_THAT(matches(R"(\p{L}+)", "\U000105C0 \U00016D40"), ElementsAre("\U000105C0", "\U00016D40"));
  EXPECT_THAT(matches(R"([^\p{L}\p{N}]+)", "\U000105C0!\U00010D40"), ElementsAre("!"));
}

TEST(Regex, RefusesWhatTheTwoSyntaxesReadDifferently) {
  for (const char* pattern :
       {"[a&&b]", "[[a]]", "a{1,2}+", "a{2}?", "a{,2}", "(?m:.)", R"(\X)", R"(\K)", R"(\R)", R"(\G)", R"(\b)",
        R"((?<n>a))", R"([\P{L}])", R"(\p{Greek})", R"(\x{110000})", "[]a]"})
    EXPECT_THAT(refusal(pattern), HasSubstr("not supported")) << pattern;
  EXPECT_THAT(refusal("(a"), HasSubstr("is wrong"));
  EXPECT_THAT(refusal("[a"), HasSubstr("never closed"));
}

TEST(Regex, EndsOnAPatternThatGoesBackForever) {
  EXPECT_THROW(Regex("(x+x+)+[yz]").split(std::string(60, 'x')), Error);
}

// Everything the scanners tell apart, and bytes that are no text.
std::string random_text(RandomStream& random) {
  static const std::vector<std::string> parts = {
      "a",      "Z",          "s",          "t",      "re",       "LL",     "'",
      "'s",     "'ll",        "'\u017F",    " ",      " ",        "  ",     "\n",
      "\r",     "\r\n",       "\t",         "\u00A0", "\u3000",   "1",      "23",
      "\u0663", "\u00BD",     ".",          "-",      "!?",       "\u4E2D", "\u00E9",
      "\u0301", "\U0001F600", "\U000105C0", "\xFF",   "\xE2\x82", "\x80",   std::string(1, '\0'),
      "\u180E", "\u200D",     "\u2028"};
  std::string result;
  const uint64_t length = random.below(25);
  for (uint64_t count = 0; count < length; ++count) result += parts[random.below(parts.size())];
  return result;
}

TEST(Scanners, FindWhatTheirExpressionsFind) {
  for (std::string_view pattern : {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern}) {
    const Scanner scanner = scanner_for(pattern);
    ASSERT_NE(scanner, nullptr);
    const Regex regex(pattern);
    RandomStream random(4, pattern);
    for (int count = 0; count < 5000; ++count) {
      const std::string text = random_text(random);
      size_t at = 0;
      for (const Stretch& stretch : regex.split(text)) {
        ASSERT_TRUE(stretch.match);
        ASSERT_EQ(stretch.begin, at);
        at = scanner(text, at);
        ASSERT_EQ(stretch.end, at) << "text " << count << " of seed 4: " << text;
      }
      ASSERT_EQ(at, text.size());
    }
  }
}

TEST(Scanners, AreOnlyForExactlyTheirExpressions) {
  EXPECT_EQ(scanner_for(std::string(kGpt2Pattern) + "|x"), nullptr);
  EXPECT_EQ(scanner_for(""), nullptr);
}

}  // namespace
}  // namespace saccade
