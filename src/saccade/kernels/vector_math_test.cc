// The vector code of every operation against its scalar definition, in every lane, and the exponential of the
// norms against the library's.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "saccade/base/random.h"
#include "saccade/kernels/primitives.h"

namespace saccade::kernels {
namespace {

template <class Real>
class VectorMath : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(VectorMath, Reals);

// How many steps it is from one number to another, of which 0 and -0 are one; all NaNs are equal.
template <class Real>
int64_t ulps(Real a, Real b) {
  using Bits = std::conditional_t<sizeof(Real) == 4, int32_t, int64_t>;
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : INT64_MAX;
  const auto order = [](Real x) -> int64_t {
    const auto bits = std::bit_cast<Bits>(x);
    return bits < 0 ? static_cast<int64_t>(std::numeric_limits<Bits>::min()) - bits : bits;
  };
  const int64_t first = order(a), second = order(b);
  if (std::isinf(a) != std::isinf(b)) return INT64_MAX;
  return first > second ? first - second : second - first;
}

// What the vector routine may be off; the others are arithmetic that is the same everywhere.
int64_t allowed_ulps(Op op, bool single) {
  if (!single) return 0;
  switch (op) {
    case Op::power:
    case Op::exp:
      return 2;
    case Op::log:
    case Op::log1p:
    case Op::sin:
    case Op::cos:
    case Op::sigmoid:
      return 4;
    case Op::tanh:
      return 5;
    default:
      return 0;
  }
}

template <class Real>
std::vector<Real> awkward_numbers() {
  using Limits = std::numeric_limits<Real>;
  std::vector<Real> result{Limits::quiet_NaN(), 0};
  for (Real x : {Limits::infinity(),
                 Limits::max(),
                 Limits::min(),
                 Limits::denorm_min(),
                 Limits::epsilon(),
                 Limits::min() / 2,
                 Real(1),
                 Real(2),
                 Real(3),
                 Real(0.5),
                 Real(1.5),
                 Real(1e-10),
                 Real(0.3),
                 Real(79.9),
                 Real(86.9),
                 Real(87.5),
                 Real(88.1),
                 Real(89),
                 Real(104),
                 Real(709),
                 Real(746),
                 Real(40.5),
                 Real(1000),
                 Real(1001),
                 Real(16777216),
                 Real(1e6),
                 Real(1.5e6),
                 Real(1e30),
                 Real(3.14159265358979)}) {
    result.push_back(x);
    result.push_back(-x);
  }
  result.push_back(Real(-0.0));
  return result;
}

// Runs a strip of two rows in which every operand is an array or one vector all along.
template <class Real>
std::vector<Real> run(Op op, const std::vector<Real> (&operands)[3], bool repeat_last) {
  const Primitives<Real>& code = primitives<Real>();
  const auto width = static_cast<int64_t>(operands[0].size());
  std::array<std::array<const Real*, 2>, 3> rows;
  for (size_t index = 0; index < 3; ++index) rows[index] = {operands[index].data(), operands[index].data()};
  const auto arity = static_cast<size_t>(operation(op).arity);
  std::array<View<Real>, 3> views;
  for (size_t index = 0; index < arity; ++index)
    views[index] = {rows[index].data(), repeat_last && index == arity - 1 ? 0 : 1};
  std::vector<Real> out(static_cast<size_t>(2 * width));
  for (const Range columns : {Range{0, code.lanes}, Range{code.lanes, width}})
    code.apply[static_cast<size_t>(op)](
        {views[0], views[1], views[2], out.data(), width, 2, columns.begin, columns.end});
  return out;
}

template <class Real>
void check(Op op, const std::vector<Real> (&operands)[3], bool repeat_last) {
  const auto lanes = static_cast<size_t>(primitives<Real>().lanes), width = operands[0].size();
  const std::vector<Real> got = run(op, operands, repeat_last);
  for (size_t at = 0; at < got.size(); ++at) {
    Real x[3] = {operands[0][at % width], operands[1][at % width], operands[2][at % width]};
    const auto last = static_cast<size_t>(operation(op).arity) - 1;
    if (repeat_last) x[last] = operands[last][at % width % lanes];
    const Real want =
        dispatch(op, [&]<Op chosen>() { return static_cast<Real>(apply<chosen>(x[0], x[1], x[2])); });
    ASSERT_LE(ulps(got[at], want), allowed_ulps(op, sizeof(Real) == 4))
        << operation(op).name << "(" << x[0] << ", " << x[1] << ", " << x[2] << ") is " << got[at]
        << " and should be " << want << ", lane " << at % lanes << " of " << target_name();
  }
}

TYPED_TEST(VectorMath, AwkwardOperandsInEveryLane) {
  const std::vector<TypeParam> numbers = awkward_numbers<TypeParam>();
  const auto lanes = static_cast<size_t>(primitives<TypeParam>().lanes);
  for (const Operation& row : operations()) {
    for (size_t first = 0; first < numbers.size(); ++first)
      for (size_t second = 0; second < (row.arity > 1 ? numbers.size() : 1); ++second) {
        // Among numbers that every routine likes, and one place further each time.
        std::vector<TypeParam> operands[3] = {std::vector<TypeParam>(2 * lanes, 0.7F),
                                              std::vector<TypeParam>(2 * lanes, 1.3F),
                                              std::vector<TypeParam>(2 * lanes, 2.1F)};
        for (size_t lane = 0; lane < (row.arity > 1 ? 1 : lanes); ++lane) {
          const size_t place = (first + second + lane) % lanes;
          operands[0][place] = numbers[first];
          operands[1][place] = numbers[second];
          operands[2][place] = numbers[(first + 3 * second) % numbers.size()];
          for (bool repeat : {false, true}) ASSERT_NO_FATAL_FAILURE(check(row.op, operands, repeat));
          operands[0][place] = 0.7F;
        }
      }
  }
}

TYPED_TEST(VectorMath, OrdinaryOperands) {
  RandomStream random(1, "ordinary operands");
  const auto lanes = static_cast<size_t>(primitives<TypeParam>().lanes);
  for (const Operation& row : operations())
    for (double size : {0.01, 1.0, 30.0, 900.0}) {
      std::vector<TypeParam> operands[3];
      for (auto& operand : operands)
        while (operand.size() < 64 * lanes) {
          const double number = random.normal() * size;
          operand.push_back(static_cast<TypeParam>(random.below(2) ? number : std::round(number)));
        }
      ASSERT_NO_FATAL_FAILURE(check(row.op, operands, false));
      for (TypeParam& x : operands[0]) x = std::fabs(x);
      ASSERT_NO_FATAL_FAILURE(check(row.op, operands, false));
      operands[1].assign(operands[1].size(), 2);  // a power of 2 has its own way
      ASSERT_NO_FATAL_FAILURE(check(row.op, operands, true));
    }
}

// One row of a norm in a tile of its own, with as much before and after it as a tile has.
template <class Real>
struct Row {
  explicit Row(const std::vector<Real>& numbers) : tile(static_cast<size_t>(kTileStride), Real{7}) {
    std::copy(numbers.begin(), numbers.end(), x());
  }
  Real* x() { return tile.data() + kTileMargin; }
  NormTask<Real> task(int64_t begin, int64_t end) { return {x(), 1, begin, end, &maximum, &sum, &factor}; }

