#include "saccade/formula/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "saccade/formula/bounds.h"
#include "saccade/formula/check_testing.h"
#include "saccade/formula/naive_evaluation.h"
#include "saccade/formula/random_formula.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// --- terms ---

// The terms as "coefficient * norm", in the order of the plan.
std::vector<std::string> terms(const std::string& text) {
  const Plan plan = plan_of(text);
  std::vector<std::string> result;
  for (const TermInfo& term : plan.terms) {
    std::string line = plan.graph.print(term.coefficient, {});
    if (term.norm >= 0)
      line += " of " + plan.graph.print(plan.norms[static_cast<size_t>(term.norm)].node, {});
    result.push_back(line);
  }
  return result;
}

TEST(Terms, AreOnePerNorm) {
  EXPECT_THAT(terms(""), ElementsAre("1 of softmax(s)"));
  EXPECT_THAT(terms("weights = sign(s) * softmax(abs(s))"), ElementsAre("sign(s) of softmax(abs(s))"));
  EXPECT_THAT(terms("weights = softmax(s) + softmax(s)"), ElementsAre("2 of softmax(s)"));
  EXPECT_THAT(terms("weights = softmax(s) - softmax(s)"), ElementsAre("0 of softmax(s)"));
  EXPECT_THAT(terms("weights = -softmax(s) / 4"), ElementsAre("-0.25 of softmax(s)"));
  EXPECT_THAT(terms("weights = relu(s) ^ 2"), ElementsAre("relu(s) ^ 2"));
  EXPECT_THAT(terms("param a = 1\nstream t = q . k\nweights = (1 + a) * softmax(s) - a * softmax(t)"),
              ElementsAre("1 + a of softmax(s)", "-a of softmax(t)"));
}

TEST(Terms, CollectWhatHasNoNorm) {
  EXPECT_THAT(terms("weights = softmax(s) + s - 1"), ElementsAre("s - 1", "1 of softmax(s)"));
  EXPECT_THAT(terms("weights = (softmax(s) + d) * 2"), ElementsAre("d * 2", "2 of softmax(s)"));
}

TEST(Terms, ChooseByWhere) {
  EXPECT_THAT(terms("weights = where(causal, softmax(s), l1(s))"),
              ElementsAre("where(d >= 0, 1, 0) of softmax(s)", "where(d >= 0, 0, 1) of l1(s)"));
  EXPECT_THAT(terms("weights = where(causal, softmax(s), 2 * softmax(s))"),
              ElementsAre("where(d >= 0, 1, 0) + where(d >= 0, 0, 2) of softmax(s)"));
  EXPECT_THAT(terms("weights = where(causal, softmax(s), 3)"),
              ElementsAre("where(d >= 0, 0, 3)", "where(d >= 0, 1, 0) of softmax(s)"));
}

TEST(Terms, SinksBelongToTheirNorm) {
  const Plan plan = plan_of("param z[head] = 0\nweights = softmax(s, sink = z) + softmax(s)");
  ASSERT_EQ(plan.norms.size(), 2u);
  EXPECT_EQ(plan.graph.print(plan.norms[0].sink, {}), "z");
  EXPECT_EQ(plan.norms[1].sink, kNoNode);
  EXPECT_EQ(plan.norms[0].argument, plan.norms[1].argument);
}

TEST(Terms, ReuseOfLetsStaysFast) {
  std::string text = "a0 = softmax(s) + s\n";
  for (int level = 1; level <= 60; ++level)
    text += fmt::format("a{} = a{} + a{}\n", level, level - 1, level - 1);
  const Plan plan = plan_of(text + "weights = a60");
  EXPECT_LT(plan.graph.size(), 1000);
  EXPECT_THAT(terms(text + "weights = a60"), testing::Contains("1152921504606846976.0 of softmax(s)"));
}

// What the terms say must be what the text says: weights are linear in their norms.
TEST(Terms, AddUpToTheWeights) {
  constexpr uint64_t kSeed = 70;
  for (int number = 0; number < 200; ++number) {
    RandomStream random = RandomStream(kSeed, "terms").split(std::to_string(number));
    RandomFormula generator(random, {.depth = 3});
    std::string text;
    generator.with_streams([&] { text = "weights = " + print(*generator.weights(4)); });
    const Plan plan = plan_of(text);
    Pair<double> pair{.row = 2, .column = 1, .shape = {.queries = 4, .keys = 4}, .head = 1, .heads = 3};
    pair.streams.assign(plan.streams.size(), 0.7);
    NaiveGraph<double> values(plan.graph, {}, pair);
    for (const NormInfo& norm : plan.norms) values.set(norm.node, random.uniform());
    double sum = 0, magnitude = 0;
    for (const TermInfo& term : plan.terms) {
      const double part = values.at(term.coefficient) *
                          (term.norm < 0 ? 1 : values.at(plan.norms[static_cast<size_t>(term.norm)].node));
      sum += part;
      magnitude += std::fabs(part);
    }
    const double weights = values.at(plan.weights);
    if (!std::isfinite(weights) || !std::isfinite(magnitude)) continue;
    ASSERT_NEAR(sum, weights, 1e-12 * (magnitude + 1))
        << "seed " << kSeed << " number " << number << ": " << text;
  }
}

