// Reverse-mode differentiation on the graph.
#include "saccade/formula/derivative.h"

#include <map>
#include <optional>

#include "saccade/base/error.h"
#include "saccade/formula/parser.h"

namespace saccade {
namespace {

// Rules are trusted text: no type check, only building.
NodeId build(Graph& graph, const Expression& expression) {
  switch (expression.kind) {
    case Expression::Kind::number:
      return graph.number(expression.number, expression.integer ? Type::integer : Type::real);
    case Expression::Kind::name:
      for (Variable operand : {Variable::x, Variable::y, Variable::z})
        if (expression.name == name_of(operand)) return graph.variable(operand);
      break;
    case Expression::Kind::call: {
      std::vector<NodeId> args;
      for (const ExpressionPtr& argument : expression.arguments) args.push_back(build(graph, *argument));
      const Op op = expression.op ? *expression.op : find_call(expression.name)->op;
      return graph.apply(op, std::move(args));
    }
    case Expression::Kind::subscript:
      break;
  }
  invariant(false, "a derivative rule uses something other than x, y and z");
  return kNoNode;
}

std::vector<DerivativeRule> build_rules() {
  std::vector<DerivativeRule> rules;
  for (const Operation& row : operations()) {
    DerivativeRule rule;
    for (size_t operand = 0; operand < 3; ++operand) {
      if (row.derivative[operand].empty()) continue;
      Diagnostics diagnostics;
      const ExpressionPtr expression = parse_expression(row.derivative[operand], diagnostics);
      invariant(expression != nullptr && !diagnostics.any(), "a derivative rule does not parse");
      rule.by[operand] = build(rule.graph, *expression);
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

// Copies one derivative of a rule into `graph`, with the operands put in the place of x, y and z.
NodeId instantiate(Graph& graph, const DerivativeRule& rule, NodeId root,
                   const std::vector<NodeId>& operands) {
  std::map<NodeId, NodeId> copies;
  for (NodeId id : rule.graph.reachable({root})) {
    const Node& node = rule.graph[id];
    if (node.op == Op::number) {
      copies[id] = graph.number(node.number, node.type);
    } else if (node.op == Op::variable) {
      copies[id] = operands[static_cast<size_t>(node.symbol) - static_cast<size_t>(Variable::x)];
    } else {
      std::vector<NodeId> args;
      for (NodeId arg : node.args) args.push_back(copies[arg]);
      copies[id] = graph.apply(node.op, std::move(args));
    }
  }
  return copies[root];
}

bool is_zero(const Graph& graph, NodeId id) { return graph[id].op == Op::number && graph[id].number == 0; }

// A derivative that is 0 unless a condition holds.
struct Guarded {
  NodeId condition, value;
};

std::optional<Guarded> guarded(Graph& graph, NodeId id) {
  if (graph[id].op != Op::where) return std::nullopt;
  const std::vector<NodeId> args = graph[id].args;
  const bool when_true = is_zero(graph, args[2]);
  if (!when_true && !is_zero(graph, args[1])) return std::nullopt;
  const NodeId condition = when_true ? args[0] : graph.apply(Op::logical_not, {args[0]});
  const NodeId value = when_true ? args[1] : args[2];
  const auto inner = guarded(graph, value);
  if (!inner) return Guarded{condition, value};
  return Guarded{graph.apply(Op::logical_and, {condition, inner->condition}), inner->value};
}

// A product in which zero always wins: a factor where(c, a, 0) keeps its condition outside, so that an
// infinite derivative on the side not taken cannot make 0 * inf = NaN. Two conditions become one, or nested
// choices would be built anew for every node below them.
NodeId multiply(Graph& graph, NodeId a, NodeId b) {
  const NodeId zero = graph.number(0, Type::real);
  if (is_zero(graph, a) || is_zero(graph, b)) return zero;
  const auto left = guarded(graph, a), right = guarded(graph, b);
  if (left && right) {
    const NodeId both = graph.apply(Op::logical_and, {left->condition, right->condition});
    return graph.apply(Op::where, {both, multiply(graph, left->value, right->value), zero});
  }
  if (left || right) {
    const std::vector<NodeId> choice = graph[left ? a : b].args;
    const NodeId other = left ? b : a;
    return is_zero(graph, choice[2])
               ? graph.apply(Op::where, {choice[0], multiply(graph, choice[1], other), zero})
               : graph.apply(Op::where, {choice[0], zero, multiply(graph, choice[2], other)});
  }
  if (graph.is_number(a, -1)) return graph.apply(Op::negate, {b});
  if (graph.is_number(b, -1)) return graph.apply(Op::negate, {a});
  if (graph.is_number(a, 1)) return b;
  if (graph.is_number(b, 1)) return a;
  return graph.apply(Op::multiply, {a, b});
}

// A sum of derivatives that are both cut off keeps a condition outside, for `multiply` to find: a value that
// two choices share must not contribute where neither takes it.
NodeId add(Graph& graph, NodeId a, NodeId b) {
  if (is_zero(graph, a)) return b;
  if (is_zero(graph, b)) return a;
  const auto left = guarded(graph, a), right = guarded(graph, b);
  if (!left || !right) return graph.apply(Op::add, {a, b});
  const NodeId zero = graph.number(0, Type::real);
  if (left->condition == right->condition)
    return graph.apply(Op::where, {left->condition, add(graph, left->value, right->value), zero});
  const NodeId either = graph.apply(Op::logical_or, {left->condition, right->condition});
  return graph.apply(Op::where, {either, graph.apply(Op::add, {a, b}), zero});
}

}  // namespace

const DerivativeRule& derivative_rule(Op op) {
  static const std::vector<DerivativeRule> rules = build_rules();
  return rules[static_cast<size_t>(op) - static_cast<size_t>(Op::add)];
}

std::vector<Partial> differentiate(Graph& graph, NodeId root, const std::function<bool(NodeId)>& is_target) {
  const std::vector<NodeId> nodes = graph.reachable({root});
  // Only nodes above a target carry a derivative.
  std::map<NodeId, bool> active;
  for (NodeId id : nodes) {
    bool result = is_target(id);
    if (!is_leaf(graph[id].op))
      for (NodeId arg : graph[id].args) result |= active[arg];
    active[id] = result;
  }
  std::map<NodeId, NodeId> adjoint{{root, graph.number(1, Type::real)}};
  std::vector<Partial> result;
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    const NodeId id = *it;
    if (!active[id] || !adjoint.contains(id)) continue;
    if (is_target(id)) {
      result.push_back({id, adjoint[id]});
      continue;
    }
    const Node node = graph[id];  // a copy: the graph grows below
    invariant(!is_norm(node.op), "differentiate: norms are differentiated by their own rule");
    const DerivativeRule& rule = derivative_rule(node.op);
    for (size_t operand = 0; operand < node.args.size(); ++operand) {
      const NodeId arg = node.args[operand];
      if (!active[arg] || rule.by[operand] == kNoNode) continue;
      const NodeId local = instantiate(graph, rule, rule.by[operand], node.args);
      const NodeId contribution = multiply(graph, adjoint[id], local);
      adjoint[arg] = adjoint.contains(arg) ? add(graph, adjoint[arg], contribution) : contribution;
    }
  }
  return result;
}

}  // namespace saccade