  std::vector<Real> tile;
  Real maximum = -std::numeric_limits<Real>::infinity(), sum = 0, factor = -1;
};

TYPED_TEST(VectorMath, SoftmaxIsTheExponentialOfTheDifference) {
  using Real = TypeParam;
  const Primitives<Real>& code = primitives<Real>();
  const double tolerance = sizeof(Real) == 4 ? 4e-7 : 1e-15;
  RandomStream random(1, "softmax");
  for (double size : {0.1, 3.0, 40.0, 200.0})
    for (int64_t width = code.lanes; width <= kTileKeys; width += code.lanes) {
      std::vector<Real> x;
      while (std::ssize(x) < width) x.push_back(static_cast<Real>(random.normal() * size));
      if (width % 3 == 0) x[x.size() / 2] = -std::numeric_limits<Real>::infinity();
      Row<Real> row(x);
      // In two parts, as blocks of keys come.
      const int64_t middle = width / (2 * code.panel) * code.panel;
      std::vector<double> scale(x.size(), 1.0);
      if (middle > 0) {
        code.softmax(row.task(0, middle));
        const Real before = row.maximum;
        code.softmax(row.task(middle, width));
        EXPECT_NEAR(static_cast<double>(row.factor), std::exp(static_cast<double>(before - row.maximum)),
                    tolerance);
        std::fill_n(scale.begin(), middle, static_cast<double>(row.factor));
      } else {
        code.softmax(row.task(0, width));
        EXPECT_EQ(row.factor, 0);
      }
      EXPECT_EQ(row.maximum, *std::max_element(x.begin(), x.end()));
      double sum = 0;
      for (size_t k = 0; k < x.size(); ++k) {
        const double want = std::exp(static_cast<double>(x[k]) - static_cast<double>(row.maximum));
        sum += want;
        if (want == 0) {
          EXPECT_EQ(static_cast<double>(row.x()[k]) * scale[k], 0);
          continue;
        }
        const double size_of_difference = std::fabs(static_cast<double>(x[k] - row.maximum));
        EXPECT_NEAR(static_cast<double>(row.x()[k]) * scale[k], want,
                    tolerance * want * (1 + size_of_difference / 2) + (sizeof(Real) == 4 ? 1.2e-38 : 1e-307));
      }
      EXPECT_NEAR(static_cast<double>(row.sum), sum, 4 * tolerance * sum);
      EXPECT_EQ(row.x()[-1], 7);
      EXPECT_EQ(row.x()[width], 7);
    }
}

// Weights far below the largest are as exact as the logarithm's rounding lets them be.
TYPED_TEST(VectorMath, SmallWeightsAreExact) {
  using Real = TypeParam;
  const Primitives<Real>& code = primitives<Real>();
  const double rounding = std::numeric_limits<Real>::epsilon();
  for (int64_t first = 0; first < 8000; first += kTileKeys) {
    std::vector<Real> x;
    for (int64_t k = 0; k < kTileKeys; ++k)
      x.push_back(static_cast<Real>(-0.01 * static_cast<double>(first + k)));
    Row<Real> row(x);
    row.maximum = 0;
    code.softmax(row.task(0, std::ssize(x)));
    for (size_t k = 0; k < x.size(); ++k) {
      const double expected = std::exp(static_cast<double>(x[k]));
      EXPECT_NEAR(static_cast<double>(row.x()[k]) / expected, 1,
                  rounding * (2 - 0.6 * static_cast<double>(x[k])))
          << x[k];
    }
  }
}

TYPED_TEST(VectorMath, ExtremeRowsOfSoftmax) {
  using Real = TypeParam;
  const Primitives<Real>& code = primitives<Real>();
  const Real infinity = std::numeric_limits<Real>::infinity();
  std::vector<Real> x(static_cast<size_t>(4 * code.lanes), -infinity);
  Row<Real> empty(x);
  code.softmax(empty.task(0, std::ssize(x)));
  EXPECT_EQ(empty.maximum, -infinity);
  EXPECT_EQ(empty.sum, 0);
  EXPECT_EQ(empty.factor, 1);
  for (int64_t k = 0; k < std::ssize(x); ++k) EXPECT_EQ(empty.x()[k], 0);
  // The largest gives exactly 1, and what is far below gives exactly 0, in every lane.
  for (size_t lane = 0; lane < x.size(); ++lane) {
    std::vector<Real> single = x;
    single[lane] = std::numeric_limits<Real>::max();
    single[(lane + 1) % single.size()] = -std::numeric_limits<Real>::max();
    Row<Real> row(single);
    code.softmax(row.task(0, std::ssize(single)));
    for (size_t k = 0; k < single.size(); ++k) EXPECT_EQ(row.x()[k], k == lane ? 1 : 0);
    EXPECT_EQ(row.sum, 1);
    // A NaN is not hidden.
    single[lane] = std::numeric_limits<Real>::quiet_NaN();
    Row<Real> broken(single);
    code.softmax(broken.task(0, std::ssize(single)));
    EXPECT_TRUE(std::isnan(broken.x()[lane])) << lane;
    EXPECT_TRUE(std::isnan(broken.sum)) << lane;
  }
}

TYPED_TEST(VectorMath, SoftpickAndL1) {
  using Real = TypeParam;
  const Primitives<Real>& code = primitives<Real>();
  const double tolerance = sizeof(Real) == 4 ? 2e-6 : 1e-14;
  RandomStream random(1, "softpick");
  for (double size : {1e-4, 1.0, 20.0})
    for (int64_t width = code.lanes; width <= 6 * code.lanes; width += code.lanes) {
      std::vector<Real> x;
      while (std::ssize(x) < width) x.push_back(static_cast<Real>(random.normal() * size));
      x[0] = 0;
      Row<Real> pick(x), plain(x);
      code.softpick(pick.task(0, width));
      code.l1(plain.task(0, width));
      const double shift = static_cast<double>(pick.maximum);
      double picked = 0, sum = 0;
      for (size_t k = 0; k < x.size(); ++k) {
        const double e = std::expm1(static_cast<double>(x[k])) * std::exp(-shift);
        picked += std::fabs(e);
        sum += std::fabs(static_cast<double>(x[k]));
        EXPECT_NEAR(static_cast<double>(pick.x()[k]), std::max(e, 0.0),
                    tolerance * std::fabs(e) * (1 + shift / 2))
            << x[k];
        EXPECT_EQ(plain.x()[k], x[k]);
      }
      EXPECT_NEAR(static_cast<double>(pick.sum), picked, tolerance * picked);
      EXPECT_NEAR(static_cast<double>(plain.sum), sum, tolerance * sum);
      EXPECT_EQ(plain.factor, 1);
      // A NaN is not hidden.
      const auto lane = static_cast<size_t>(width) / 2;
      x[lane] = std::numeric_limits<Real>::quiet_NaN();
      Row<Real> broken(x), broken_plain(x);
      code.softpick(broken.task(0, width));
      code.l1(broken_plain.task(0, width));
      EXPECT_TRUE(std::isnan(broken.x()[lane]));
      EXPECT_TRUE(std::isnan(broken.sum));
      EXPECT_TRUE(std::isnan(broken_plain.sum));
    }
}

}  // namespace
}  // namespace saccade::kernels