// --- derivatives ---

TEST(Derivatives, AreKnownForEveryRootAndTarget) {
  const Plan plan = plan_of(
      "param a = 1\nparam z[head] = 0\ninput F[token]\nscore = a * s + F[j]\nweights = a * softmax(score, "
      "sink = z)");
  std::vector<std::string> result;
  for (const DerivativeInfo& info : plan.derivatives)
    result.push_back(fmt::format("d({})/d{} = {}", plan.graph.print(info.of, {}),
                                 plan.graph.print(info.by, {}), plan.graph.print(info.value, {})));
  EXPECT_THAT(result,
              testing::UnorderedElementsAre("d(a * s + F[j])/da = s", "d(a * s + F[j])/ds = a",
                                            "d(a * s + F[j])/dF[j] = 1", "d(z)/dz = 1", "d(a)/da = 1"))
      << testing::PrintToString(result);
}

// --- decoding ---

std::string why_not(const std::string& text) {
  const Plan plan = plan_of(text);
  return plan.decoding.possible ? "" : plan.decoding.reason;
}

std::optional<int64_t> ring(const std::string& text) { return plan_of(text).decoding.ring; }

TEST(Decoding, NeedsAMaskThatNeverLooksAhead) {
  for (const char* mask :
       {"causal", "0 <= d < 10", "i >= j", "not (j > i)", "causal and (j < 4 or d < 9)", "d == 5",
        "d > 3 or d == 0", "where(d < 0, not full, full)", "not full", "d // 4 >= 0"})
    EXPECT_EQ(why_not(std::string("mask = ") + mask), "") << mask;
  for (const char* mask :
       {"full", "d > -2", "abs(d) < 9", "causal or j < 4", "d % 4 == 0", "i // 4 >= j // 4", "s > 0"})
    EXPECT_THAT(why_not(std::string("mask = ") + mask),
                "its mask may allow a key that comes after the query (d < 0); add 'causal and' to the mask")
        << mask;
}

TEST(Decoding, NeedsALengthThatDoesNotGrow) {
  EXPECT_THAT(why_not("mask = causal\nscore = s / n"), HasSubstr("it reads n, the number of keys"));
  EXPECT_THAT(why_not("mask = causal and j < n // 2"), HasSubstr("it reads n"));
  EXPECT_THAT(why_not("mask = causal\nscale = 1 / n"), HasSubstr("it reads n"));
  EXPECT_EQ(why_not("mask = causal\nconst n = 2048\nscore = s / n"), "");
  EXPECT_EQ(why_not("mask = causal\ny = n"), "") << "nothing uses y";
}

TEST(Decoding, NeedsTablesThatAreReadInThePast) {
  const std::string start = "mask = causal\ninput F[token]\ninput b[9]\nscore = s + ";
  for (const char* read : {"F[i]", "F[j]", "F[i - 1]", "F[j - 3]", "F[max(i - 1, 0)]", "b[i + 1]", "b[h]"})
    EXPECT_EQ(why_not(start + read), "") << read;
  for (const char* read : {"F[i + 1]", "F[j + 1]", "F[3]", "F[d]", "F[h]", "F[H]", "F[i + j]", "F[i - -1]",
                           "F[max(i, 3)]", "F[-i]", "F[2 * j]"})
    EXPECT_THAT(why_not(start + read), testing::StartsWith("it reads F[")) << read;
  EXPECT_EQ(why_not(start + "F[i + 1]"), "it reads F[i + 1], which may lie in the future");
  EXPECT_THAT(why_not("input m[token]: int\nmask = causal and m[i + 1] == 0"),
              HasSubstr("it reads m[i + 1]"));
}

TEST(Decoding, FollowsPositionsThatAreAnInput) {
  EXPECT_EQ(why_not("input pos[token]: int\nmask = causal"), "");
  EXPECT_NE(why_not("input pos[token]: int\nmask = full"), "");
  EXPECT_EQ(ring("input pos[token]: int\nmask = 0 <= d < 8"), std::nullopt)
      << "places in a ring are not positions";
}

