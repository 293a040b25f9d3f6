// Declarations: what constants, params, inputs, tokens, vectors and streams may be, and what positions become
// when they are an input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "saccade/formula/check_testing.h"
#include "saccade/formula/parser.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// --- constants and overrides ---

TEST(CheckConstants, AreNumbers) {
  const Plan plan = plan_of("const w = 2 * v\nconst v = 3\nmask = d < w");
  EXPECT_THAT(plan.constants, ElementsAre(testing::Pair("w", 6), testing::Pair("v", 3)));
  EXPECT_THAT(errors("const w = d"),
              ElementsAre("a constant must be a number; 'd' depends on more than constants"));
  EXPECT_THAT(errors("const w = h"),
              ElementsAre("a constant must be a number; 'h' depends on more than constants"));
  EXPECT_THAT(errors("const w = 0 / 0"), ElementsAre("a constant must be a number; '0 / 0' is none"));
  EXPECT_THAT(errors("const w = inf\nmask = 0 <= d < w"), IsEmpty());
  EXPECT_THAT(errors("param a = 1\nconst w = a"), ElementsAre("'a' cannot be used here"));
  EXPECT_THAT(errors("const c = t\nstream t = q . k\nscore = s * c"),
              ElementsAre("'t' is a stream and cannot be used here"));
}

TEST(CheckOverrides, ReplaceConstants) {
  EXPECT_EQ(score_of("const w = 3\nscore = s * w * n", {{"w", 5}, {"n", 7}}), "s * 5 * 7");
  const Plan plan = plan_of("const w = 3\nconst v = w + 1\nscore = s * v", {{"w", 5}});
  EXPECT_THAT(plan.constants, ElementsAre(testing::Pair("w", 5), testing::Pair("v", 6)));
}

TEST(CheckOverrides, PinTheLength) {
  EXPECT_FALSE(plan_of("score = s / n", {{"n", 2048}}).uses_length());
  EXPECT_FALSE(plan_of("const n = 2048\nscore = s / n").uses_length());
  EXPECT_TRUE(plan_of("score = s / n").uses_length());
  EXPECT_EQ(score_of("const n = 2048\nscore = s + n", {{"n", 16}}), "s + 16");
  EXPECT_THAT(errors("const n = 0"),
              ElementsAre("n is pinned to 0; expected a whole number of keys from 1 to 16777216"));
  EXPECT_THAT(errors("const n = 2.5"), ElementsAre(HasSubstr("n is pinned to 2.5")));
  EXPECT_THAT(errors("const n = 16777217"), ElementsAre(HasSubstr("n is pinned to 16777217")));
  EXPECT_THAT(errors("", {{"n", 0}}),
              ElementsAre("cannot set n to 0: expected a whole number of keys from 1 to 16777216"));
  EXPECT_THAT(errors("", {{"n", 0.5}}), ElementsAre(HasSubstr("cannot set n to 0.5")));
  EXPECT_THAT(errors("", {{"n", 1e9}}), ElementsAre(HasSubstr("cannot set n to")));
}

TEST(CheckOverrides, RefuseWhatIsNoConstant) {
  EXPECT_THAT(errors("const width = 3\nmask = d < width", {{"wdith", 5}}),
              ElementsAre("cannot set 'wdith': did you mean 'width'?"));
  EXPECT_THAT(errors("const width = 3\nconst n = 4\nmask = d < width", {{"alpha", 5}}),
              ElementsAre("cannot set 'alpha': what can be set is n, width"));
  EXPECT_THAT(errors("", {{"w", 5}}),
              ElementsAre("cannot set 'w': the formula has no such constant; only n can be pinned"));
  EXPECT_THAT(errors("input a[token]\nscore = s * a[j]", {{"a", 5}}),
              ElementsAre(HasSubstr("cannot set 'a'")));
  EXPECT_THAT(errors("const w = 1\nscore = s * w", {{"w", std::numeric_limits<double>::infinity()}}),
              ElementsAre("cannot set 'w' to inf: expected a finite number"));
  EXPECT_THAT(errors("", {{"n", std::numeric_limits<double>::quiet_NaN()}}),
              ElementsAre("cannot set 'n' to nan: expected a finite number"));
}

