#include "saccade/diagnose/weights.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <numeric>

#include "saccade/attention/attention.h"
#include "saccade/base/testing.h"

namespace saccade {
namespace {

using at::Tensor;
using ::testing::HasSubstr;

Tensor uniform(int64_t tokens) {
  const Tensor map = torch::ones({tokens, tokens}, torch::kDouble).tril();
  return (map / map.sum(-1, true)).expand({1, 1, tokens, tokens});
}

int64_t sum(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

TEST(Weights, EqualSharesHaveTheLogarithmOfTheKeysAsEntropy) {
  const WeightMeasures measures = measure_weights(uniform(6), 1);
  ASSERT_EQ(measures.heads.size(), 1u);
  const HeadWeights& head = measures.heads[0];
  double entropy = 0, distance = 0, first = 0;
  for (int i = 0; i < 6; ++i) {
    entropy += std::log(i + 1) / 6;
    distance += i / 2.0 / 6;
    first += 1.0 / (i + 1) / 6;
  }
  EXPECT_TRUE(measures.causal);
  EXPECT_EQ(measures.rows, 6);
  EXPECT_NEAR(head.entropy, entropy, 1e-12);
  EXPECT_NEAR(head.entropy_share, 1, 1e-12);
  EXPECT_NEAR(head.distance, distance, 1e-12);
  EXPECT_NEAR(head.first_token, first, 1e-12);
  EXPECT_NEAR(head.peak, first, 1e-12);
  EXPECT_EQ(head.negative_mass, 0);
  EXPECT_EQ(head.zeros, 0);
  EXPECT_NEAR(head.lowest_row_sum, 1, 1e-12);
  EXPECT_EQ(sum(head.positive), 21);  // pairs of a triangle
}

TEST(Weights, FirstRowsAreLeftOut) {
  const WeightMeasures measures = measure_weights(uniform(4), 3);
  EXPECT_EQ(measures.rows, 2);
  EXPECT_NEAR(measures.heads[0].entropy, (std::log(3) + std::log(4)) / 2, 1e-12);
  EXPECT_EQ(sum(measures.heads[0].positive), 7);
}

TEST(Weights, WithoutARowNothingIsDefined) {
  const WeightMeasures measures = measure_weights(uniform(1), 2);
  EXPECT_EQ(measures.rows, 0);
  EXPECT_TRUE(std::isnan(measures.heads[0].entropy));
  EXPECT_TRUE(std::isnan(measures.heads[0].row_sum));
  EXPECT_TRUE(std::isnan(measures.heads[0].lowest_row_sum));
}

TEST(Weights, SignsAreSeen) {
  const Tensor map = torch::tensor({{1.0, 0.0}, {-0.5, 1.5}}, torch::kDouble).view({1, 1, 2, 2});
  const HeadWeights head = measure_weights(map, 2).heads[0];
  EXPECT_NEAR(head.negative_mass, 0.25, 1e-12);
  EXPECT_NEAR(head.row_sum, 1, 1e-12);
  EXPECT_NEAR(head.first_token, 0.25, 1e-12);  // of the sizes
  EXPECT_NEAR(head.distance, 0.25, 1e-12);
  EXPECT_NEAR(head.entropy, -(0.25 * std::log(0.25) + 0.75 * std::log(0.75)), 1e-12);
  EXPECT_EQ(sum(head.negative), 1);
  EXPECT_EQ(sum(head.positive), 1);
  EXPECT_EQ(head.positive.back(), 1);  // 1.5 is above the last edge
}

TEST(Weights, BinsAreHalvesOfPowersOfTen) {
  const std::vector<double> edges = histogram_edges();
  const Tensor map = torch::zeros({1, 1, 8, 8}, torch::kDouble);
  const double values[] = {1e-9, 2e-6, 2e-4, 0.2, 0.5, 1};
  for (int64_t j = 0; j < 6; ++j) map[0][0][7][j] = values[j];
  const std::vector<int64_t> counts = measure_weights(map, 8).heads[0].positive;
  ASSERT_EQ(counts.size(), edges.size() + 1);
  for (const double value : values) {
    const auto bin = static_cast<size_t>(std::ranges::upper_bound(edges, value) - edges.begin());
    EXPECT_EQ(counts[bin], value >= 0.4 ? 2 : 1) << value;
  }
  EXPECT_EQ(counts.back(), 0);
  EXPECT_NEAR(measure_weights(map, 8).heads[0].zeros, 2.0 / 8, 1e-12);
}

TEST(Weights, RowsWithoutWeightAreCountedAndNotMeasured) {
  const Tensor map = torch::tensor({{0.0, 0.0}, {0.5, 0.5}}, torch::kDouble).view({1, 1, 2, 2});
  const HeadWeights head = measure_weights(map, 1).heads[0];
  EXPECT_NEAR(head.empty_rows, 0.5, 1e-12);
  EXPECT_NEAR(head.entropy, std::log(2), 1e-12);
  EXPECT_NEAR(head.row_sum, 0.5, 1e-12);
  const HeadWeights broken = measure_weights(torch::full({1, 1, 2, 2}, std::nan("")), 1).heads[0];
  EXPECT_TRUE(std::isnan(broken.entropy) && std::isnan(broken.row_sum));
}

TEST(Weights, OfEncodersReachForwards) {
  const WeightMeasures measures = measure_weights(torch::full({2, 3, 4, 4}, 0.25), 2);
  EXPECT_FALSE(measures.causal);
  EXPECT_EQ(measures.rows, 6);
  ASSERT_EQ(measures.heads.size(), 3u);
  EXPECT_NEAR(measures.heads[2].entropy, std::log(4), 1e-6);
  EXPECT_NEAR(measures.heads[2].entropy_share, 1, 1e-6);
}

// Formulas with known weights: without content, all scores are equal.
WeightMeasures of_formula(const char* name, int64_t tokens,
                          const std::function<void(Attention&)>& change = {}) {
  const torch::NoGradGuard no_gradient;
  Attention attention(Formula::load(name), AttentionOptions{.heads = 2, .head_dim = 4, .model_dim = 8});
  if (change) change(attention);
  const Tensor zero = torch::zeros({1, 2, tokens, 4});
  return measure_weights(
      attention->run(zero, zero, zero, {.x = torch::zeros({1, tokens, 8}), .need_weights = true}).weights, 2);
}

TEST(Weights, OfGpamSumToWhatItsParametersSay) {
  const WeightMeasures measures = of_formula("gpam", 9, [](Attention& attention) {
    attention->named_parameters()["lp"].copy_(torch::tensor({0.3, 0.5}));
    attention->named_parameters()["ln"].copy_(torch::tensor({0.1, 0.9}));
  });
  // Both softmaxes are equal here: the weights are (1 + lp - ln) times equal shares.
  EXPECT_NEAR(measures.heads[0].row_sum, 1.2, 1e-5);
  EXPECT_NEAR(measures.heads[1].lowest_row_sum, 0.6, 1e-5);
  EXPECT_NEAR(measures.heads[1].highest_row_sum, 0.6, 1e-5);
  EXPECT_EQ(measures.heads[0].negative_mass, 0);
}

TEST(Weights, OfGpamAreNegativeWhereTheSecondSoftmaxLooks) {
  const torch::NoGradGuard no_gradient;
  Attention attention(Formula::load("gpam"), AttentionOptions{.heads = 1, .head_dim = 1});
  const auto parameters = attention->named_parameters();
  parameters["lp"].fill_(0.5);
  parameters["ln"].fill_(0.75);
  for (const auto& item : parameters)
    if (item.key() != "lp" && item.key() != "ln") item.value().fill_(-1);  // the second query is -relu(q)
  // Scores are +-40: the first softmax is all at the first key, the second all at the other.
  const Tensor query = torch::full({1, 1, 2, 1}, 40.0), key = torch::tensor({1.0, -1.0}).view({1, 1, 2, 1});
  const HeadWeights head =
      measure_weights(attention->run(query, key, key, {.need_weights = true}).weights, 2).heads[0];
  EXPECT_NEAR(head.row_sum, 0.75, 1e-5);
  EXPECT_NEAR(head.negative_mass, 0.75 / 2.25, 1e-5);
  EXPECT_NEAR(head.first_token, 1.5 / 2.25, 1e-5);
}

TEST(Weights, OfAWindowStayInIt) {
  const WeightMeasures measures = of_formula("last10", 30);
  double distance = 0, zeros = 0, pairs = 0;
  for (int i = 1; i < 30; ++i) {
    const int seen = std::min(i + 1, 10);
    distance += (seen - 1) / 2.0 / 29;
    zeros += i + 1 - seen;
    pairs += i + 1;
  }
  EXPECT_NEAR(measures.heads[0].distance, distance, 1e-5);
  EXPECT_NEAR(measures.heads[0].zeros, zeros / pairs, 1e-6);
}

TEST(Weights, RefuseWhatIsNoMap) {
  EXPECT_THAT(message_of([] {
                measure_weights(torch::zeros({1, 2, 3, 4}), 2);
              }),
              HasSubstr("shape [1, 2, 3, 4]"));
  EXPECT_THAT(message_of([] {
                measure_weights(torch::zeros({1, 2, 3, 3}), 0);
              }),
              HasSubstr("at least 0 keys"));
}

}  // namespace
}  // namespace saccade