TEST(Ring, IsAsLargeAsTheFarthestKeyThatMayBeAllowed) {
  EXPECT_EQ(ring("mask = 0 <= d < 256"), 256);
  EXPECT_EQ(ring("mask = 0 <= d <= 256"), 257);
  EXPECT_EQ(ring("mask = 0 <= d < 10.5"), 11);
  EXPECT_EQ(ring("mask = d == 0"), 1);
  EXPECT_EQ(ring("mask = not full"), 1);
  EXPECT_EQ(ring("const w = 64\nmask = causal and (d < w or d == 100)"), 101);
  EXPECT_EQ(ring("mask = causal and i - 64 < j"), 64);
  EXPECT_EQ(ring("mask = causal and d // 64 < 2"), 128);
}

TEST(Ring, IsAbsentWhenNoDistanceIsTooFar) {
  EXPECT_EQ(ring("mask = causal"), std::nullopt);
  EXPECT_EQ(ring("mask = causal and (j < 4 or d < 256)"), std::nullopt);
  EXPECT_EQ(ring("mask = causal and d % 64 == 0"), std::nullopt);
  EXPECT_EQ(ring("mask = abs(d) < 64"), std::nullopt) << "not decodable at all";
  EXPECT_EQ(ring("param w = 64\nmask = 0 <= d < w"), std::nullopt) << "w may learn to be anything";
  EXPECT_EQ(ring("param w = 64 in [0, 128]\nmask = 0 <= d < w"), 128);
}

TEST(Ring, IsAbsentWhenATableIsNotReadAtAKeyItself) {
  EXPECT_EQ(ring("input F[token]\nmask = 0 <= d < 8\nscore = s + F[i] - F[j]"), 8);
  EXPECT_EQ(ring("input F[token]\nmask = 0 <= d < 8\nscore = s + F[j - 1]"), std::nullopt);
}

// What analysis promises of a mask must hold for every pair.
TEST(Decoding, KeepsItsPromisesOnRandomMasks) {
  constexpr uint64_t kSeed = 71;
  int decodable = 0, rings = 0;
  for (int number = 0; number < 500; ++number) {
    RandomStream random = RandomStream(kSeed, "decoding").split(std::to_string(number));
    RandomFormula generator(random, {.depth = 3, .declarations = false, .length = false});
    const std::string text = fmt::format("mask = {} ({})", random.below(2) ? "causal and" : "0 <= d < 12 and",
                                         print(*generator.boolean(3)));
    const Plan plan = plan_of(text);
    if (!plan.decoding.possible) continue;
    ++decodable;
    rings += plan.decoding.ring.has_value();
    Pair<float> pair{.shape = {.queries = 20, .keys = 20}, .head = 1, .heads = 3};
    pair.streams = {0.5f};
    for (pair.row = 0; pair.row < 20; ++pair.row)
      for (pair.column = 0; pair.column < 20; ++pair.column) {
        const bool beyond =
            pair.d() < 0 || (plan.decoding.ring && pair.d() >= static_cast<float>(*plan.decoding.ring));
        if (!beyond) continue;
        ASSERT_EQ(NaiveGraph<float>(plan.graph, {}, pair).at(plan.mask), 0)
            << fmt::format("seed {} number {}: d = {} of {}", kSeed, number, pair.d(), text);
      }
  }
  EXPECT_GE(decodable, 300);
  EXPECT_GE(rings, 100);
}

// --- warnings ---

TEST(Warnings, NameSubscriptsThatMayFallOutside) {
  const std::string b = "param b[head, 32] = 0\nscore = s + ";
  EXPECT_THAT(plan_of(b + "b[clamp(d, 0, 31)]").warnings, IsEmpty());
  EXPECT_THAT(plan_of(b + "b[abs(d) % 32]").warnings, IsEmpty());
  EXPECT_THAT(plan_of(b + "b[i % 32]").warnings, IsEmpty());
  EXPECT_THAT(plan_of(b + "b[31]").warnings, IsEmpty());
  EXPECT_THAT(
      plan_of(b + "b[min(d, 31)]").warnings,
      ElementsAre("the subscript of b[min(d, 31)] is not provably within 0..31; outside it is clamped"));
  EXPECT_THAT(plan_of(b + "b[32]").warnings,
              ElementsAre(HasSubstr("the subscript of b[32] is not provably within")));
  EXPECT_THAT(plan_of(b + "b[floor(log(abs(d)))]").warnings, ElementsAre(HasSubstr("not provably")));
  EXPECT_THAT(plan_of("input b[rel]\nscore = s + b[d]").warnings, IsEmpty());
}

}  // namespace
}  // namespace saccade
