#include "saccade/report/axis.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace saccade {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Range range(std::vector<double> values, bool log = false) {
  Range result(log);
  result.add(values);
  return result;
}

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> result;
  for (const Tick& tick : axis.ticks()) result.push_back(tick.label);
  return result;
}

TEST(Axis, TicksAreOneTwoOrFiveTimesAPowerOfTen) {
  EXPECT_THAT(labels(Axis(range({0, 10}), {}, 5)), ElementsAre("0", "2", "4", "6", "8", "10"));
  EXPECT_THAT(labels(Axis(range({0.13, 0.57}), {}, 5)),
              ElementsAre("0.1", "0.2", "0.3", "0.4", "0.5", "0.6"));
  EXPECT_THAT(labels(Axis(range({-3, 21}), {}, 5)), ElementsAre("−5", "0", "5", "10", "15", "20"));
  EXPECT_THAT(labels(Axis(range({1, 8}), {.round_out = false}, 3)), ElementsAre("5"));
}

TEST(Axis, EndsThatAreGivenStay) {
  const Axis axis(range({0.13, 0.57}), {.low = 0.0, .high = 0.5}, 5);
  EXPECT_EQ(axis.low(), 0);
  EXPECT_EQ(axis.high(), 0.5);
  EXPECT_FALSE(axis.shows(0.57));
  EXPECT_DOUBLE_EQ(axis.place(0.25), 0.5);
}

TEST(Axis, LargeAndSmallNumbersAreShort) {
  EXPECT_THAT(labels(Axis(range({0, 40000}), {}, 4)), ElementsAre("0", "10k", "20k", "30k", "40k"));
  EXPECT_THAT(labels(Axis(range({0, 2.5e6}), {}, 5)),
              ElementsAre("0", "0.5M", "1.0M", "1.5M", "2.0M", "2.5M"));
  EXPECT_THAT(labels(Axis(range({0, 4e-6}), {}, 2)), ElementsAre("0", "2·10⁻⁶", "4·10⁻⁶"));
}

TEST(Axis, UnitsAreReadable) {
  EXPECT_THAT(labels(Axis(range({0, 3 * 1048576.0}), {.unit = Unit::bytes}, 3)),
              ElementsAre("0", "1 MiB", "2 MiB", "3 MiB"));
  EXPECT_THAT(labels(Axis(range({0, 0.004}), {.unit = Unit::seconds}, 4)),
              ElementsAre("0", "1 ms", "2 ms", "3 ms", "4 ms"));
  EXPECT_THAT(labels(Axis(range({0, 1}), {.unit = Unit::share}, 4)), ElementsAre("0", "50 %", "100 %"));
  EXPECT_THAT(labels(Axis(range({1e-5, 0.1}, true), {.unit = Unit::seconds}, 5)),
              ElementsAre("10 µs", "100 µs", "1 ms", "10 ms", "100 ms"));
  EXPECT_THAT(labels(Axis(range({1024, 65536}, true), {.unit = Unit::bytes}, 4)),
              ElementsAre("1 KiB", "4 KiB", "16 KiB", "64 KiB"));
}

TEST(Axis, GoesOutToTicksThatAreNear) {
  const Axis near(range({0.2, 9.9}), {}, 5), far(range({2.2, 21}), {}, 4);
  EXPECT_EQ(near.low(), 0);
  EXPECT_EQ(near.high(), 10);
  EXPECT_EQ(far.low(), 0);
  EXPECT_LT(far.high(), 22);
  EXPECT_GT(far.high(), 21);
}

TEST(Axis, LogarithmicTicksArePowers) {
  EXPECT_THAT(labels(Axis(range({1, 1000}, true), {}, 4)), ElementsAre("1", "10", "100", "1000"));
  EXPECT_THAT(labels(Axis(range({1e-6, 1e-3}, true), {}, 4)), ElementsAre("10⁻⁶", "10⁻⁵", "10⁻⁴", "10⁻³"));
  EXPECT_THAT(labels(Axis(range({1, 10}, true), {}, 5)), ElementsAre("1", "2", "5", "10"));
  EXPECT_THAT(labels(Axis(range({3.1, 3.4}, true), {.round_out = false}, 3)),
              ElementsAre("3.1", "3.2", "3.3", "3.4"));
  EXPECT_LE(Axis(range({1e-300, 1e300}, true), {}, 6).ticks().size(), 8u);
  EXPECT_DOUBLE_EQ(Axis(range({1, 100}, true), {}, 4).place(10), 0.5);
}

TEST(Axis, OneValueOrNoneHasRoom) {
  for (const double value : {0.0, 5.0, -1e-200, 1e300, std::numeric_limits<double>::max()}) {
    const Axis axis(range({value, value}), {}, 5);
    EXPECT_LT(axis.low(), axis.high()) << value;
    EXPECT_TRUE(axis.shows(value)) << value;
    EXPECT_TRUE(std::isfinite(axis.place(value))) << value;
    EXPECT_LE(axis.ticks().size(), 12u) << value;
  }
  for (const double value : {5e-324, 1e-300, 7.0, std::numeric_limits<double>::max()}) {
    const Axis axis(range({value}, true), {}, 5);
    EXPECT_LT(axis.low(), axis.high()) << value;
    EXPECT_TRUE(axis.shows(std::max(value, axis.low()))) << value;
  }
  EXPECT_THAT(Axis(range({}), {}, 5).ticks(), ::testing::Not(IsEmpty()));
  EXPECT_THAT(Axis(range({}, true), {}, 5).ticks(), ::testing::Not(IsEmpty()));
}

TEST(Axis, TheWholeRangeOfDoubleHasPlaces) {
  const double most = std::numeric_limits<double>::max();
  const Axis axis(range({-most, most}), {}, 5);
  EXPECT_DOUBLE_EQ(axis.place(0), 0.5);
  EXPECT_LE(axis.ticks().size(), 12u);
}

TEST(Axis, ValuesNextToEachOtherDoNotMakeEndlessTicks) {
  const double one = 1e15, next = std::nextafter(one, 2e15);
  EXPECT_LE(Axis(range({one, next}), {}, 5).ticks().size(), 12u);
}

TEST(Range, LeavesOutWhatCannotBeShown) {
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  const Range linear = range({nan, 3, -infinite, -2, infinite});
  EXPECT_EQ(linear.low(), -2);
  EXPECT_EQ(linear.high(), 3);
  const Range log = range({0, -5, 3, nan}, true);
  EXPECT_EQ(log.low(), 3);
  EXPECT_TRUE(range({nan, infinite}).empty());
}

TEST(NumberText, HasThreeDigits) {
  EXPECT_EQ(number_text(0.12345), "0.123");
  EXPECT_EQ(number_text(12.5), "12.5");
  EXPECT_EQ(number_text(1234), "1234");
  EXPECT_EQ(number_text(-0.5), "−0.5");
  EXPECT_EQ(number_text(16384), "16384");
  EXPECT_EQ(number_text(123456), "123k");
  EXPECT_EQ(number_text(1.5e-7), "1.5·10⁻⁷");
  EXPECT_EQ(number_text(0.256, Unit::share), "25.6 %");
  EXPECT_EQ(number_text(3.5 * 1048576, Unit::bytes), "3.5 MiB");
  EXPECT_EQ(number_text(std::nan("")), "none");
}

}  // namespace
}  // namespace saccade
