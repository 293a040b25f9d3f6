// Maps each operation to its torch operation by a switch without default: a missing one does not compile.
#include "saccade/attention/pointwise.h"

#include <array>
#include <map>
#include <optional>

#include "saccade/base/error.h"
#include "saccade/formula/derivative.h"

namespace saccade {
namespace {

using torch::Tensor;

Tensor evaluate_plain(Op op, const Tensor& x, const Tensor& y, const Tensor& z) {
  switch (op) {
    case Op::add:
      return x + y;
    case Op::subtract:
      return x - y;
    case Op::multiply:
      return x * y;
    case Op::divide:
      return x / y;
    case Op::floor_divide:
      return torch::floor(x / y);
    case Op::modulo:
      return x - y * torch::floor(x / y);
    case Op::negate:
      return -x;
    case Op::power:
      return torch::pow(x, y);
    case Op::less:
      return x < y;
    case Op::less_equal:
      return x <= y;
    case Op::greater:
      return x > y;
    case Op::greater_equal:
      return x >= y;
    case Op::equal:
      return x == y;
    case Op::not_equal:
      return x != y;
    case Op::logical_and:
      return torch::logical_and(x, y);
    case Op::logical_or:
      return torch::logical_or(x, y);
    case Op::logical_not:
      return torch::logical_not(x);
    case Op::abs:
      return torch::abs(x);
    case Op::sign:
      return torch::where(x.isnan(), x, torch::sign(x));  // torch's own calls the sign of NaN 0
    case Op::min:
      return torch::minimum(x, y);
    case Op::max:
      return torch::maximum(x, y);
    case Op::clamp:
      return torch::minimum(torch::maximum(x, y), z);
    case Op::floor:
      return torch::floor(x);
    case Op::sqrt:
      return torch::sqrt(x);
    case Op::exp:
      return torch::exp(x);
    case Op::log:
      return torch::log(x);
    case Op::log1p:
      return torch::log1p(x);
    case Op::tanh:
      return torch::tanh(x);
    case Op::sigmoid:
      return torch::sigmoid(x);
    case Op::relu:
      return torch::relu(x);
    case Op::sin:
      return torch::sin(x);
    case Op::cos:
      return torch::cos(x);
    case Op::where:
      return torch::where(x, y, z);
    case Op::number:
    case Op::variable:
    case Op::stream:
    case Op::read:
    case Op::softmax:
    case Op::l1:
    case Op::softpick:
      break;
  }
  invariant(false, "pointwise: not a scalar operation");
  return {};
}

// One derivative of a rule, evaluated on the operands. It is differentiable by the rules again.
Tensor evaluate_rule(const DerivativeRule& rule, NodeId root, const std::array<Tensor, 3>& operands,
                     const Tensor& like) {
  std::map<NodeId, Tensor> values;
  for (NodeId id : rule.graph.reachable({root})) {
    const Node& node = rule.graph[id];
    if (node.op == Op::number) {
      values[id] = torch::full({}, node.number, like.options());
    } else if (node.op == Op::variable) {
      values[id] = operands[static_cast<size_t>(node.symbol) - static_cast<size_t>(Variable::x)];
    } else {
      std::vector<Tensor> args;
      for (NodeId arg : node.args) args.push_back(values[arg]);
      values[id] = apply_pointwise(node.op, args);
    }
  }
  return values[root];
}

class ByRule : public torch::autograd::Function<ByRule> {
 public:
  // Operands that an operation does not have are absent: an undefined tensor would be refused.
  static Tensor forward(torch::autograd::AutogradContext* context, int64_t op, const Tensor& x,
                        const std::optional<Tensor>& y, const std::optional<Tensor>& z) {
    const Tensor second = y.value_or(Tensor()), third = z.value_or(Tensor());
    context->saved_data["op"] = op;
    context->save_for_backward({x, second, third});
    return evaluate_plain(static_cast<Op>(op), x, second, third);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const std::array<Tensor, 3> operands{saved[0], saved[1], saved[2]};
    const DerivativeRule& rule = derivative_rule(static_cast<Op>(context->saved_data["op"].toInt()));
    const Tensor& gradient = gradients[0];
    torch::autograd::variable_list result(4);  // the operation itself, then the operands
    for (size_t operand = 0; operand < 3; ++operand) {
      const Tensor& value = operands[operand];
      if (!value.defined() || !value.is_floating_point() || rule.by[operand] == kNoNode) continue;
      const Tensor local = evaluate_rule(rule, rule.by[operand], operands, gradient);
      // Only a derivative that is not finite gives way to the zero: the second derivative needs the others.
      const Tensor overruled = (gradient == 0).logical_and(local.isfinite().logical_not());
      result[operand + 1] = at::sum_to(gradient * local.masked_fill(overruled, 0), value.sizes());
    }
    return result;
  }
};

}  // namespace

at::Tensor apply_pointwise(Op op, const std::vector<at::Tensor>& args) {
  const auto operand = [&](size_t index) {
    return index < args.size() ? std::optional(args[index]) : std::nullopt;
  };
  bool differentiable = false;
  for (const Tensor& arg : args) differentiable |= arg.requires_grad();
  if (differentiable && torch::GradMode::is_enabled())
    return ByRule::apply(static_cast<int64_t>(op), args[0], operand(1), operand(2));
  return evaluate_plain(op, args[0], operand(1).value_or(Tensor()), operand(2).value_or(Tensor()));
}

}  // namespace saccade
