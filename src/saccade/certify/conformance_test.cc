// Every shipped mechanism conforms, and so do formulas that combine the language in ways nobody ships.
#include "saccade/certify/conformance.h"

#include <gtest/gtest.h>

#include "saccade/certify/problem.h"
#include "saccade/formula/mechanisms.h"

namespace saccade {
namespace {

std::string failures(const Formula& formula) {
  std::string text;
  for (const CheckResult& result : run_conformance({.formula = formula}))
    if (result.outcome == Outcome::failed)
      text += fmt::format("{}: {}\n  {}\n", result.name, result.detail, to_string(*result.failing));
  return text;
}

class ShippedMechanism : public testing::TestWithParam<std::string> {};

TEST_P(ShippedMechanism, Conforms) { EXPECT_EQ(failures(Formula::load(GetParam())), ""); }

std::vector<std::string> shipped() {
  std::vector<std::string> names;
  for (const EmbeddedMechanism& mechanism : embedded_mechanisms()) names.emplace_back(mechanism.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, ShippedMechanism, testing::ValuesIn(shipped()),
                         [](const auto& test) { return test.param; });

struct Unusual {
  const char* name;
  const char* text;
};

class UnusualFormula : public testing::TestWithParam<Unusual> {};

TEST_P(UnusualFormula, Conforms) { EXPECT_EQ(failures(Formula::parse(GetParam().text)), ""); }

constexpr Unusual kUnusual[] = {
    {"LearnedTableByDistance",
     "param b[head, 16] = 0.1 * h ; mask = causal ; score = s + b[min(d, 15)] * b[clamp(d // 2, 0, 15)]"},
    {"LearnedTableOfTwoSubscripts", "param b[4, 3] = 0 ; mask = causal ; score = s + b[i % 4, j % 3]"},
    {"TableByHeadAndWithout",
     "param a[head] = 2 ^ (-h) ; param c = 0.5 in [0, 1] ; mask = causal ; score = a * s - c * d"},
    {"ChainedComparisons", "const w = 5 ; mask = 0 <= d < w != 3 and 0 <= j <= i <= i + 1 ; score = s"},
    {"ThreeStreams",
     "vector a = linear(relu(q)) ; vector b = norm(project(x)) ; stream t = a . k ; stream u = q . b ; mask "
     "= causal\n"
     "weights = softmax(s + 0.1 * t) - 0.3 * softmax(u, sink = -1) + 0.2 * l1(t) "},
    {"TwoTokens",
     "token F = cumsum(logsigmoid(project(x))) ; token g = 0.5 * project(x) - project(x) ; mask = causal\n"
     "score = s * (1 + 0.1 * tanh(g[i])) + F[i] - F[j] + g[j]"},
    {"TokenInputs",
     "input t[token] ; input kind[token]: int ; mask = causal and (kind[i] == kind[j] or d < 3) ; score = s "
     "+ t[i] * t[j]"},
    {"EarlierTokenInput", "input t[token] ; mask = causal ; score = s + t[max(j - 1, 0)]"},
    {"QueryAndKeyInputs",
     "input a[batch, head, query] ; input b[key]: bool ; mask = causal and b[j] ; score = s + a[i]"},
    {"PairInput", "input m[batch, head, query, key] ; score = s + m[i, j]"},
    {"CausalPairInputs",
     "input bias[head, query, key] ; input adj[token, token]: bool ; mask = causal and (adj[i, j] or d == "
     "0)\n"
     "score = s + bias[i, j]"},
    {"PairInputInARing", "input bias[query, key] ; mask = 0 <= d < 3 ; score = s + bias[i, j]"},
    {"TokenTableWithAnotherDimension",
     "input a[head, token, 3] ; mask = causal ; score = s + a[j, d % 3] * a[i, 0]"},
    {"PositionsAsInput", "input pos[token]: int ; mask = causal ; score = s - 0.3 * d"},
    {"LearnedScale", "param g[head] = 1 in [0.1, 2] ; scale = g / 2 ; mask = causal"},
    {"PinnedLength", "const n = 64 ; mask = causal ; score = s * (1 - d / n)"},
    {"WeightsWithoutNorm", "mask = causal ; weights = where(s > 0, s, 0.1 * s) * exp(-d / 4)"},
    {"ChoiceOfNorms", "mask = causal ; weights = where(h % 2 == 0, softmax(s), softpick(s)) / 2"},
    {"CoefficientsByPair", "mask = causal ; weights = tanh(s) * softmax(s) + sigmoid(s) * 0.1"},
    {"MaskByScore", "mask = causal and (s > -0.5 or d == 0)"},
    {"FractionalPower", "param p[head] = 0.5 in [0.1, 2] ; mask = causal ; score = s - d ^ p - sqrt(d)"},
    {"UndefinedOutsideTheMask", "mask = d > 0 ; score = s - log(d) + sqrt(d - 1)"},
    {"BranchNotTaken", "mask = causal ; param a = 1 ; score = s - where(d > 0, a * log(d), 0)"},
    {"NoPairAllowed", "mask = d > 0 and d < 0"},
    {"MinusInfinityScores", "mask = causal ; score = where(d % 2 == 0, s, -inf)"},
    {"RowSink", "param z[head] = 0 ; mask = causal ; weights = softmax(s, sink = z - log(i + 1))"},
    {"SinesOfDistance", "param f[head] = 0.3 ; mask = causal ; score = s + cos(f * d) - sin(d)"},
    {"Relative", "input b[head, rel] ; mask = causal ; score = s + b[d]"},
    {"ParamInHostExpression",
     "param a[head] = 0.5 ; token F = a * project(x) ; mask = causal ; score = s + F[j]"},
    {"RunningVector",
     "vector c = cumsum(0.2 * project(x)) ; stream t = q . c ; mask = causal ; score = s + t"},
    {"RunningQueryVector",
     "vector c = cumsum(0.2 * project(x)) ; stream t = c . k ; mask = causal ; score = s + t"},
    {"SharedByLayer", "param a[layer] = 0.1 ; mask = causal ; score = s - a * d"},
};

INSTANTIATE_TEST_SUITE_P(All, UnusualFormula, testing::ValuesIn(kUnusual),
                         [](const auto& test) { return test.param.name; });

TEST(Case, ReadsBackWhatItWrites) {
  for (const Case& c : conformance_cases()) EXPECT_EQ(parse_case(to_string(c)), c);
}

TEST(Case, RefusesWhatItWouldNotWrite) {
  for (const char* text :
       {"", "b1", "b1.h2.g1.q3.k3.o0.d4.v4.r0.s1.z1", "b1.h3.g2.q3.k3.o0.d4.v4.r0.s1",
        "b1.h1.g1.q-3.k3.o0.d4.v4.r0.s1", "b1.h1.g1.q3.k3.o0.d3.v4.r1.s1", "b0.h1.g1.q3.k3.o0.d4.v4.r0.s1"})
    EXPECT_THROW(parse_case(text), Error) << text;
}

TEST(Problem, IsTheSameForTheSameSeed) {
  const Formula formula = Formula::load("document");
  const Case c = conformance_cases()[3];
  const Problem a = make_problem(formula, c), b = make_problem(formula, c);
  EXPECT_TRUE(torch::equal(a.query, b.query));
  EXPECT_TRUE(torch::equal(a.call.inputs.at("doc"), b.call.inputs.at("doc")));
}

TEST(Conformance, NamesTheNearestCheck) {
  try {
    run_conformance({.formula = Formula::parse("mask = causal")}, {.only = {"causalty"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "check: there is no check 'causalty'; did you mean 'causality'?");
  }
}

TEST(Conformance, SaysWhyACheckDoesNotApply) {
  const auto results = run_conformance({.formula = Formula::load("ape")}, {.only = {"cache-tokens"}});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].outcome, Outcome::not_applicable);
  EXPECT_NE(results[0].detail.find("it reads n"), std::string::npos) << results[0].detail;
}

TEST(Conformance, DecodesApeOnceTheLengthIsPinned) {
  const Formula pinned =
      Formula::parse("mask = causal ; score = s + 0.1 * (1 - abs(d) / n)", {.set = {{"n", 128}}});
  const auto results = run_conformance({.formula = pinned}, {.only = {"cache-tokens"}});
  EXPECT_EQ(results[0].outcome, Outcome::passed) << results[0].detail;
}

}  // namespace
}  // namespace saccade
