// One walk over the table holds every row to what the rest of the project believes of it: the interval
// contains the values, the derivative is the slope, single precision is double precision rounded, the
// documentation's example is a formula.
#include "saccade/formula/operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "saccade/formula/derivative.h"
#include "saccade/formula/formula.h"
#include "saccade/formula/host.h"
#include "saccade/formula/naive_evaluation.h"
#include "saccade/formula/random_formula.h"

namespace saccade {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string name_with_arity(const Operation& row) { return fmt::format("{}/{}", row.name, row.arity); }

// The value of a derivative rule at a point; 0 where the table has none.
double slope(Op op, size_t operand, double x, double y = 0, double z = 0) {
  const DerivativeRule& rule = derivative_rule(op);
  if (rule.by[operand] == kNoNode) return 0;
  const Pair<double> nowhere;
  NaiveGraph<double> values(rule.graph, {}, nowhere);
  for (NodeId id = 0; id < rule.graph.size(); ++id) {
    const Node& node = rule.graph[id];
    if (node.op != Op::variable) continue;
    const auto variable = static_cast<Variable>(node.symbol);
    if (variable == Variable::x) values.set(id, x);
    if (variable == Variable::y) values.set(id, y);
    if (variable == Variable::z) values.set(id, z);
  }
  return values.at(rule.by[operand]);
}

// --- the table itself ---

TEST(Operations, AreInTheOrderOfOp) {
  int expected = static_cast<int>(Op::add);
  for (const Operation& row : operations()) {
    EXPECT_EQ(static_cast<int>(row.op), expected++) << row.name;
    EXPECT_EQ(&operation(row.op), &row);
  }
  EXPECT_EQ(expected, static_cast<int>(Op::softmax)) << "every scalar operation has a row";
  EXPECT_THROW(operation(Op::read), std::logic_error);
  EXPECT_THROW(operation(Op::softmax), std::logic_error);
}

TEST(Operations, AreFoundByNameOnlyWhenWrittenAsCalls) {
  ASSERT_TRUE(find_call("abs"));
  EXPECT_EQ(find_call("abs")->op, Op::abs);
  EXPECT_FALSE(find_call("+"));
  EXPECT_FALSE(find_call("not"));
  EXPECT_FALSE(find_call("softmax"));
  ASSERT_TRUE(find_norm("l1"));
  EXPECT_FALSE(find_norm("abs"));
}

constexpr std::string_view kDeclarations =
    "param alpha = 1; param beta = 1; param p = 1; param a = 1; token F = project(x)\n"
    "input doc[token]: int; input kind[token]: int; input lo[token]: int; input hi[token]: int\n";

bool is_formula(const std::string& text, std::string_view declarations = kDeclarations) {
  try {
    Formula::parse(std::string(declarations) + text);
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(Operations, HaveADocumentedExampleThatIsAFormula) {
  for (const Operation& row : operations()) {
    EXPECT_THAT(std::string(row.doc), testing::EndsWith(".")) << row.name;
    const std::string example(row.example);
    EXPECT_THAT(example, testing::HasSubstr(std::string(row.name)));
    EXPECT_TRUE(is_formula("mask = " + example) || is_formula("weights = " + example)) << example;
  }
  for (const NormOperation& row : norm_operations()) {
    EXPECT_THAT(std::string(row.doc), testing::EndsWith(".")) << row.name;
    EXPECT_TRUE(is_formula(fmt::format("weights = {}", row.example))) << row.example;
  }
  for (const HostOperation& row : host_operations()) {
    EXPECT_THAT(std::string(row.doc), testing::EndsWith(".")) << row.name;
    const std::string example(row.example);
    EXPECT_TRUE(is_formula(example, "") || is_formula("vector v = " + example) ||
                is_formula("token t = " + example))
        << row.example;
  }
}

// --- intervals ---

double random_number(RandomStream& random) {
  static constexpr std::array<double, 18> kSpecial = {
      -kInfinity, -1e30, -100, -3, -2, -1, -0.5, -1e-9, 0, 1e-9, 0.5, 1, 2, 3, 4, 100, 1e30, kInfinity};
  if (random.below(2)) return pick(random, kSpecial);
  const double number = random.normal() * (random.below(2) ? 3 : 40);
  return random.below(2) ? std::round(number) : number;
}

Interval random_interval(RandomStream& random, bool boolean) {
  if (boolean) {
    const uint64_t choice = random.below(3);
    return Interval::boolean(choice != 1, choice != 0);
  }
  double low = random_number(random), high = random.below(4) ? random_number(random) : low;
  if (low > high) std::swap(low, high);
  return {low, high, random.below(16) == 0};
}

// A value in the interval, often at its ends, at a zero or at an integer in it.
double sample(const Interval& interval, bool boolean, RandomStream& random) {
  if (interval.nan && random.below(4) == 0) return kNaN;
  const auto inside = [&](double value) { return interval.contains(value) ? value : interval.low; };
  if (boolean) return inside(static_cast<double>(random.below(2)));
  switch (random.below(6)) {
    case 0:
      return interval.low;
    case 1:
      return interval.high;
    case 2:
      return inside(random.below(2) ? 0.0 : -0.0);
    case 3:
      return inside(random_number(random));
    default:
      break;
  }
  const double low = std::max(interval.low, -1e6), high = std::min(interval.high, 1e6);
  const double between = low + random.uniform() * (high - low);
  return inside(random.below(2) ? std::round(between) : between);
}

bool wants_boolean(const Operation& row, size_t operand) {
  return row.type == TypeRule::logic || (row.type == TypeRule::select && operand == 0);
}

TEST(Operations, IntervalContainsEveryValue) {
  constexpr uint64_t kSeed = 30;
  for (const Operation& row : operations()) {
    RandomStream random = RandomStream(kSeed, "intervals").split(name_with_arity(row));
    for (int number = 0; number < 1500; ++number) {
      Interval operands[3];
      for (size_t index = 0; index < 3; ++index)
        operands[index] = random_interval(random, wants_boolean(row, index));
      const Interval bound = row.bound(operands[0], operands[1], operands[2]);
      ASSERT_FALSE(std::isnan(bound.low) || std::isnan(bound.high)) << row.name;
      for (int count = 0; count < 12; ++count) {
        double values[3];
        for (size_t index = 0; index < 3; ++index)
          values[index] = sample(operands[index], wants_boolean(row, index), random);
        const double value = evaluate(row.op, values[0], values[1], values[2]);
        // The rule is about exact arithmetic; the caller adds a margin where evaluation rounds.
        double slack = row.exact || std::isinf(value) ? 0 : 1e-13 * std::fabs(value) + 1e-300;
        if (row.op == Op::modulo && std::isfinite(values[0])) slack = 1e-15 * std::fabs(values[0]);
        if (row.op == Op::cos || row.op == Op::sin) slack = 1e-6;
        const Interval widened{bound.low - slack, bound.high + slack, bound.nan};
        ASSERT_TRUE(widened.contains(value)) << fmt::format(
            "seed {} number {}: {} of {}, {}, {} is {}, outside [{}, {}]{}", kSeed, number, row.name,
            values[0], values[1], values[2], value, bound.low, bound.high, bound.nan ? " or NaN" : "");
      }
    }
  }
}

TEST(Operations, IntervalsAreTightWhereTilesDependOnIt) {
  const auto expect = [](Op op, Interval x, Interval y, double low, double high) {
    const Interval bound = operation(op).bound(x, y, {});
    EXPECT_EQ(bound.low, low) << operation(op).name;
    EXPECT_EQ(bound.high, high) << operation(op).name;
    EXPECT_FALSE(bound.nan) << operation(op).name;
  };
  const Interval four = Interval::point(4);
  expect(Op::add, {1, 2}, {-3, 4}, -2, 6);
  expect(Op::subtract, {1, 2}, {-3, 4}, -3, 5);
  expect(Op::multiply, {-1, 2}, {-3, 4}, -6, 8);
  expect(Op::divide, {-1, 2}, {2, 4}, -0.5, 1);
  expect(Op::floor_divide, {-1, 7}, four, -1, 1);
  expect(Op::modulo, {5, 6}, four, 1, 2);
  expect(Op::modulo, {-3, -1}, four, 1, 3);
  expect(Op::modulo, {3, 5}, four, 0, 4);
  expect(Op::power, {-3, 2}, Interval::point(2), 0, 9);
  expect(Op::power, {0, 4}, {0.5, 2}, 0, 16);
  expect(Op::abs, {-3, 2}, {}, 0, 3);
  expect(Op::sign, {0, 5}, {}, 0, 1);
  expect(Op::min, {-1, 9}, {2, 3}, -1, 3);
  expect(Op::max, {-1, 9}, {2, 3}, 2, 9);
  expect(Op::relu, {-1, 9}, {}, 0, 9);
  expect(Op::less, {1, 2}, {3, 4}, 1, 1);
  expect(Op::less, {1, 3}, {3, 4}, 0, 1);
  expect(Op::less_equal, {1, 3}, {3, 4}, 1, 1);
  expect(Op::greater, {1, 3}, {3, 4}, 0, 0);
  expect(Op::greater_equal, {1, 3}, {3, 4}, 0, 1);
  expect(Op::equal, {1, 2}, {3, 4}, 0, 0);
  expect(Op::equal, four, four, 1, 1);
  expect(Op::not_equal, {1, 2}, {3, 4}, 1, 1);
  expect(Op::logical_and, {0, 0}, {0, 1}, 0, 0);
  expect(Op::logical_or, {1, 1}, {0, 1}, 1, 1);
  expect(Op::logical_not, {1, 1}, {}, 0, 0);
}

TEST(Interval, ANaNMayBeAnything) {
  // It must not hide the other side of a hull.
  const Interval either = hull(Interval::point(kNaN), Interval::point(5));
  EXPECT_TRUE(either.contains(5));
  EXPECT_TRUE(either.contains(kNaN));
  EXPECT_FALSE(Interval::point(kNaN).is_point());
}

// --- derivatives ---

// The slope by differences of f at x; NaN near a kink or a jump, where two step sizes disagree.
template <class F>
double difference(F f, double x) {
  const double step = 1e-5 * std::max(1.0, std::fabs(x));
  const double wide = (f(x + step) - f(x - step)) / (2 * step);
  const double narrow = (f(x + step / 4) - f(x - step / 4)) / (step / 2);
  const double right = (f(x + step) - f(x)) / step, left = (f(x) - f(x - step)) / step;
  const double scale = 1 + std::fabs(narrow);
  const bool smooth = std::fabs(wide - narrow) < 1e-5 * scale && std::fabs(right - left) < 1e-2 * scale;
  return smooth ? narrow : kNaN;
}

TEST(Operations, DerivativeIsTheSlopeAwayFromKinks) {
  constexpr uint64_t kSeed = 31;
  for (const Operation& row : operations()) {
    if (row.type == TypeRule::logic) continue;
    for (size_t operand = 0; operand < static_cast<size_t>(row.arity); ++operand) {
      if (wants_boolean(row, operand)) continue;
      RandomStream random = RandomStream(kSeed, "slopes").split(name_with_arity(row));
      int tested = 0;
      for (int number = 0; number < 400; ++number) {
        double at[3];
        for (size_t index = 0; index < 3; ++index)
          at[index] = wants_boolean(row, index) ? static_cast<double>(random.below(2)) : random.normal() * 2;
        const auto f = [&](double value) {
          double moved[3] = {at[0], at[1], at[2]};
          moved[operand] = value;
          return evaluate(row.op, moved[0], moved[1], moved[2]);
        };
        const double expected = difference(f, at[operand]);
        if (!std::isfinite(expected) || std::fabs(expected) > 1e4) continue;
        ++tested;
        const double actual = slope(row.op, operand, at[0], at[1], at[2]);
        ASSERT_NEAR(actual, expected, 1e-5 * (1 + std::fabs(expected)))
            << fmt::format("seed {} number {}: {} by operand {} at {}, {}, {}", kSeed, number, row.name,
                           operand, at[0], at[1], at[2]);
      }
      EXPECT_GE(tested, 100) << row.name;
    }
  }
}

TEST(Derivative, IsZeroAtTheKinkOfAbsReluAndSqrt) {
  EXPECT_EQ(slope(Op::abs, 0, 0.0), 0);
  EXPECT_EQ(slope(Op::abs, 0, -0.0), 0);
  EXPECT_EQ(slope(Op::relu, 0, 0.0), 0);
  EXPECT_EQ(slope(Op::sqrt, 0, 0.0), 0);
}

TEST(Derivative, OfPowerIsFiniteAtZero) {
  for (double exponent : {-2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 0.999})
    EXPECT_EQ(slope(Op::power, 0, 0, exponent), 0) << exponent;
  EXPECT_EQ(slope(Op::power, 0, 0, 1), 1);
  for (double exponent : {1.001, 1.5, 2.0, 3.0}) EXPECT_EQ(slope(Op::power, 0, 0, exponent), 0) << exponent;
}

TEST(Derivative, OfPowerByItsExponentIsZeroUnlessTheBaseIsPositive) {
  for (double exponent : {-2.0, -1.0, 0.0, 0.5, 1.0, 2.0})
    for (double base : {0.0, -0.0, -1.0, -2.5, -kInfinity})
      EXPECT_EQ(slope(Op::power, 1, base, exponent), 0) << base << " ^ " << exponent;
  EXPECT_DOUBLE_EQ(slope(Op::power, 1, 2, 3), 8 * std::log(2.0));
}

TEST(Derivative, GoesToTheFirstOnATie) {
  EXPECT_EQ(slope(Op::min, 0, 2, 2), 1);
  EXPECT_EQ(slope(Op::min, 1, 2, 2), 0);
  EXPECT_EQ(slope(Op::max, 0, 2, 2), 1);
  EXPECT_EQ(slope(Op::max, 1, 2, 2), 0);
}

TEST(Derivative, OfClampGoesToExactlyOneOperand) {
  EXPECT_EQ(evaluate(Op::clamp, 5, 4, 1), 1) << "with its bounds crossed, clamp is the upper one";
  for (double x : {-2.0, 0.0, 1.0, 1.5, 2.0, 3.0, 9.0})
    for (double low : {-1.0, 0.0, 1.0, 2.0})
      for (double high : {-1.0, 0.0, 1.0, 2.0}) {
        double total = 0;
        const double operands[3] = {x, low, high}, value = evaluate(Op::clamp, x, low, high);
        for (size_t operand = 0; operand < 3; ++operand) {
          const double part = slope(Op::clamp, operand, x, low, high);
          total += part;
          EXPECT_TRUE(part == 0 || operands[operand] == value) << x << " in " << low << ", " << high;
        }
        EXPECT_EQ(total, 1) << x << " in " << low << ", " << high;
      }
}

// --- values ---

TEST(Operations, NaNIsNotSwallowed) {
  for (Op op : {Op::add, Op::min, Op::max, Op::clamp, Op::modulo})
    for (int operand = 0; operand < (op == Op::clamp ? 3 : 2); ++operand) {
      double at[3] = {1, 2, 3};
      at[operand] = kNaN;
      EXPECT_TRUE(std::isnan(evaluate(op, at[0], at[1], at[2]))) << operation(op).name << " " << operand;
    }
  for (Op op : {Op::abs, Op::sign, Op::relu, Op::floor, Op::sigmoid, Op::negate})
    EXPECT_TRUE(std::isnan(evaluate(op, kNaN))) << operation(op).name;
}

TEST(Operations, RemainderHasTheSignOfTheDivisor) {
  EXPECT_EQ(evaluate(Op::modulo, -1, 4), 3);
  EXPECT_EQ(evaluate(Op::modulo, 1, -4), -3);
  EXPECT_EQ(evaluate(Op::floor_divide, -1, 4), -1);
  EXPECT_EQ(evaluate(Op::modulo, 8, 4), 0);
}

TEST(Operations, SigmoidNeverOverflows) {
  EXPECT_EQ(evaluate(Op::sigmoid, -1000), 0);
  EXPECT_EQ(evaluate(Op::sigmoid, 1000), 1);
  EXPECT_EQ(evaluate(Op::sigmoid, 0), 0.5);
  EXPECT_EQ((apply<Op::sigmoid>(-200.0f, 0.0f, 0.0f)), 0.0f);
}

TEST(Operations, SinglePrecisionIsDoublePrecisionRounded) {
  constexpr uint64_t kSeed = 32;
  for (const Operation& row : operations()) {
    RandomStream random = RandomStream(kSeed, "precisions").split(name_with_arity(row));
    for (int number = 0; number < 1000; ++number) {
      float at[3];
      for (size_t index = 0; index < 3; ++index)
        at[index] = static_cast<float>(wants_boolean(row, index) ? static_cast<double>(random.below(2))
                                                                 : random.normal() * 5);
      const double exact = evaluate(row.op, at[0], at[1], at[2]);
      const double rounded =
          dispatch(row.op, [&]<Op op>() { return static_cast<double>(apply<op>(at[0], at[1], at[2])); });
      double slack = 4e-7 * std::fabs(exact);
      if (row.op == Op::floor_divide || row.op == Op::modulo) {
        // Both jump where the quotient is a whole number.
        const double quotient = static_cast<double>(at[0]) / at[1];
        if (std::fabs(quotient - std::round(quotient)) < 1e-5 * (1 + std::fabs(quotient))) continue;
        slack = 4e-7 * (std::fabs(exact) + std::fabs(at[0]));
      }
      if (row.op == Op::sin || row.op == Op::cos) slack = 4e-7;
      const bool agree = std::isnan(exact)
                             ? std::isnan(rounded)
                             : std::fabs(exact) > 3e38 || std::fabs(rounded - exact) <= slack + 1e-37;
      ASSERT_TRUE(agree) << fmt::format("seed {} number {}: {} of {}, {}, {} is {}, not {}", kSeed, number,
                                        row.name, at[0], at[1], at[2], rounded, exact);
    }
  }
}

// Block numbers and strides are computed in single precision: they must be right up to the last position.
TEST(Operations, WholeNumbersDivideExactlyInSinglePrecision) {
  constexpr uint64_t kSeed = 33;
  constexpr int64_t kMost = 1 << 24;
  RandomStream random(kSeed, "division");
  for (int number = 0; number < 300'000; ++number) {
    const auto y = static_cast<int64_t>(1 + random.below(random.below(2) ? kMost - 1 : 1000));
    int64_t x = static_cast<int64_t>(random.below(2 * kMost - 1)) - (kMost - 1);
    // Next to a multiple is where rounding would go wrong.
    if (random.below(2))
      x = std::clamp(x / y * y + static_cast<int64_t>(random.below(3)) - 1, 1 - kMost, kMost - 1);
    const int64_t quotient = x >= 0 ? x / y : -((-x + y - 1) / y);
    const auto xf = static_cast<float>(x), yf = static_cast<float>(y);
    ASSERT_EQ((apply<Op::floor_divide>(xf, yf, 0.0f)), static_cast<float>(quotient)) << x << " // " << y;
    ASSERT_EQ((apply<Op::floor_divide>(-xf, -yf, 0.0f)), static_cast<float>(quotient)) << -x << " // " << -y;
    // The product inside x - y * (x // y) may be as large as |x| + |y|.
    if (std::abs(x) + y > kMost) continue;
    ASSERT_EQ((apply<Op::modulo>(xf, yf, 0.0f)), static_cast<float>(x - y * quotient)) << x << " % " << y;
  }
}

}  // namespace
}  // namespace saccade
