#include "saccade/formula/syntax.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <string>

#include "saccade/formula/parser.h"
#include "saccade/formula/random_formula.h"

namespace saccade {
namespace {

std::string reprinted(std::string_view text) {
  Diagnostics diagnostics;
  const ExpressionPtr expression = parse_expression(text, diagnostics);
  return expression ? print(*expression) : "";
}

TEST(Print, WritesOnlyTheParenthesesThatAreNeeded) {
  const std::pair<const char*, const char*> cases[] = {
      {"((a) + ((b * c)))", "a + b * c"},
      {"(a + b) * c", "(a + b) * c"},
      {"a - (b - c)", "a - (b - c)"},
      {"(a - b) - c", "a - b - c"},
      {"a / (b * c)", "a / (b * c)"},
      {"(a ^ b) ^ c", "(a ^ b) ^ c"},
      {"a ^ (b ^ c)", "a ^ b ^ c"},
      {"(-a) ^ b", "(-a) ^ b"},
      {"-(a ^ b)", "-a ^ b"},
      {"-(-a)", "--a"},
      {"a ^ (-b)", "a ^ -b"},
      {"-(a * b)", "-(a * b)"},
      {"(-a) * b", "-a * b"},
      {"not (a and b)", "not (a and b)"},
      {"(not a) and b", "not a and b"},
      {"not (a < b)", "not a < b"},
      {"(a < b) == c", "(a < b) == c"},
      {"(a or b) and c", "(a or b) and c"},
      {"a and (b and c)", "a and (b and c)"},
      {"f(((a)))[i]", ""},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(reprinted(text), expected) << text;
}

TEST(Print, FoldsConjunctionsBackIntoChains) {
  EXPECT_EQ(reprinted("0 <= d and d < w"), "0 <= d < w");
  EXPECT_EQ(reprinted("a < b and b < c and c < e"), "a < b < c < e");
  EXPECT_EQ(reprinted("a < b and c < d"), "a < b and c < d");
  EXPECT_EQ(reprinted("a < b and (b < c and c < d)"), "a < b and b < c < d");
  EXPECT_EQ(reprinted("(a < b and b < c) < d"), "(a < b < c) < d");
}

TEST(Print, KeepsWhetherANumberIsAnInteger) {
  EXPECT_EQ(reprinted("3"), "3");
  EXPECT_EQ(reprinted("3.0"), "3.0");
  EXPECT_EQ(reprinted("3."), "3.0");
  EXPECT_EQ(reprinted("1e3"), "1000.0");
  EXPECT_EQ(reprinted("1e25"), "1e+25");
  EXPECT_EQ(reprinted("0.1"), "0.1");
  EXPECT_EQ(reprinted("123456789012345678901234567890"), "123456789012345677877719597056");
}

TEST(Print, WritesNumbersThatAreOnlyComputed) {
  const std::string large = print_number(std::numeric_limits<double>::max(), true);
  EXPECT_EQ(large.size(), 309u);
  EXPECT_EQ(std::strtod(large.c_str(), nullptr), std::numeric_limits<double>::max());
  const double tiny = -std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(std::strtod(print_number(tiny, false).c_str(), nullptr), tiny);
  EXPECT_EQ(print_number(std::numeric_limits<double>::infinity(), false), "inf");
}

TEST(Print, WritesCallsWithASink) {
  EXPECT_EQ(reprinted("softmax( s,sink=z+1 )"), "softmax(s, sink = z + 1)");
  EXPECT_EQ(reprinted("softmax(sink = 1)"), "softmax(sink = 1)");
}

TEST(Print, WritesEveryStatementInOneForm) {
  const char* text =
      "const w=128;param a [ head ,32 ]=h/H in[0,4];input doc[batch,token]:int\n"
      "input keep[head,*,*]:bool; input b[rel]:real; vector q2=linear(relu(q)); token F=project(x)\n"
      "stream t=q2.k; mask causal;  score   s+t # comment";
  Diagnostics diagnostics;
  EXPECT_EQ(print(parse_syntax(text, diagnostics)),
            "const w = 128\n"
            "param a[head, 32] = h / H in [0, 4]\n"
            "input doc[batch, token]: int\n"
            "input keep[head, *, *]: bool\n"
            "input b[rel]\n"
            "vector q2 = linear(relu(q))\n"
            "token F = project(x)\n"
            "stream t = q2 . k\n"
            "mask = causal\n"
            "score = s + t\n");
  EXPECT_FALSE(diagnostics.any());
}

TEST(Print, ParsesBackToTheSameTree) {
  constexpr uint64_t kSeed = 20;
  for (int number = 0; number < 3000; ++number) {
    RandomStream random = RandomStream(kSeed, "trees").split(std::to_string(number));
    const ExpressionPtr tree = random_tree(random, 5);
    const std::string text = print(*tree);
    Diagnostics diagnostics;
    const ExpressionPtr again = parse_expression(text, diagnostics);
    ASSERT_TRUE(again) << "seed " << kSeed << " number " << number << ": " << text << "\n"
                       << diagnostics.take()[0].message;
    ASSERT_TRUE(same(tree, again)) << "seed " << kSeed << " number " << number << ":\n"
                                   << text << "\nbecame\n"
                                   << print(*again);
  }
}

TEST(Print, ParsesBackToTheSameFile) {
  constexpr uint64_t kSeed = 21;
  for (int number = 0; number < 500; ++number) {
    RandomStream random = RandomStream(kSeed, "files").split(std::to_string(number));
    const Syntax syntax = RandomFormula(random, {}).formula();
    const std::string text = print(syntax);
    Diagnostics diagnostics;
    const Syntax again = parse_syntax(text, diagnostics);
    ASSERT_FALSE(diagnostics.any()) << "seed " << kSeed << " number " << number << ":\n" << text;
    ASSERT_TRUE(same(syntax, again)) << "seed " << kSeed << " number " << number << ":\n" << text;
  }
}

TEST(Same, SeesEveryDifference) {
  const auto parse = [](std::string_view text) {
    Diagnostics diagnostics;
    Syntax result = parse_syntax(text, diagnostics);
    EXPECT_FALSE(diagnostics.any()) << text;
    return result;
  };
  const char* texts[] = {"a = 1",
                         "a = 1.0",
                         "a = 2",
                         "b = 1",
                         "a = x",
                         "a = -1",
                         "a = f(1)",
                         "a = f(1, 2)",
                         "a = f[1]",
                         "a = f(1, sink = 2)",
                         "a = f(1, sink = 3)",
                         "a = 1 + 2",
                         "a = 1 - 2",
                         "const a = 1",
                         "param a = 1",
                         "param a[head] = 1",
                         "param a[3] = 1",
                         "param a[4] = 1",
                         "param a = 1 in [0, 1]",
                         "param a = 1 in [0, 2]",
                         "input a[token]",
                         "input a[token]: int",
                         "input a[key]: int",
                         "stream a = b . c",
                         "stream a = b . d",
                         "stream a = c . c",
                         "vector a = q",
                         "token a = q",
                         "a = 1; b = 1",
                         ""};
  for (const char* left : texts)
    for (const char* right : texts)
      EXPECT_EQ(same(parse(left), parse(right)), left == right) << left << " and " << right;
}

}  // namespace
}  // namespace saccade