TEST(CheckOverrides, SetWhereAParamStarts) {
  const Plan plan = plan_of("param a[head] = 1 in [0, 4]\nscore = s * a", {{"a", 2.5}});
  EXPECT_EQ(plan.start_value(plan.tables.front(), 0, 2), 2.5);
  EXPECT_TRUE(plan.tables.front().learned());
  EXPECT_THAT(errors("param a = 1 in [0, 4]\nscore = s * a", {{"a", 5}}),
              ElementsAre("the start value 5 lies outside the bounds [0, 4]"));
  const Formula formula =
      Formula::parse("param a[head] = 1 in [-2, 4]\nscore = s * a", {.set = {{"a", -1.5}}});
  EXPECT_THAT(formula.resolved(), HasSubstr("param a[head] = -1.5 in [-2, 4]"));
  const Plan again = Formula::parse(formula.resolved()).plan();
  EXPECT_EQ(again.start_value(again.tables.front(), 0, 2), -1.5);
}

// --- params, inputs, tokens ---

TEST(CheckParams, StartFromHeadsAndConstants) {
  const Plan plan = plan_of("const c = 8\nparam a[head] = 2 ^ (-c * (h + 1) / H)\nscore = s - a * abs(d)");
  EXPECT_DOUBLE_EQ(plan.start_value(plan.tables[0], 0, 8), 0.5);
  EXPECT_DOUBLE_EQ(plan.start_value(plan.tables[0], 7, 8), 1.0 / 256);
  for (const char* start : {"i", "d", "s", "n", "b", "t"})
    EXPECT_THAT(errors(std::string("param b = 1\nt = d\nparam a = ") + start),
                ElementsAre(fmt::format(
                    "a start value may depend on h, H and constants only; '{}' depends on more", start)))
        << start;
  EXPECT_THAT(errors("const n = 8\nparam a = 1 / n"), IsEmpty());
  EXPECT_THAT(errors("param a = causal"), ElementsAre("expected a number, but 'causal' is a condition"));
}

TEST(CheckParams, HaveBounds) {
  const Plan plan = plan_of("const c = 4\nparam a = 1 in [-c / 2, inf]\nscore = s * a");
  EXPECT_EQ(plan.tables[0].low, -2);
  EXPECT_EQ(plan.tables[0].high, std::numeric_limits<double>::infinity());
  EXPECT_THAT(errors("param a = 1 in [2, 1]"), ElementsAre("the bounds [2, 1] are empty"));
  EXPECT_THAT(errors("param a = 5 in [0, 1]"),
              ElementsAre("the start value 5 lies outside the bounds [0, 1]"));
  EXPECT_THAT(errors("param a = 0 in [0, 1]"), IsEmpty());
  EXPECT_THAT(errors("param a = 0 in [0 / 0, 1]"), ElementsAre("a bound must be a number; '0 / 0' is none"));
  EXPECT_THAT(errors("param a = 0 in [h, 1]"),
              ElementsAre("a bound must be a number; 'h' depends on more than constants"));
}

TEST(CheckParams, HaveDimensionsOfKnownSize) {
  EXPECT_THAT(errors("param a[layer, head, 4, 4, 4] = 0"), IsEmpty());
  for (const char* dimension : {"batch", "token", "query", "key", "rel", "*"})
    EXPECT_THAT(errors(fmt::format("param a[{}] = 0", dimension)),
                ElementsAre(fmt::format("a param cannot have the dimension '{}', whose size is not known "
                                        "beforehand; use head, layer or a number",
                                        dimension)));
  EXPECT_THAT(errors("param a[head, head] = 0"), ElementsAre("the dimension 'head' is given twice"));
  EXPECT_THAT(errors("param a[2, 2, 2, 2] = 0"),
              ElementsAre("a table may have at most 3 subscripted dimensions"));
  EXPECT_THAT(errors("param a[1024, 1024] = 0"), IsEmpty());
  EXPECT_THAT(errors("param a[1025, 1024] = 0"),
              ElementsAre("a param may have at most 1048576 elements per head"));
  EXPECT_THAT(errors("param a[65536, 65536, 65536] = 0"), ElementsAre(HasSubstr("at most 1048576 elements")));
}

