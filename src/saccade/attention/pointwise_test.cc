// Walks the table of operations: the tensor operation is the scalar one, its gradient is the table's rule,
// and the rule is the derivative.
#include "saccade/attention/pointwise.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>

#include "saccade/attention/testing.h"
#include "saccade/formula/derivative.h"

namespace saccade::pointwise_test {
namespace {

using test::close;
using test::kInfinity;
using test::kNaN;
using test::rounding;
using test::Seeded;
using torch::Tensor;

constexpr uint64_t kSeed = 20240601;

bool takes_conditions(const Operation& row) { return row.type == TypeRule::logic; }
bool gives_condition(const Operation& row) {
  return row.type == TypeRule::logic || row.type == TypeRule::compare;
}

// Operands as columns of numbers; conditions are 0 and 1.
using Operands = std::array<std::vector<double>, 3>;

// Every combination of values that are special somewhere, and some that are not.
Operands special_operands(const Operation& row) {
  const std::vector<double> numbers = {0, -0.0, 1, -1, 0.5, -0.5, 2, -2.5, 3, kInfinity, -kInfinity, kNaN};
  const std::vector<double> conditions = {0, 1};
  std::array<std::vector<double>, 3> choices;
  for (int operand = 0; operand < 3; ++operand) {
    const bool condition = takes_conditions(row) || (row.op == Op::where && operand == 0);
    choices[static_cast<size_t>(operand)] = operand >= row.arity ? std::vector<double>{0}
                                            : condition          ? conditions
                                                                 : numbers;
  }
  Operands result;
  for (double x : choices[0])
    for (double y : choices[1])
      for (double z : choices[2]) {
        result[0].push_back(x);
        result[1].push_back(y);
        result[2].push_back(z);
      }
  return result;
}

// Numbers in the domain of the operation, away from zero and from each other, so that it is smooth there.
Operands smooth_operands(const Operation& row, Seeded& random, int count) {
  const bool positive = row.op == Op::power || row.op == Op::sqrt || row.op == Op::log;
  Operands result;
  for (int index = 0; index < count; ++index) {
    for (size_t operand = 0; operand < 3; ++operand) {
      const double sign = positive && operand == 0 ? 1 : random.between(0, 1) ? 1 : -1;
      result[operand].push_back(sign * random.uniform(0.2, 3));
    }
    if (row.op == Op::log1p) result[0].back() = random.uniform(-0.8, 3);
    if (row.op == Op::where) result[0].back() = static_cast<double>(random.between(0, 1));
  }
  return result;
}

std::vector<Tensor> as_tensors(const Operation& row, const Operands& operands, at::ScalarType dtype) {
  std::vector<Tensor> result;
  for (size_t operand = 0; operand < static_cast<size_t>(row.arity); ++operand) {
    const bool condition = takes_conditions(row) || (row.op == Op::where && operand == 0);
    const Tensor column = torch::tensor(operands[operand], torch::kDouble);
    result.push_back(condition ? column.to(torch::kBool) : column.to(dtype));
  }
  return result;
}

// A rule of the table by the scalar definition of the operations.
double evaluate_rule(const DerivativeRule& rule, NodeId root, const std::array<double, 3>& operands) {
  std::map<NodeId, double> values;
  for (NodeId id : rule.graph.reachable({root})) {
    const Node& node = rule.graph[id];
    double args[3] = {0, 0, 0};
    for (size_t index = 0; index < node.args.size(); ++index) args[index] = values[node.args[index]];
    values[id] = node.op == Op::number ? node.number
                 : node.op == Op::variable
                     ? operands[static_cast<size_t>(node.symbol) - static_cast<size_t>(Variable::x)]
                     : evaluate(node.op, args[0], args[1], args[2]);
  }
  return values[root];
}

template <class Real>
double scalar_value(Op op, const Operands& operands, size_t index) {
  return dispatch(op, [&]<Op chosen>() {
    return static_cast<double>(apply<chosen>(static_cast<Real>(operands[0][index]),
                                             static_cast<Real>(operands[1][index]),
                                             static_cast<Real>(operands[2][index])));
  });
}

template <class Real>
void expect_scalar_values(const Operation& row, const Operands& operands, at::ScalarType dtype) {
  const Tensor result = apply_pointwise(row.op, as_tensors(row, operands, dtype));
  EXPECT_EQ(result.scalar_type(), gives_condition(row) ? torch::kBool : dtype) << row.name;
  const Tensor values = result.to(torch::kDouble);
  for (size_t index = 0; index < operands[0].size(); ++index) {
    const double expected = scalar_value<Real>(row.op, operands, index);
    const double actual = values[static_cast<int64_t>(index)].item<double>();
    SCOPED_TRACE(fmt::format("{} of {}, {}, {}", row.name, operands[0][index], operands[1][index],
                             operands[2][index]));
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(actual)) << actual;
    else if (std::isinf(expected) || row.exact)
      EXPECT_EQ(actual, expected);
    else  // the vector libraries allow themselves one unit in the last place, or a little more
      EXPECT_NEAR(actual, expected, rounding(dtype, 2, std::fabs(expected)));
  }
}

TEST(Pointwise, EqualsTheScalarDefinitionOfEveryOperation) {
  Seeded random(kSeed);
  for (const Operation& row : operations()) {
    const Operands special = special_operands(row), smooth = smooth_operands(row, random, 100);
    for (const Operands* operands : {&special, &smooth}) {
      if (takes_conditions(row) && operands == &smooth) continue;
      expect_scalar_values<double>(row, *operands, torch::kDouble);
      expect_scalar_values<float>(row, *operands, torch::kFloat);
    }
  }
}

TEST(Pointwise, GradientIsTheRuleOfTheTable) {
  Seeded random(kSeed);
  for (const Operation& row : operations()) {
    if (gives_condition(row)) continue;
    const DerivativeRule& rule = derivative_rule(row.op);
    const Operands special = special_operands(row), smooth = smooth_operands(row, random, 100);
    for (const Operands* operands : {&special, &smooth}) {
      std::vector<Tensor> args = as_tensors(row, *operands, torch::kDouble);
      for (Tensor& arg : args)
        if (arg.is_floating_point()) arg.requires_grad_();
      const Tensor upstream = random.normal(args[0].sizes());
      apply_pointwise(row.op, args).backward(upstream);
      for (size_t operand = 0; operand < args.size(); ++operand) {
        if (!args[operand].is_floating_point()) continue;
        const Tensor gradient = test::gradient_of(args[operand]);
        for (int64_t index = 0; index < gradient.numel(); ++index) {
          const auto at = static_cast<size_t>(index);
          const double local =
              rule.by[operand] == kNoNode
                  ? 0
                  : evaluate_rule(rule, rule.by[operand],
                                  {(*operands)[0][at], (*operands)[1][at], (*operands)[2][at]});
          const double expected = local * upstream[index].item<double>();
          const double actual = gradient[index].item<double>();
          SCOPED_TRACE(fmt::format("{} of {}, {}, {} by operand {}", row.name, (*operands)[0][at],
                                   (*operands)[1][at], (*operands)[2][at], operand));
          if (std::isnan(expected))
            EXPECT_TRUE(std::isnan(actual)) << actual;
          else if (std::isinf(expected))
            EXPECT_EQ(actual, expected);
          else  // 1 - tanh(x)^2 loses digits: its rounding errors are those of the 1
            EXPECT_NEAR(
                actual, expected,
                rounding(torch::kDouble, 8, std::fabs(expected) + std::fabs(upstream[index].item<double>())));
        }
      }
    }
  }
}

TEST(Pointwise, GradientIsTheDerivativeWhereTheOperationIsSmooth) {
  Seeded random(kSeed);
  for (const Operation& row : operations()) {
    if (gives_condition(row)) continue;
    const Operands operands = smooth_operands(row, random, 60);
    std::vector<Tensor> args = as_tensors(row, operands, torch::kDouble);
    for (Tensor& arg : args)
      if (arg.is_floating_point()) arg.requires_grad_();
    apply_pointwise(row.op, args).sum().backward();
    for (size_t operand = 0; operand < args.size(); ++operand) {
      if (!args[operand].is_floating_point()) continue;
      const Tensor gradient = test::gradient_of(args[operand]);
      for (size_t index = 0; index < operands[0].size(); ++index) {
        const auto f = [&](double x) {
          Operands moved = operands;
          moved[operand][index] = x;
          return scalar_value<double>(row.op, moved, index);
        };
        const double x = operands[operand][index];
        const test::Derivative expected =
            test::differentiate_numerically(f, x, rounding(torch::kDouble, 4, 1 + std::fabs(f(x))));
        EXPECT_NEAR(gradient[static_cast<int64_t>(index)].item<double>(), expected.value, expected.error)
            << row.name << " by operand " << operand << " at " << operands[0][index] << ", "
            << operands[1][index] << ", " << operands[2][index];
      }
    }
  }
}

TEST(Pointwise, GradientsOfBroadcastOperandsAreSummed) {
  Seeded random(kSeed);
  const std::vector<std::array<std::vector<int64_t>, 3>> shapes = {
      {{{2, 1, 3}, {4, 1}, {1}}}, {{{}, {2, 3}, {3}}}, {{{1, 1, 1, 1}, {2, 3, 1, 4}, {3, 5, 1}}}};
  for (const auto& shape : shapes)
    for (const Operation& row : operations()) {
      if (gives_condition(row) || row.arity < 2) continue;
      std::vector<Tensor> narrow, wide;
      for (size_t operand = 0; operand < static_cast<size_t>(row.arity); ++operand) {
        Tensor arg = random.normal(shape[operand]).abs() + 0.5;
        narrow.push_back(row.op == Op::where && operand == 0 ? arg > 1 : arg.requires_grad_());
      }
      for (const Tensor& arg : torch::broadcast_tensors(narrow)) wide.push_back(arg.detach().clone());
      for (Tensor& arg : wide)
        if (arg.is_floating_point()) arg.requires_grad_();
      const Tensor result = apply_pointwise(row.op, narrow);
      const Tensor upstream = random.normal(result.sizes());
      result.backward(upstream);
      apply_pointwise(row.op, wide).backward(upstream);
      for (size_t operand = 0; operand < narrow.size(); ++operand) {
        if (!narrow[operand].is_floating_point()) continue;
        const Tensor expected = test::gradient_of(wide[operand]).sum_to_size(narrow[operand].sizes());
        const double size = test::gradient_of(wide[operand]).abs().sum().item<double>();
        EXPECT_TRUE(close(test::gradient_of(narrow[operand]), expected,
                          rounding(torch::kDouble, upstream.numel(), size)))
            << row.name << " by operand " << operand;
      }
    }
}

TEST(Pointwise, NoGradientLeavesWhereNoneArrives) {
  for (const Operation& row : operations()) {
    if (gives_condition(row)) continue;
    std::vector<Tensor> args = as_tensors(row, special_operands(row), torch::kDouble);
    for (Tensor& arg : args)
      if (arg.is_floating_point()) arg.requires_grad_();
    const Tensor result = apply_pointwise(row.op, args);
    result.backward(torch::zeros_like(result));
    for (const Tensor& arg : args) {
      if (!arg.is_floating_point()) continue;
      EXPECT_TRUE(torch::equal(test::gradient_of(arg), torch::zeros_like(arg))) << row.name;
    }
  }
}

// The second derivative by one operand, with all others fixed.
Tensor second_derivative(const Operation& row, std::vector<Tensor> args, size_t operand) {
  args[operand].requires_grad_();
  const Tensor value = apply_pointwise(row.op, args);
  const Tensor first =
      torch::autograd::grad({value.sum()}, {args[operand]}, {}, true, /*create_graph=*/true)[0];
  if (!first.requires_grad()) return torch::zeros_like(args[operand]);
  const Tensor second = torch::autograd::grad({first.sum()}, {args[operand]}, {}, true, false, true)[0];
  return second.defined() ? second : torch::zeros_like(args[operand]);
}

TEST(Pointwise, SecondDerivativesAreThoseOfTheRules) {
  Seeded random(kSeed);
  for (const Operation& row : operations()) {
    if (gives_condition(row)) continue;
    const DerivativeRule& rule = derivative_rule(row.op);
    const Operands operands = smooth_operands(row, random, 30);
    for (size_t operand = 0; operand < static_cast<size_t>(row.arity); ++operand) {
      if (rule.by[operand] == kNoNode) continue;
      const Tensor second = second_derivative(row, as_tensors(row, operands, torch::kDouble), operand);
      for (size_t index = 0; index < operands[0].size(); ++index) {
        std::array<double, 3> at = {operands[0][index], operands[1][index], operands[2][index]};
        const auto slope = [&](double x) {
          std::array<double, 3> moved = at;
          moved[operand] = x;
          return evaluate_rule(rule, rule.by[operand], moved);
        };
        const test::Derivative expected = test::differentiate_numerically(
            slope, at[operand], rounding(torch::kDouble, 8, 1 + std::fabs(slope(at[operand]))));
        EXPECT_NEAR(second[static_cast<int64_t>(index)].item<double>(), expected.value, expected.error)
            << row.name << " by operand " << operand << " at " << at[0] << ", " << at[1] << ", " << at[2];
      }
    }
  }
}

// The first derivative of f^2 / 2 vanishes where f does; the second, f'^2, does not.
TEST(Pointwise, SecondDerivativeDoesNotVanishWithTheFirst) {
  const Tensor x = torch::zeros({1}, torch::kDouble).requires_grad_();
  const Tensor f = apply_pointwise(Op::multiply, {x, torch::full({1}, 3.0, torch::kDouble)});
  const Tensor half_square = 0.5 * f * f;
  const Tensor first = torch::autograd::grad({half_square.sum()}, {x}, {}, true, true)[0];
  EXPECT_EQ(first.item<double>(), 0);
  const Tensor second = torch::autograd::grad({first.sum()}, {x})[0];
  EXPECT_EQ(second.item<double>(), 9);
}

// At the kinks and poles that the table gives a finite derivative, the second one is finite, too.
TEST(Pointwise, SecondDerivativeIsFiniteWhereTheFirstIsFixed) {
  const auto zero = [] { return torch::zeros({1}, torch::kDouble); };
  const auto half = [] { return torch::full({1}, 0.5, torch::kDouble); };
  EXPECT_EQ(second_derivative(operation(Op::sqrt), {zero()}, 0).item<double>(), 0);
  EXPECT_EQ(second_derivative(operation(Op::abs), {zero()}, 0).item<double>(), 0);
  EXPECT_EQ(second_derivative(operation(Op::power), {zero(), half()}, 0).item<double>(), 0);
  EXPECT_EQ(second_derivative(operation(Op::power), {zero(), half()}, 1).item<double>(), 0);
}

}  // namespace
}  // namespace saccade::pointwise_test
