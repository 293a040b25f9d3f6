#include "saccade/formula/derivative.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "saccade/formula/check_testing.h"
#include "saccade/formula/naive_evaluation.h"
#include "saccade/formula/random_formula.h"

namespace saccade {
namespace {

auto is_target_of(const Plan& plan) {
  return [&plan](NodeId id) {
    const Node& node = plan.graph[id];
    return node.op == Op::stream || (node.op == Op::read && node.type == Type::real);
  };
}

// The derivative of the score by the only target whose text is `by`, as text.
std::string by_name(const std::string& text, const std::string& by) {
  Plan plan = plan_of(text);
  for (const Partial& partial : differentiate(plan.graph, plan.score, is_target_of(plan)))
    if (plan.graph.print(partial.by, {}) == by) return plan.graph.print(partial.value, {});
  return "none";
}

TEST(Differentiate, WritesDerivativesAsPeopleDo) {
  EXPECT_EQ(by_name("score = s", "s"), "1");
  EXPECT_EQ(by_name("score = 3 * s + 2", "s"), "3");
  EXPECT_EQ(by_name("param a = 1\nscore = s - a * abs(d)", "a"), "-abs(d)");
  EXPECT_EQ(by_name("param a = 1\nscore = s - a * abs(d)", "s"), "1");
  EXPECT_EQ(by_name("score = 50 * tanh(s / 50)", "s"), "50 * (1 - tanh(s / 50) * tanh(s / 50)) * 0.02");
  EXPECT_EQ(by_name("score = s * s", "s"), "s + s");
}

TEST(Differentiate, SeesOnlyWhatTheRootDependsOn) {
  EXPECT_EQ(by_name("param a = 1\nscore = s + floor(a)", "a"), "none") << "a step has no slope";
  EXPECT_EQ(by_name("param b[9] = 1\nscore = s + b[floor(s)]", "s"), "1") << "nor has a subscript";
  EXPECT_EQ(by_name("param a = 1\nscore = s + where(a > 0, 1, 2)", "a"), "none");
  EXPECT_EQ(by_name("input t[token]: int\nscore = s * t[i]", "t[i]"), "none") << "an integer is not learned";
}

TEST(Differentiate, EachReadOfATableIsATargetOfItsOwn) {
  const std::string text = "input F[token]\nscore = s + F[i] - 2 * F[j]";
  EXPECT_EQ(by_name(text, "F[i]"), "1");
  EXPECT_EQ(by_name(text, "F[j]"), "-2");
}

// Whether no value below `root` is so large or small that it absorbs others: differences mean nothing there.
bool is_tame(const Plan& plan, NaiveGraph<double>& values, NodeId root) {
  return std::ranges::all_of(plan.graph.reachable({root}), [&](NodeId id) {
    const double size = std::fabs(values.at(id));
    return size == 0 || (size > 1e-6 && size < 1e6);
  });
}

// Random expressions without steps and kinks, by every target, against differences of the naive evaluation.
TEST(Differentiate, EqualsDifferencesOfRandomExpressions) {
  constexpr uint64_t kSeed = 60;
  int tested = 0;
  for (int number = 0; number < 400; ++number) {
    RandomStream random = RandomStream(kSeed, "derivatives").split(std::to_string(number));
    const RandomFormula::Options options{.depth = 2 + static_cast<int>(random.below(4)), .smooth = true};
    const std::string text = print(RandomFormula(random, options).formula());
    Plan plan = plan_of(text);
    Pair<double> pair{.shape = {.queries = 4, .keys = 6, .offset = 1}, .head = 1, .heads = 3};
    pair.row = static_cast<int64_t>(random.below(4));
    pair.column = static_cast<int64_t>(random.below(6));
    for (size_t count = 0; count < plan.streams.size(); ++count) pair.streams.push_back(random.normal());
    const RandomTables<double> tables(plan, pair.shape, random);
    for (const Partial& partial : differentiate(plan.graph, plan.score, is_target_of(plan))) {
      NaiveGraph<double> values(plan.graph, tables.views(), pair);
      if (!is_tame(plan, values, plan.score)) continue;
      const double at = values.at(partial.by);
      const auto moved = [&](double by) {
        NaiveGraph<double> graph(plan.graph, tables.views(), pair);
        graph.set(partial.by, at + by);
        return graph.at(plan.score);
      };
      const double step = 1e-5;
      const double wide = (moved(step) - moved(-step)) / (2 * step);
      const double narrow = (moved(step / 4) - moved(-step / 4)) / (step / 2);
      // Where a let or an integer makes a step after all, or the slope is too steep to measure, there is
      // nothing to compare.
      if (!std::isfinite(wide) || !(std::fabs(wide - narrow) < 1e-4 * (1 + std::fabs(narrow)))) continue;
      ++tested;
      ASSERT_NEAR(values.at(partial.value), narrow,
                  1e-3 * (1 + std::fabs(narrow)) + 1e-7 * std::fabs(moved(0)))
          << fmt::format("seed {} number {}: by {} at i = {}, j = {} of\n{}", kSeed, number,
                         plan.graph.print(partial.by, {}), pair.i(), pair.j(), text);
    }
  }
  EXPECT_GE(tested, 300) << "the test should not be vacuous";
}

// --- the side of a choice that is not taken ---

// The derivative of the score by a param p, for every pair of a small map.
std::vector<double> slopes(const std::string& text) {
  const Plan plan = plan_of(text);
  std::vector<double> result;
  Pair<double> pair{.shape = {.queries = 3, .keys = 3}};
  pair.streams.assign(plan.streams.size(), 0.5);
  RandomStream random(0, "slopes");
  RandomTables<double> tables(plan, pair.shape, random);
  tables.contents(plan.table_index("p"))[0] = 2;
  for (const DerivativeInfo& derivative : plan.derivatives) {
    if (plan.graph.print(derivative.by, {}) != "p") continue;
    for (pair.row = 0; pair.row < 3; ++pair.row)
      for (pair.column = 0; pair.column < 3; ++pair.column)
        result.push_back(NaiveGraph<double>(plan.graph, tables.views(), pair).at(derivative.value));
  }
  return result;
}

// d is 0 on the diagonal and negative above it: log and sqrt have no finite slope there.
TEST(Choice, ContributesNothingWhereItIsNotTaken) {
  const std::vector<std::string> scores = {
      "where(d > 0, log(p * d), 0)",
      "where(d <= 0, 0, log(p * d))",
      "where(d > 0, log(p * d), s)",
      "2 * where(d > 0, sqrt(p * d) / d, 1)",
      "where(d > 0, where(d > 1, log(p * d), 0), 0)",
      "exp(where(d > 0, log(p * d), 0)) * tanh(where(d > 0, (p * d) ^ 0.5, 1))",
      // The value is shared by two choices with the same condition, and with different ones.
      "where(d > 0, t, 0) + where(d > 0, 2 * t, 0)",
      "where(d > 0, t, 0) + where(d > 1, t * t, 0)",
      "where(d <= 0, 0, t) + where(d > 1, t * t, 0)",
      "where(d > 0, t, 0) * where(d > 1, t, 1) + where(not (d > 0), s, exp(t))",
      "where(d > 0, t, 0) + min(where(d > 1, t, 3), 4) + where(d > 0, t * t, 1)",
  };
  for (const std::string& score : scores) {
    const std::vector<double> values = slopes("param p = 2\nt = log(p * d)\nscore = s + " + score);
    ASSERT_EQ(values.size(), 9u) << score;
    for (size_t index = 0; index < 9; ++index) {
      const bool taken = index / 3 > index % 3;
      EXPECT_TRUE(std::isfinite(values[index])) << score << " at pair " << index;
      EXPECT_TRUE(taken || values[index] == 0) << score << " at pair " << index;
    }
    EXPECT_NE(values[6], 0) << score;
  }
}

TEST(Choice, DoesNotHideAValueThatIsAlsoUsedOutside) {
  const std::vector<double> values =
      slopes("param p = 2\nt = log(p * d)\nscore = s + where(d > 0, t, 0) + t");
  EXPECT_TRUE(std::isinf(values[0]) || std::isnan(values[0])) << "log(0) is used there";
  EXPECT_EQ(values[3], 1) << "2 / p";
}

TEST(Derivatives, StaySmallInTheSizeOfTheFormula) {
  // Each level doubles the number of paths, not the number of nodes.
  std::string text = "param p = 1\na0 = p * s\n";
  for (int level = 1; level <= 60; ++level)
    text += fmt::format("a{} = tanh(a{} + a{})\n", level, level - 1, level - 1);
  const Plan plan = plan_of(text + "score = a60");
  EXPECT_LT(plan.graph.size(), 1500);
  ASSERT_EQ(plan.derivatives.size(), 2u);
}

TEST(Derivatives, OfDeepChoicesAboveWideSumsStaySmall) {
  std::string text = "param p = 1\na0 = 0";
  for (int term = 0; term < 150; ++term) text += fmt::format(" + tanh(p * s + {})", term);
  text += "\n";
  for (int level = 1; level <= 150; ++level)
    text += fmt::format("a{} = where(d > {}, a{}, {})\n", level, level, level - 1, level);
  const Plan plan = plan_of(text + "score = a150");
  EXPECT_LT(plan.graph.size(), 5'000) << "not the product of depth and width";
}

}  // namespace
}  // namespace saccade
