#include "saccade/diagnose/rank.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include "saccade/base/testing.h"

namespace saccade {
namespace {

using at::Tensor;
using ::testing::HasSubstr;

// A matrix with these singular values and random singular vectors.
Tensor with_singular_values(const std::vector<double>& values, int64_t tokens, int64_t width) {
  const auto count = static_cast<int64_t>(values.size());
  const Tensor u = std::get<0>(at::linalg_qr(torch::randn({tokens, count}, torch::kDouble)));
  const Tensor v = std::get<0>(at::linalg_qr(torch::randn({width, count}, torch::kDouble)));
  return u.matmul(torch::diag(torch::tensor(values, torch::kDouble))).matmul(v.t());
}

TEST(Rank, FollowsFromSingularValues) {
  torch::manual_seed(1);
  const RankMeasures rank = measure_rank(with_singular_values({3, 2, 1}, 7, 5).unsqueeze(0));
  EXPECT_NEAR(rank.stable_rank, 14.0 / 9, 1e-10);
  const double entropy = -(0.5 * std::log(0.5) + std::log(1.0 / 3) / 3 + std::log(1.0 / 6) / 6);
  EXPECT_NEAR(rank.effective_rank, std::exp(entropy), 1e-10);
  EXPECT_NEAR(rank.rank_one_residual, std::sqrt(5.0 / 14), 1e-10);
}

TEST(Rank, EqualDirectionsCountFully) {
  const RankMeasures rank = measure_rank(torch::eye(6, torch::kDouble).unsqueeze(0));
  EXPECT_NEAR(rank.stable_rank, 6, 1e-12);
  EXPECT_NEAR(rank.effective_rank, 6, 1e-12);
  EXPECT_NEAR(rank.centred_stable_rank, 5, 1e-12);  // taking the mean away takes one direction
  EXPECT_NEAR(rank.centred_effective_rank, 5, 1e-10);
  EXPECT_NEAR(rank.cosine, 0, 1e-12);
  EXPECT_NEAR(rank.token_norm, 1, 1e-12);
  EXPECT_NEAR(rank.longest_share, 1.0 / 6, 1e-12);
}

TEST(Rank, EqualTokensHaveCollapsed) {
  const RankMeasures rank = measure_rank(torch::tensor({1.0, -2.0, 0.5}).expand({2, 5, 3}));
  EXPECT_NEAR(rank.stable_rank, 1, 1e-12);
  EXPECT_NEAR(rank.effective_rank, 1, 1e-5);
  EXPECT_NEAR(rank.mean_residual, 0, 1e-12);
  EXPECT_NEAR(rank.cosine, 1, 1e-12);
  EXPECT_TRUE(std::isnan(rank.centred_stable_rank));  // there is nothing left
}

TEST(Rank, TokensOnOneLineDifferFromTheirMean) {
  const Tensor direction = torch::tensor({0.6, 0.8}, torch::kDouble);
  const Tensor x = torch::tensor({1.0, -1.0, 3.0}, torch::kDouble).unsqueeze(1) * direction;
  const RankMeasures rank = measure_rank(x.unsqueeze(0));
  EXPECT_NEAR(rank.rank_one_residual, 0, 1e-10);
  EXPECT_NEAR(rank.mean_residual, std::sqrt(8.0 / 11), 1e-12);  // the mean is 1, the squares 1 + 1 + 9
  EXPECT_NEAR(rank.cosine, -1.0 / 3, 1e-12);
  EXPECT_NEAR(rank.longest_share, 9.0 / 11, 1e-12);
}

TEST(Rank, CosineIsThatOfAllPairs) {
  torch::manual_seed(2);
  const Tensor x = torch::randn({3, 9, 4}) + 0.5;
  double sum = 0;
  for (int64_t sequence = 0; sequence < 3; ++sequence)
    for (int64_t i = 0; i < 9; ++i)
      for (int64_t j = 0; j < 9; ++j)
        if (i != j)
          sum += (x[sequence][i].dot(x[sequence][j]) / x[sequence][i].norm() / x[sequence][j].norm())
                     .item<double>();
  EXPECT_NEAR(measure_rank(x).cosine, sum / (3 * 9 * 8), 1e-6);
}

TEST(Rank, OneTokenAndNothingAreNotDefinedEverywhere) {
  const RankMeasures one = measure_rank(torch::ones({1, 1, 4}));
  EXPECT_NEAR(one.stable_rank, 1, 1e-12);
  EXPECT_TRUE(std::isnan(one.cosine));
  EXPECT_NEAR(one.mean_residual, 0, 1e-12);
  const RankMeasures nothing = measure_rank(torch::zeros({1, 3, 4}));
  EXPECT_TRUE(std::isnan(nothing.stable_rank) && std::isnan(nothing.effective_rank) &&
              std::isnan(nothing.cosine));
  const RankMeasures broken = measure_rank(torch::full({1, 3, 4}, std::nan("")));
  EXPECT_TRUE(std::isnan(broken.stable_rank) && std::isnan(broken.token_norm));
  EXPECT_THAT(message_of([] { measure_rank(torch::zeros({3, 4})); }), HasSubstr("shape [3, 4]"));
}

}  // namespace
}  // namespace saccade
