// The shipped mechanisms that weigh keys in another way than one softmax.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/formula/dense_map_testing.h"

namespace saccade::dense {
namespace {

using testing::DoubleEq;
using testing::Each;
using testing::ElementsAre;
using testing::Pointwise;

// The weights of the last of n tokens, given its scores.
std::vector<double> last_weights(const Formula& formula, const std::vector<double>& row, Call call = {}) {
  call.shape = last_row(static_cast<int64_t>(row.size()));
  call.streams["s"] = {row};
  return weights(formula, call)[0];
}

const std::vector<double> kRow = {0.5, -1, 2, 0.25};

double sum_of_exponentials(const std::vector<double>& row) {
  double total = 0;
  for (double s : row) total += std::exp(s);
  return total;
}

std::vector<double> softmax(const std::vector<double>& row) {
  std::vector<double> result;
  for (double s : row) result.push_back(std::exp(s) / sum_of_exponentials(row));
  return result;
}

TEST(OffByOneMechanism, AddsOneToTheSum) {
  const std::vector<double> found = last_weights(Formula::load("off_by_one"), kRow);
  for (size_t j = 0; j < kRow.size(); ++j)
    EXPECT_DOUBLE_EQ(found[j], std::exp(kRow[j]) / (1 + sum_of_exponentials(kRow)));
  EXPECT_LT(sum(found), 1);
}

TEST(OffByOneMechanism, MayAttendToNothing) {
  const std::vector<double> found = last_weights(Formula::load("off_by_one"), {-1000, -1000});
  EXPECT_THAT(found, ElementsAre(0, 0));
}

TEST(OffByOneMechanism, CountsOnlyAllowedKeys) {
  const Matrix found =
      weights(Formula::load("off_by_one"), {.shape = square(2), .streams = {{"s", {{1, 50}, {1, 1}}}}});
  EXPECT_DOUBLE_EQ(found[0][0], std::exp(1.0) / (1 + std::exp(1.0)));
  EXPECT_EQ(found[0][1], 0);
}

TEST(SinkLogitMechanism, StartsOffByOne) {
  EXPECT_EQ(last_weights(Formula::load("sink_logit"), kRow), last_weights(Formula::load("off_by_one"), kRow));
}

TEST(SinkLogitMechanism, EqualsAnExtraKeyWithoutAValue) {
  std::vector<double> extended = kRow;
  extended.push_back(1.5);
  std::vector<double> expected = softmax(extended);
  expected.pop_back();
  EXPECT_THAT(last_weights(Formula::load("sink_logit"), kRow, {.tables = {{"z", {1.5}}}}),
              Pointwise(DoubleEq(), expected));
}

TEST(SigmoidMechanism, WeighsEachKeyOnItsOwn) {
  const Formula formula = Formula::load("sigmoid", {{"n", 4}});
  const std::vector<double> found = last_weights(formula, kRow);
  for (size_t j = 0; j < kRow.size(); ++j)
    EXPECT_DOUBLE_EQ(found[j], 1 / (1 + std::exp(-(kRow[j] - std::log(4.0)))));
  std::vector<double> changed = kRow;
  changed[0] = 9;
  EXPECT_EQ(last_weights(formula, changed)[2], found[2]);
}

TEST(SigmoidMechanism, SumsToAboutOneAtTheStart) {
  const std::vector<double> zeros(2048, 0.0);
  EXPECT_NEAR(sum(last_weights(Formula::load("sigmoid"), zeros)), 2048.0 / 2049, 1e-12);
}

TEST(Relu2Mechanism, SquaresPositiveScoresAndDividesByTheKeysSeen) {
  EXPECT_THAT(last_weights(Formula::load("relu2"), kRow), ElementsAre(0.0625, 0, 1, 0.015625));
}

TEST(Relu2Mechanism, CountsTheKeysOfEachRow) {
  const Matrix ones = matrix(4, 4, [](int64_t, int64_t) { return 1; });
  const Matrix found = weights(Formula::load("relu2"), {.shape = square(4), .streams = {{"s", ones}}});
  for (const std::vector<double>& row : found) EXPECT_DOUBLE_EQ(sum(row), 1);
}

TEST(SoftpickMechanism, FollowsItsDefinition) {
  double total = 0;
  for (double s : kRow) total += std::fabs(std::exp(s) - 1);
  const std::vector<double> found = last_weights(Formula::load("softpick"), kRow);
  for (size_t j = 0; j < kRow.size(); ++j)
    EXPECT_NEAR(found[j], std::max(std::exp(kRow[j]) - 1, 0.0) / total, 1e-15);
  EXPECT_EQ(found[1], 0);
  EXPECT_LT(sum(found), 1);
}

TEST(SoftpickMechanism, GivesNothingToNegativeScores) {
  EXPECT_THAT(last_weights(Formula::load("softpick"), {-1, -2, -0.5}), Each(0));
  EXPECT_THAT(last_weights(Formula::load("softpick"), {0, 0}), Each(0));
}

TEST(CogMechanism, TakesTheSignOfTheScore) {
  const std::vector<double> sizes = softmax({0.5, 1, 2, 0.25});
  EXPECT_THAT(last_weights(Formula::load("cog"), kRow),
              Pointwise(DoubleEq(), {sizes[0], -sizes[1], sizes[2], sizes[3]}));
}

TEST(CogMechanism, HasAbsoluteWeightsThatSumToOne) {
  const Matrix found = weights(Formula::load("cog"), {.shape = square(9), .streams = {{"s", scores(9)}}});
  for (std::vector<double> row : found) {
    for (double& weight : row) weight = std::fabs(weight);
    EXPECT_NEAR(sum(row), 1, 1e-14);
  }
}

TEST(RetentionMechanism, DecaysByThePublishedRates) {
  const std::vector<double> ones(4, 1.0);
  const double gamma0 = 1 - 1.0 / 32, gamma3 = 1 - 1.0 / 256;
  EXPECT_THAT(last_weights(Formula::load("retention"), ones, {.head = 0, .heads = 4}),
              Pointwise(DoubleEq(), {std::pow(gamma0, 3), gamma0 * gamma0, gamma0, 1.0}));
  EXPECT_THAT(last_weights(Formula::load("retention"), ones, {.head = 3, .heads = 4}),
              Pointwise(DoubleEq(), {std::pow(gamma3, 3), gamma3 * gamma3, gamma3, 1.0}));
}

TEST(RetentionMechanism, IsLinearInTheScores) {
  std::vector<double> doubled = kRow;
  for (double& s : doubled) s *= -2;
  const std::vector<double> once = last_weights(Formula::load("retention"), kRow),
                            twice = last_weights(Formula::load("retention"), doubled);
  for (size_t j = 0; j < kRow.size(); ++j) EXPECT_EQ(twice[j], -2 * once[j]);
}

TEST(RetentionMechanism, EqualsItsRecurrence) {
  // RetNet's other form: the state fades by gamma with every token, and the new key is added.
  const double gamma = 1 - std::pow(2.0, -6);
  const std::vector<double> found = last_weights(Formula::load("retention"), kRow, {.head = 1, .heads = 2});
  const std::vector<double> values = {3, -1, 4, 1};
  double state = 0, output = 0;
  for (size_t j = 0; j < kRow.size(); ++j) {
    state = gamma * state + kRow[j] * values[j];
    output += found[j] * values[j];
  }
  EXPECT_NEAR(output, state, 1e-14);
}

TEST(GpamMechanism, HasRowsOfAFixedSum) {
  const Call call{.shape = square(7),
                  .tables = {{"lp", {0.7}}, {"ln", {0.4}}},
                  .streams = {{"s", scores(7)}, {"t", matrix(7, 7, [](int64_t i, int64_t j) {
                                                   return std::cos(static_cast<double>(i + 2 * j));
                                                 })}}};
  for (const std::vector<double>& row : weights(Formula::load("gpam"), call))
    EXPECT_NEAR(sum(row), 1.3, 1e-14);
}

TEST(GpamMechanism, CanBeNegative) {
  const Call call{.tables = {{"lp", {0.5}}, {"ln", {0.5}}}, .streams = {{"t", {{0, 0, 10}}}}};
  const std::vector<double> found = last_weights(Formula::load("gpam"), {10, 0, 0}, call);
  EXPECT_NEAR(found[0], 1.5, 1e-3);
  EXPECT_NEAR(found[2], -0.5, 1e-3);
}

TEST(GpamMechanism, CombinesTwoSoftmaxes) {
  const std::vector<double> other = {1, 0, -1, 2}, positive = softmax(kRow), negative = softmax(other);
  const Call call{.tables = {{"lp", {0.3}}, {"ln", {0.2}}}, .streams = {{"t", {other}}}};
  const std::vector<double> found = last_weights(Formula::load("gpam"), kRow, call);
  for (size_t j = 0; j < kRow.size(); ++j)
    EXPECT_NEAR(found[j], 1.3 * positive[j] - 0.2 * negative[j], 1e-15);
}

TEST(GpamMechanism, MakesItsSecondQueryFromTheFirst) {
  const Formula formula = Formula::load("gpam");
  const Plan& plan = formula.plan();
  ASSERT_EQ(plan.vectors.size(), 1u);
  const HostNode& linear = *plan.vectors[0].host;
  ASSERT_EQ(linear.op, HostOp::linear);
  ASSERT_EQ(linear.args.at(0)->op, HostOp::relu);
  EXPECT_EQ(linear.args[0]->args.at(0)->op, HostOp::query);
  EXPECT_EQ(plan.streams.at(1).query_vector, 0);
  EXPECT_EQ(plan.streams.at(1).key_vector, -1);  // the same keys
  EXPECT_FALSE(plan.needs_layer_input());
}

TEST(DiffMechanism, SubtractsASecondSoftmax) {
  const std::vector<double> other = {1, 0, -1, 2}, first = softmax(kRow), second = softmax(other);
  const std::vector<double> found = last_weights(Formula::load("diff"), kRow, {.streams = {{"t", {other}}}});
  for (size_t j = 0; j < kRow.size(); ++j) EXPECT_NEAR(found[j], first[j] - 0.8 * second[j], 1e-15);
  EXPECT_NEAR(sum(found), 0.2, 1e-15);
}

TEST(DiffMechanism, CancelsWhatBothShare) {
  const Call call{.tables = {{"lam", {1}}}, .streams = {{"t", {kRow}}}};
  EXPECT_THAT(last_weights(Formula::load("diff"), kRow, call), Each(0));
}

TEST(DiffMechanism, ProjectsASecondQueryAndKey) {
  const Formula formula = Formula::load("diff");
  const Plan& plan = formula.plan();
  ASSERT_EQ(plan.vectors.size(), 2u);
  for (const VectorInfo& vector : plan.vectors) EXPECT_EQ(vector.host->op, HostOp::project) << vector.name;
  EXPECT_EQ(plan.streams.at(1).query_vector, 0);
  EXPECT_EQ(plan.streams.at(1).key_vector, 1);
  EXPECT_TRUE(plan.needs_layer_input());
}

}  // namespace
}  // namespace saccade::dense
