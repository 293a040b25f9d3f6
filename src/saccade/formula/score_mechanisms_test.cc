// The shipped score modifications, held to the numbers of their publications.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "saccade/formula/dense_map_testing.h"

namespace saccade::dense {
namespace {

using testing::DoubleEq;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

// What a mechanism adds to scores of 0 in the last of n rows, from d = n - 1 down to 0.
std::vector<double> last_bias(const Formula& formula, int64_t n, Call call = {}) {
  call.shape = last_row(n);
  return score(formula, call)[0];
}

std::vector<double> bias_at_distance_one(const Formula& formula, int64_t heads) {
  std::vector<double> result;
  for (int64_t head = 0; head < heads; ++head)
    result.push_back(last_bias(formula, 2, {.head = head, .heads = heads})[0]);
  return result;
}

TEST(AlibiMechanism, HasThePublishedSlopesOfEightHeads) {
  EXPECT_THAT(
      bias_at_distance_one(Formula::load("alibi"), 8),
      ElementsAre(-1.0 / 2, -1.0 / 4, -1.0 / 8, -1.0 / 16, -1.0 / 32, -1.0 / 64, -1.0 / 128, -1.0 / 256));
}

TEST(AlibiMechanism, HasThePublishedSlopesOfSixteenHeads) {
  const std::vector<double> slopes = bias_at_distance_one(Formula::load("alibi"), 16);
  for (size_t head = 0; head < 16; ++head)
    EXPECT_NEAR(slopes[head], -std::pow(2.0, -0.5 * static_cast<double>(head + 1)), 1e-15) << "head " << head;
}

TEST(AlibiMechanism, IsLinearInTheDistance) {
  EXPECT_THAT(last_bias(Formula::load("alibi"), 5, {.head = 1, .heads = 8}),
              ElementsAre(-1, -0.75, -0.5, -0.25, 0));
}

TEST(PriorMechanism, StartsAsMinusTheDistance) {
  EXPECT_THAT(last_bias(Formula::load("prior"), 5), ElementsAre(-4, -3, -2, -1, 0));
}

TEST(PriorMechanism, IsAPowerOfTheScaledDistance) {
  const Call call{.tables = {{"alpha", {-0.5}}, {"beta", {2}}}};
  EXPECT_THAT(last_bias(Formula::load("prior"), 5, call), ElementsAre(-4, -2.25, -1, -0.25, 0));
}

TEST(PriorMechanism, KeepsItsExponentWithinBounds) {
  const Formula formula = Formula::load("prior");
  const Plan& plan = formula.plan();
  const TableInfo& beta = plan.tables.at(static_cast<size_t>(plan.table_index("beta")));
  EXPECT_EQ(beta.low, 0.01);
  EXPECT_EQ(beta.high, 4);
}

TEST(KerplePowerMechanism, IsAScaledPower) {
  const Call call{.tables = {{"a", {0.5}}, {"p", {2}}}};
  EXPECT_THAT(last_bias(Formula::load("kerple_power"), 4, call), ElementsAre(-4.5, -2, -0.5, 0));
}

TEST(KerplePowerMechanism, KeepsItsParamsPositiveAndThePowerAtMostTwo) {
  const Formula formula = Formula::load("kerple_power");
  const Plan& plan = formula.plan();
  for (const TableInfo& table : plan.tables) EXPECT_GT(table.low, 0) << table.name;
  EXPECT_EQ(plan.tables.at(static_cast<size_t>(plan.table_index("p"))).high, 2);
}

TEST(KerplePowerMechanism, StartsWithSlopesSpreadOverTheHeads) {
  EXPECT_THAT(bias_at_distance_one(Formula::load("kerple_power"), 4), ElementsAre(-0.25, -0.5, -0.75, -1));
}

TEST(KerpleLogMechanism, IsAScaledLogarithm) {
  const Call call{.tables = {{"a", {0.5}}, {"p", {3}}}};
  EXPECT_THAT(last_bias(Formula::load("kerple_log"), 4, call),
              Pointwise(DoubleEq(), {-3 * std::log(2.5), -3 * std::log(2.0), -3 * std::log(1.5), 0.0}));
}

TEST(KerpleLogMechanism, KeepsItsParamsPositive) {
  const Formula formula = Formula::load("kerple_log");
  for (const TableInfo& table : formula.plan().tables) EXPECT_GT(table.low, 0) << table.name;
}

TEST(ApeMechanism, EqualsThePublishedExample) {
  const double published[5][5] = {{.10, .08, .06, .04, .02},
                                  {.08, .10, .08, .06, .04},
                                  {.06, .08, .10, .08, .06},
                                  {.04, .06, .08, .10, .08},
                                  {.02, .04, .06, .08, .10}};
  const Matrix found = score(Formula::load("ape"), {.shape = square(5)});
  for (size_t i = 0; i < 5; ++i)
    for (size_t j = 0; j < 5; ++j) EXPECT_NEAR(found[i][j], published[i][j], 1e-15) << i << ", " << j;
}

TEST(ApeMechanism, DecodesOnlyWithAPinnedLength) {
  const std::vector<double> whole = score(Formula::load("ape"), {.shape = square(8)})[4];
  const std::vector<double> prefix(whole.begin(), whole.begin() + 5);
  EXPECT_NE(last_bias(Formula::load("ape"), 5), prefix);
  const Formula pinned = Formula::load("ape", {{"n", 8}});
  EXPECT_EQ(last_bias(pinned, 5), prefix);
  EXPECT_TRUE(pinned.plan().decoding.possible);
}

// The bucket of each distance 0..200, from `transformers` 5.22.2, T5Attention._relative_position_bucket with
// bidirectional=False, num_buckets=32 and max_distance=128: 0..15 once each, then so many of 16, 17, ... 31.
std::vector<double> published_t5_buckets() {
  std::vector<double> buckets;
  for (int bucket = 0; bucket < 16; ++bucket) buckets.push_back(bucket);
  int bucket = 16;
  for (int run : {3, 2, 3, 3, 4, 4, 5, 6, 6, 7, 8, 10, 10, 12, 14, 88})
    buckets.insert(buckets.end(), static_cast<size_t>(run), bucket++);
  return buckets;
}

Call t5_call(MapShape shape) {
  std::vector<double> numbers;
  for (int bucket = 0; bucket < 32; ++bucket) numbers.push_back(bucket);
  return {.shape = shape, .tables = {{"b", numbers}}};
}

TEST(T5Mechanism, HasTheBucketsOfTransformers) {
  std::vector<double> found = score(Formula::load("t5"), t5_call(last_row(201)))[0];
  std::ranges::reverse(found);
  EXPECT_EQ(found, published_t5_buckets());
}

TEST(T5Mechanism, HasTheSameBucketsInSinglePrecision) {
  const Formula formula = Formula::load("t5");
  const Plan& plan = formula.plan();
  std::vector<double> found = evaluate<float>(plan, {plan.score}, t5_call(last_row(201)))[0][0];
  std::ranges::reverse(found);
  EXPECT_EQ(found, published_t5_buckets());
}

TEST(T5Mechanism, PutsFutureKeysIntoBucketZero) {
  EXPECT_THAT(score(Formula::load("t5"), t5_call(square(6)))[0], testing::Each(0));
}

TEST(T5Mechanism, StartsWithoutABias) { EXPECT_THAT(last_bias(Formula::load("t5"), 40), testing::Each(0)); }

TEST(RelTableMechanism, HasDistanceZeroInTheCentre) {
  // m = 3: five entries, for d = -2 .. 2.
  const Matrix found =
      score(Formula::load("rel_table"), {.shape = square(3), .tables = {{"b", {-20, -10, 0, 1, 2}}}});
  EXPECT_THAT(found[0], ElementsAre(0, -10, -20));
  EXPECT_THAT(found[1], ElementsAre(1, 0, -10));
  EXPECT_THAT(found[2], ElementsAre(2, 1, 0));
}

TEST(RelTableMechanism, TakesTheLastEntryBeyondTheTable) {
  EXPECT_THAT(last_bias(Formula::load("rel_table"), 5, {.tables = {{"b", {-10, 0, 1}}}}),
              ElementsAre(1, 1, 1, 1, 0));
}

TEST(SoftcapMechanism, IsBoundedByItsCap) {
  const Matrix given{{-1e6, -60, 0, 60, 1e6}};
  const std::vector<double> found =
      score(Formula::load("softcap"), {.shape = last_row(5), .streams = {{"s", given}}})[0];
  EXPECT_THAT(found, ElementsAre(-50, DoubleNear(-50 * std::tanh(1.2), 1e-12), 0,
                                 DoubleNear(50 * std::tanh(1.2), 1e-12), 50));
}

TEST(SoftcapMechanism, LeavesSmallScoresAlone) {
  const std::vector<double> found =
      score(Formula::load("softcap"), {.shape = last_row(2), .streams = {{"s", {{-0.5, 0.5}}}}})[0];
  EXPECT_THAT(found, ElementsAre(DoubleNear(-0.5, 2e-5), DoubleNear(0.5, 2e-5)));
}

TEST(LognMechanism, ScalesOnlyBeyondTheTrainedLength) {
  const Matrix ones = matrix(2048, 1, [](int64_t, int64_t) { return 1; });
  const Matrix found =
      score(Formula::load("logn"), {.shape = {.queries = 2048, .keys = 1}, .streams = {{"s", ones}}});
  for (size_t i = 0; i < 512; ++i) EXPECT_EQ(found[i][0], 1) << "query " << i;
  for (size_t i = 512; i < 2048; ++i)
    EXPECT_NEAR(found[i][0], std::log(static_cast<double>(i) + 1) / std::log(512.0), 1e-12) << "query " << i;
  EXPECT_NEAR(found[2047][0], 11.0 / 9, 1e-12);  // log2(2048) / log2(512)
}

TEST(FoxMechanism, DecaysByTheProductOfTheGatesBetween) {
  const std::vector<double> gates = {0.9, 0.5, 0.8, 0.25, 0.6};
  std::vector<double> running;
  for (double gate : gates) running.push_back((running.empty() ? 0 : running.back()) + std::log(gate));
  const Matrix found = score(Formula::load("fox"), {.shape = square(5), .tables = {{"F", running}}});
  for (size_t i = 0; i < 5; ++i) {
    double product = 1;
    for (size_t j = i + 1; j-- > 0;) {  // the gate of the key itself does not count
      EXPECT_NEAR(std::exp(found[i][j]), product, 1e-14) << i << ", " << j;
      product *= gates[j];
    }
  }
}

TEST(FoxMechanism, ComputesItsGatesFromTheLayersInput) {
  const Formula formula = Formula::load("fox");
  const Plan& plan = formula.plan();
  EXPECT_TRUE(plan.needs_layer_input());
  const HostNode& sum = *plan.tables.at(0).host;
  ASSERT_EQ(sum.op, HostOp::cumsum);
  ASSERT_EQ(sum.args.at(0)->op, HostOp::logsigmoid);
  EXPECT_EQ(sum.args[0]->args.at(0)->op, HostOp::project);
}

}  // namespace
}  // namespace saccade::dense
