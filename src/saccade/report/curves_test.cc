#include "saccade/report/curves.h"

#include <gmock/gmock.h>

#include <cmath>

namespace saccade {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

TEST(Curves, MeanAndDeviationLeaveOutWhatIsNotKnown) {
  const double values[] = {1, 3, NAN};
  EXPECT_EQ(mean_and_deviation(values).mean, 2);
  EXPECT_DOUBLE_EQ(mean_and_deviation(values).deviation, std::sqrt(2.0));
  EXPECT_EQ(mean_and_deviation(std::span(values, 1)).deviation, 0);
  EXPECT_TRUE(std::isnan(mean_and_deviation({}).mean));
}

TEST(Curves, AreReadByStepAndOfAStepThatComesTwiceTheLater) {
  const std::vector<Json> lines = {{{"step", 1}, {"a", {{"b", 5.0}}}},
                                   {{"step", 2}},
                                   {{"step", 3}, {"a", {{"b", nullptr}}}},
                                   {{"step", 1}, {"a", {{"b", 7.0}}}},
                                   "no object"};
  EXPECT_THAT(curve_of(lines, "/a/b"), ElementsAre(std::pair<const std::int64_t, double>(1, 7.0)));
}

TEST(Curves, LongOnesBecomeMeansOfNeighbours) {
  Curve curve;
  for (int step = 1; step <= 10; ++step) curve[step] = step;
  std::int64_t window = 0;
  EXPECT_EQ(thinned(curve, 10, window), curve);
  EXPECT_EQ(window, 1);
  const Curve short_one = thinned(curve, 4, window);
  EXPECT_EQ(window, 3);
  EXPECT_EQ(short_one, (Curve{{3, 2}, {6, 5}, {9, 8}, {10, 10}}));
}

TEST(Curves, SeveralBecomeAMeanWithABand) {
  const Curve curves[] = {{{1, 2}, {2, 4}}, {{1, 4}}};
  const Series both = mean_curve("x", curves);
  EXPECT_THAT(both.x, ElementsAre(1, 2));
  EXPECT_THAT(both.y, ElementsAre(3, 4));
  EXPECT_THAT(both.low, ElementsAre(DoubleNear(3 - std::sqrt(2.0), 1e-12), 4));
  EXPECT_THAT(both.high, ElementsAre(DoubleNear(3 + std::sqrt(2.0), 1e-12), 4));
  EXPECT_TRUE(mean_curve("x", std::span(curves, 1)).low.empty());
}

}  // namespace
}  // namespace saccade