TEST(CheckInputs, HaveNoLayer) {
  EXPECT_THAT(errors("input a[layer]"),
              ElementsAre("an input cannot have the dimension 'layer'; it is given to each layer's call"));
  EXPECT_THAT(errors("input a[batch, head, token, *, rel]: bool"), IsEmpty());
  std::string many;
  for (int count = 0; count < 64; ++count) many += "input a" + std::to_string(count) + "[token]\n";
  EXPECT_THAT(errors(many), IsEmpty());
  EXPECT_THAT(errors(many + "input b[token]"),
              ElementsAre("a formula may have at most 64 params, inputs and tokens"));
}

TEST(CheckTokens, AreNumbersPerTokenAndHead) {
  const Plan plan = plan_of("token F = cumsum(logsigmoid(project(x)))\nscore = s + F[i] - F[j]");
  EXPECT_EQ(plan.tables[0].source, TableInfo::Source::token);
  EXPECT_TRUE(plan.needs_layer_input());
  EXPECT_THAT(errors("token F = q"), ElementsAre("a token is one number per head; 'q' is a vector"));
  EXPECT_THAT(errors("token F = x"), ElementsAre("x has the layer's width; write project(x)"));
  EXPECT_THAT(errors("token F = project(q)"),
              ElementsAre("project maps the layer's input; write project(x)"));
  EXPECT_THAT(errors("token F = 3"), ElementsAre("'3' does not depend on the token; start from project(x)"));
  EXPECT_THAT(errors("token F = cumsum(3) + project(x)"),
              ElementsAre("cumsum sums along the tokens, but '3' is the same for all of them"));
  EXPECT_THAT(errors("token F = linear(project(x))"),
              ElementsAre("'linear' needs a vector, but 'project(x)' is one number per head"));
  EXPECT_THAT(
      errors("token F = project(x) / 2"),
      ElementsAre(HasSubstr("'/' cannot be used in a token; it has + - * and the functions project, ")));
  EXPECT_THAT(errors("token F = project(x, x)"),
              ElementsAre("'project' takes one argument, such as 'vector k2 = project(x)'"));
  EXPECT_THAT(
      errors("token F = project(x)\ntoken G = F + project(x)"),
      ElementsAre("'F' cannot be used in a token: only constants, params, x, q and k are known there"));
  EXPECT_THAT(errors("param b[4] = 0\ntoken F = b * project(x)"),
              ElementsAre("'b' cannot be used in a token: it is a table"));
  EXPECT_THAT(errors("token F = project(x)[3]"), ElementsAre(HasSubstr("expected an operator")));
  EXPECT_THAT(errors("token F = b[3]"),
              ElementsAre("a token is computed for whole tokens; 'b' cannot be subscripted here"));
}

