#include "saccade/train/spread.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace saccade::spread_test {
namespace {

TEST(Spread, IsThatOfASample) {
  const Spread spread = spread_of(std::vector<double>{1, 2, 4});
  EXPECT_NEAR(spread.mean, 7.0 / 3, 1e-12);
  EXPECT_NEAR(spread.deviation, 1.5275252316519468, 1e-12);
  EXPECT_EQ(spread_of(std::vector<double>{5}).deviation, 0);
}

TEST(PairedTest, GivesStudentsProbabilities) {
  // With two pairs t has a Cauchy distribution, with three p = 1 - |t| / root(t^2 + 2).
  const std::vector<double> zero{0, 0}, two{1, 3};  // mean 2, deviation root 2, t = 2
  EXPECT_NEAR(paired_p_value(two, zero), 1 - 2 / M_PI * std::atan(2.0), 1e-10);
  const std::vector<double> none{0, 0, 0}, three{1, 2, 6};
  const double mean = 3, deviation = std::sqrt(7.0), t = mean / (deviation / std::sqrt(3.0));
  EXPECT_NEAR(paired_p_value(three, none), 1 - t / std::sqrt(t * t + 2), 1e-10);
  EXPECT_NEAR(paired_p_value(none, three), paired_p_value(three, none), 1e-15);
  // t = 2.776445 is the well-known 5 % point for 4 degrees of freedom.
  std::vector<double> five{-1, 0, 0, 0, 1};
  const double wanted = 2.776445105, unit = spread_of(five).deviation / std::sqrt(5.0);
  for (double& value : five) value += wanted * unit;
  EXPECT_NEAR(paired_p_value(five, std::vector<double>(5, 0.0)), 0.05, 1e-8);
}

TEST(PairedTest, HasEnds) {
  EXPECT_TRUE(std::isnan(paired_p_value(std::vector<double>{1}, std::vector<double>{2})));
  EXPECT_EQ(paired_p_value(std::vector<double>{1, 2}, std::vector<double>{1, 2}), 1);
  EXPECT_EQ(paired_p_value(std::vector<double>{2, 3}, std::vector<double>{1, 2}), 0);
}

}  // namespace
}  // namespace saccade::spread_test
