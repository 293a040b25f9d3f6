// Maps each operation to its torch operation by a switch without default: a missing one does not compile.
#include "saccade/attention/pointwise.h"

#include <map>

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
      return torch::sign(x);
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

// One derivative of a rule, evaluated on the operands.
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
      std::array<Tensor, 3> args;
      for (size_t index = 0; index < node.args.size(); ++index) args[index] = values[node.args[index]];
      values[id] = evaluate_plain(node.op, args[0], args[1], args[2]);
    }
  }
  return values[root];
}

class ByRule : public torch::autograd::Function<ByRule> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, int64_t op, Tensor x, Tensor y, Tensor z) {
    context->saved_data["op"] = op;
    context->save_for_backward({x, y, z});
    return evaluate_plain(static_cast<Op>(op), x, y, z);
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
      const Tensor product =
          torch::where(gradient == 0, torch::zeros({}, gradient.options()), gradient * local);
      result[operand + 1] = at::sum_to(product.expand_as(gradient), value.sizes());
    }
    return result;
  }
};

}  // namespace

at::Tensor apply_pointwise(Op op, const std::vector<at::Tensor>& args) {
  const Tensor x = args[0], y = args.size() > 1 ? args[1] : Tensor(),
               z = args.size() > 2 ? args[2] : Tensor();
  bool differentiable = false;
  for (const Tensor& arg : args) differentiable |= arg.requires_grad();
  if (!differentiable || !torch::GradMode::is_enabled()) return evaluate_plain(op, x, y, z);
  return ByRule::apply(static_cast<int64_t>(op), x, y, z);
}

}  // namespace saccade