TEST(CheckStreams, TakeAQueryAndAKey) {
  const Plan plan =
      plan_of("vector q2 = linear(relu(q))\nvector k2 = project(x)\nstream t = q2 . k2\nscore = s - t");
  ASSERT_EQ(plan.streams.size(), 2u);
  EXPECT_EQ(plan.streams[1].query_vector, 0);
  EXPECT_EQ(plan.streams[1].key_vector, 1);
  EXPECT_TRUE(plan.vectors[1].for_keys);
  EXPECT_THAT(errors("stream t = k . k"),
              ElementsAre("the left side of a stream is a query vector; 'k' is a key vector"));
  EXPECT_THAT(errors("stream t = q . q"),
              ElementsAre("the right side of a stream is a key vector; 'q' is a query vector"));
  EXPECT_THAT(errors("vector v = linear(k)\nstream t = v . k"),
              ElementsAre("the left side of a stream is a query vector; 'v' is computed from k"));
  EXPECT_THAT(errors("vector v = project(x)\nstream t = v . k\nstream u = q . v"),
              ElementsAre("the right side of a stream is a key vector; 'v' is already used on the other "
                          "side; write a second vector"));
  EXPECT_THAT(errors("vector v = 3"), ElementsAre("a vector is wanted, but '3' is one number per head"));
  EXPECT_THAT(errors("stream t = F . k\ntoken F = project(x)"), ElementsAre(HasSubstr("unknown vector 'F'")));
  std::string many;
  for (int count = 0; count < 7; ++count) many += "stream t" + std::to_string(count) + " = q . k\n";
  EXPECT_THAT(errors(many), IsEmpty());
  EXPECT_THAT(errors(many + "stream u = q . k"), ElementsAre("a formula may have at most 8 streams"));
}

TEST(CheckScale, BelongsToHeads) {
  EXPECT_THAT(errors("param a[head] = 1\nscale = a / (h + H)"), IsEmpty());
  EXPECT_THAT(errors("scale = i"),
              ElementsAre("scale may depend on h, H, params and constants only; 'i' depends on more"));
  EXPECT_THAT(errors("scale = s"), ElementsAre(HasSubstr("scale may depend on")));
  EXPECT_THAT(errors("input p[batch]\nscale = p"), ElementsAre(HasSubstr("scale may depend on")));
}

// --- positions as an input ---

TEST(CheckPositions, AnInputReplacesIJAndD) {
  const std::string pos = "input pos[token]: int\n";
  EXPECT_EQ(mask_of(pos + "mask = causal"), "pos[i] - pos[j] >= 0");
  EXPECT_EQ(mask_of(pos + "mask = i >= j + 3"), "pos[i] - pos[j] >= 3");
  EXPECT_EQ(score_of(pos + "score = s - i * j"), "s - pos[i] * pos[j]");
  EXPECT_EQ(score_of(pos + "input b[rel]\nscore = b[d]"), "b[pos[i] - pos[j]]");
}

TEST(CheckPositions, TablesOverTokensAreSubscriptedByPlace) {
  const std::string pos = "input pos[token]: int\ninput F[token]\n";
  EXPECT_EQ(score_of(pos + "score = F[i] + F[j - 1] + d"), "F[i] + F[j - 1] + (pos[i] - pos[j])");
  EXPECT_EQ(score_of(pos + "input m[query, key]\nscore = m[i, j]"), "m[i, j]");
}

TEST(CheckPositions, ALetMeansWhatItWouldMeanInItsPlace) {
  const std::string pos = "input pos[token]: int\ninput F[token]\n";
  for (const char* order :
       {"t = j - 1\nmask = t >= 3\nscore = F[t]", "mask = t >= 3\nscore = F[t]\nt = j - 1"}) {
    EXPECT_EQ(score_of(pos + order), "F[j - 1]") << order;
    EXPECT_EQ(mask_of(pos + order), "pos[j] - 1 >= 3") << order;
  }
  EXPECT_EQ(score_of(pos + "a = b + 1\nb = i\nscore = F[a] + a"), "F[i + 1] + (pos[i] + 1)");
  EXPECT_EQ(score_of(pos + "t = d\nconst c = where(full, 1, t)\nscore = t + c"), "pos[i] - pos[j] + 1")
      << "a let that a constant needs is not settled before positions are";
}

TEST(CheckPositions, OnlyAnIntegerInputOverTokensReplacesThem) {
  EXPECT_EQ(mask_of("input pos[token]\nmask = causal and pos[i] > 0"), "d >= 0 and pos[i] > 0");
  EXPECT_EQ(mask_of("param pos[4] = 0\nmask = causal and pos[i] > 0"), "d >= 0 and pos[i] > 0");
  EXPECT_THAT(errors("input pos[head, token]: int"),
              ElementsAre("a token has one position for all heads: 'input pos[token]: int'"));
  const Plan plan = plan_of("input pos[batch, token]: int\nmask = causal");
  EXPECT_EQ(plan.graph[plan.mask].reads, kReadsBatch | kReadsRow | kReadsColumn);
}

TEST(CheckReads, WhatBelongsToTokensDiffersBetweenSequences) {
  const auto reads = [](const std::string& text) {
    const Plan plan = plan_of(text);
    return plan.graph[plan.score].reads;
  };
  EXPECT_EQ(reads("input F[token]\nscore = F[j]"), kReadsBatch | kReadsColumn);
  EXPECT_EQ(reads("input F[head, query]\nscore = F[i]"), kReadsBatch | kReadsHead | kReadsRow);
  EXPECT_EQ(reads("input p[batch]\nscore = p"), kReadsBatch);
  EXPECT_EQ(reads("token F = project(x)\nscore = F[i]"), kReadsBatch | kReadsHead | kReadsRow);
  EXPECT_EQ(reads("param b[head, 9]= 0\nscore = b[d]"), kReadsHead | kReadsDiagonal);
  EXPECT_EQ(reads("input b[rel]\nscore = b[d]"), kReadsDiagonal);
}

// --- warnings and limits ---

TEST(CheckWarnings, NameWhatIsNotUsed) {
  EXPECT_THAT(
      plan_of("const w = 3\nparam a = 1\ny = a + 1\nvector v = linear(q)\nscore = s").warnings,
      ElementsAre("'w' is defined, but nothing uses it", "'a' is defined, but nothing uses it",
                  "'y' is defined, but nothing uses it", "vector 'v' is defined, but no stream uses it"));
  EXPECT_THAT(plan_of("score = s + 1\nweights = softmax(s)").warnings,
              testing::Contains("score is defined, but weights does not use it"));
}

TEST(CheckWarnings, CountUseInVectorsTokensAndStarts) {
  EXPECT_THAT(plan_of("const w = 3\nparam a = 1\nvector v = w * a * q\nstream t = v . k\nscore = t").warnings,
              IsEmpty());
  EXPECT_THAT(plan_of("const w = 3\nparam a = w\nscore = s * a").warnings, IsEmpty());
  EXPECT_THAT(plan_of("input pos[token]: int\nscore = s").warnings, IsEmpty());
}

TEST(CheckLimits, DeepDefinitionsAreRefused) {
  std::string text = "a0 = s\n";
  for (int count = 1; count < 450; ++count) text += fmt::format("a{} = a{} + {}\n", count, count - 1, count);
  EXPECT_THAT(errors(text + "score = a449"),
              testing::Contains(HasSubstr("the formula is more than 400 operations deep here")));
  EXPECT_THAT(errors(text + "score = a390"), testing::Each(HasSubstr("more than 400 operations deep")));
  std::string forwards;
  std::string sum;
  for (int count = 0; count < 190; ++count) sum += " + 1";
  for (int count = 0; count < 40; ++count) forwards += fmt::format("a{} = a{}{}\n", count, count + 1, sum);
  EXPECT_THAT(errors(forwards + "a40 = s\nscore = a0"),
              testing::Contains("the definitions are nested more than 2000 deep"));
}

TEST(CheckLimits, LargeFormulasAreRefused) {
  std::string text;
  for (int count = 0; count < 450; ++count) {
    text += fmt::format("a{}=1", count);
    for (int term = 0; term < 16; ++term) text += fmt::format("+d^{}", count * 16 + term + 2);
    text += "\n";
  }
  EXPECT_LT(text.size(), Limits::text_bytes);
  EXPECT_THAT(errors(text), testing::Contains("the formula has more than 20000 operations"));
  EXPECT_THAT(errors(std::string(65537, ' ')),
              ElementsAre("a formula may have at most 65536 bytes; this one has 65537"));
}

}  // namespace
}  // namespace saccade
