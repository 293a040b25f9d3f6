// Building and printing the graph. `intern` makes equal nodes one; `simplify` applies only rewrites that
// cannot change a value, but for the sign of a zero.
#include "saccade/formula/graph.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "saccade/base/error.h"
#include "saccade/formula/syntax.h"

namespace saccade {
namespace {

size_t hash_node(const Node& node) {
  size_t hash = static_cast<size_t>(node.op) * 0x9E3779B97F4A7C15u + static_cast<size_t>(node.type);
  const auto mix = [&](size_t value) { hash = (hash ^ value) * 0x100000001B3u + (hash >> 29); };
  mix(static_cast<size_t>(node.symbol));
  mix(std::hash<double>()(node.number));
  for (NodeId arg : node.args) mix(static_cast<size_t>(arg));
  return hash;
}

bool equal_nodes(const Node& a, const Node& b) {
  const bool same_number = a.number == b.number ? std::signbit(a.number) == std::signbit(b.number)
                                                : std::isnan(a.number) && std::isnan(b.number);
  return a.op == b.op && a.type == b.type && a.symbol == b.symbol && same_number && a.args == b.args;
}

// An integer expression as a sum of terms, each with a factor, and a constant.
struct Linear {
  std::map<NodeId, double> terms;
  double constant = 0;
};

bool to_linear(const Graph& graph, NodeId id, double factor, Linear& result, int budget = 64) {
  const Node& node = graph[id];
  if (node.type != Type::integer || budget <= 0) return false;
  switch (node.op) {
    case Op::number:
      result.constant += factor * node.number;
      return std::fabs(node.number) <= 1 << 24;  // larger ones are not exact
    case Op::add:
      return to_linear(graph, node.args[0], factor, result, budget / 2) &&
             to_linear(graph, node.args[1], factor, result, budget / 2);
    case Op::subtract:
      return to_linear(graph, node.args[0], factor, result, budget / 2) &&
             to_linear(graph, node.args[1], -factor, result, budget / 2);
    case Op::negate:
      return to_linear(graph, node.args[0], -factor, result, budget - 1);
    default:
      result.terms[id] += factor;
      return true;
  }
}

// Whether terms may cross to the other side or cancel. A quotient by 0 is infinite, and infinities do
// neither: at most one may be there, and it must stay.
bool may_move(const Graph& graph, const Linear& linear) {
  int infinite = 0;
  for (const auto& [term, factor] : linear.terms) {
    const bool finite = std::ranges::none_of(graph.reachable({term}), [&](NodeId id) {
      const Op op = graph[id].op;
      return op == Op::floor || op == Op::floor_divide || op == Op::modulo ||
             (op == Op::number && !std::isfinite(graph[id].number));
    });
    infinite += finite ? 0 : factor == 0 ? 2 : 1;
  }
  return infinite <= 1;
}

// The comparison with its sides swapped.
Op mirror(Op op) {
  switch (op) {
    case Op::less:
      return Op::greater;
    case Op::less_equal:
      return Op::greater_equal;
    case Op::greater:
      return Op::less;
    case Op::greater_equal:
      return Op::less_equal;
    default:
      return op;
  }
}

}  // namespace

std::string_view name_of(Variable variable) {
  static constexpr std::string_view kNames[] = {"i", "j", "d", "h", "H", "n", "x", "y", "z"};
  return kNames[static_cast<size_t>(variable)];
}

Rate rate_of(Reads reads) {
  const bool row = reads & kReadsRow, column = reads & kReadsColumn, diagonal = reads & kReadsDiagonal;
  if ((reads & kReadsStream) || row + column + diagonal > 1) return Rate::tile;
  if (diagonal) return Rate::diagonal;
  if (row) return Rate::row;
  if (column) return Rate::column;
  return reads & (kReadsHead | kReadsBatch) ? Rate::head : Rate::constant;
}

std::string_view name_of(Rate rate) {
  static constexpr std::string_view kNames[] = {"constant", "head", "row", "column", "diagonal", "tile"};
  return kNames[static_cast<size_t>(rate)];
}

Type result_type(Op op, const std::vector<Type>& operands) {
  switch (operation(op).type) {
    case TypeRule::keep:
      return std::ranges::all_of(operands, [](Type type) { return type == Type::integer; }) ? Type::integer
                                                                                            : Type::real;
    case TypeRule::to_real:
      return Type::real;
    case TypeRule::to_integer:
      return Type::integer;
    case TypeRule::compare:
    case TypeRule::logic:
      return Type::boolean;
    case TypeRule::select:
      if (operands[1] == Type::boolean) return Type::boolean;
      return operands[1] == Type::integer && operands[2] == Type::integer ? Type::integer : Type::real;
  }
  return Type::real;
}

NodeId Graph::intern(Node node) {
  for (NodeId arg : node.args) {
    node.reads |= (*this)[arg].reads;
    node.depth = std::max(node.depth, (*this)[arg].depth + 1);
  }
  const size_t hash = hash_node(node);
  const auto [begin, end] = index_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (equal_nodes((*this)[it->second], node)) return it->second;
  nodes_.push_back(std::move(node));
  index_.emplace(hash, size() - 1);
  return size() - 1;
}

NodeId Graph::number(double value, Type type) {
  Node node{.op = Op::number, .type = type};
  node.number = value;
  return intern(std::move(node));
}

NodeId Graph::variable(Variable variable) {
  static constexpr Reads kReads[] = {
      kReadsRow, kReadsColumn, kReadsDiagonal, kReadsHead, 0, kReadsLength, 0, 0, 0};
  const bool operand = variable >= Variable::x;
  Node node{.op = Op::variable, .type = operand ? Type::real : Type::integer};
  node.reads = kReads[static_cast<size_t>(variable)];
  node.symbol = static_cast<int32_t>(variable);
  return intern(std::move(node));
}

NodeId Graph::stream(int index) {
  Node node{.op = Op::stream};
  node.reads = kReadsStream;
  node.symbol = index;
  return intern(std::move(node));
}

NodeId Graph::read(int table, Type type, Reads implied, std::vector<NodeId> subscripts) {
  Node node{.op = Op::read, .type = type};
  node.reads = implied;
  node.symbol = table;
  node.args = std::move(subscripts);
  return intern(std::move(node));
}

NodeId Graph::norm(Op op, NodeId argument, NodeId sink) {
  Node node{.op = op};
  // The result of a norm belongs to a pair, even when its argument does not depend on one.
  node.reads = kReadsStream;
  node.args = sink == kNoNode ? std::vector{argument} : std::vector{argument, sink};
  return intern(std::move(node));
}

NodeId Graph::apply(Op op, std::vector<NodeId> args) {
  if (std::ranges::all_of(args, [this](NodeId arg) { return (*this)[arg].op == Op::number; })) {
    double operands[3] = {0, 0, 0};
    std::vector<Type> types;
    for (size_t index = 0; index < args.size(); ++index) {
      operands[index] = (*this)[args[index]].number;
      types.push_back((*this)[args[index]].type);
    }
    return number(evaluate(op, operands[0], operands[1], operands[2]), result_type(op, types));
  }
  const NodeId simpler = simplify(op, args);
  if (simpler != kNoNode) return simpler;
  std::vector<Type> types;
  for (NodeId arg : args) types.push_back((*this)[arg].type);
  Node node{.op = op, .type = result_type(op, types)};
  node.args = std::move(args);
  return intern(std::move(node));
}

NodeId Graph::simplify(Op op, const std::vector<NodeId>& args) {
  const NodeId x = args[0], y = args.size() > 1 ? args[1] : kNoNode;
  // A rewrite must keep the type, or an integer literal could turn a real into a subscript.
  const auto keeps = [&](NodeId result) {
    std::vector<Type> types;
    for (NodeId arg : args) types.push_back((*this)[arg].type);
    return result_type(op, types) == (*this)[result].type ? result : kNoNode;
  };
  switch (op) {
    case Op::add:
      if (is_number(y, 0)) return keeps(x);
      if (is_number(x, 0)) return keeps(y);
      break;
    case Op::subtract: {
      if (is_number(y, 0)) return keeps(x);
      const bool raw =
          x == variable(Variable::i) || x == variable(Variable::j);  // also when positions are an input
      const NodeId i = raw ? variable(Variable::i) : row(), j = raw ? variable(Variable::j) : column();
      const NodeId d = raw ? variable(Variable::d) : distance();
      if (x == i && y == j && d != kNoNode) return d;
      if (x == j && y == i && d != kNoNode) return apply(Op::negate, {d});
      break;
    }
    case Op::multiply:
      if (is_number(y, 1)) return keeps(x);
      if (is_number(x, 1)) return keeps(y);
      break;
    case Op::divide:
    case Op::power:
      if (is_number(y, 1)) return keeps(x);
      break;
    case Op::negate:
    case Op::logical_not:
      if ((*this)[x].op == op) return (*this)[x].args[0];
      break;
    case Op::logical_and:
      if (is_number(x, 0) || is_number(y, 1) || x == y) return x;
      if (is_number(y, 0) || is_number(x, 1)) return y;
      break;
    case Op::logical_or:
      if (is_number(x, 1) || is_number(y, 0) || x == y) return x;
      if (is_number(y, 1) || is_number(x, 0)) return y;
      break;
    case Op::where:
      if (is_number(x, 1)) return keeps(y);
      if (is_number(x, 0)) return keeps(args[2]);
      if (y == args[2]) return y;
      break;
    case Op::less:
    case Op::less_equal:
    case Op::greater:
    case Op::greater_equal:
    case Op::equal:
    case Op::not_equal:
      return compare_positions(op, args);
    default:
      break;
  }
  return kNoNode;
}

// `i >= j`, `j + 64 > i` and their like compare a distance: written with d they become diagonal, and
// provable. Integers below 2^24 are exact, so moving terms across is safe here, unlike for floats.
NodeId Graph::compare_positions(Op op, const std::vector<NodeId>& args) {
  Linear difference;
  if (!to_linear(*this, args[0], 1, difference) || !to_linear(*this, args[1], -1, difference)) return kNoNode;
  const NodeId i = row(), j = column(), d = distance();
  const double row_factor = difference.terms.contains(i) ? difference.terms[i] : 0;
  const double column_factor = difference.terms.contains(j) ? difference.terms[j] : 0;
  if (std::fabs(row_factor) != 1 || row_factor != -column_factor) return kNoNode;
  difference.terms.erase(i);
  difference.terms.erase(j);
  if (!may_move(*this, difference)) return kNoNode;
  const bool mirrored = row_factor < 0;  // -d < c is d > -c
  NodeId right = number(mirrored ? difference.constant : 0 - difference.constant, Type::integer);
  for (const auto& [term, factor] : difference.terms) {
    if (factor == 0) continue;
    const NodeId scaled = apply(Op::multiply, {number(std::fabs(factor), Type::integer), term});
    right = apply((factor > 0) == mirrored ? Op::add : Op::subtract, {right, scaled});
  }
  Node node{.op = mirrored ? mirror(op) : op, .type = Type::boolean};
  node.args = {d, right};
  return intern(std::move(node));
}

std::vector<NodeId> Graph::reachable(const std::vector<NodeId>& roots) const {
  std::vector<bool> needed(nodes_.size(), false);
  for (NodeId root : roots)
    if (root != kNoNode) needed[static_cast<size_t>(root)] = true;
  // Operands are always older than their users, so one sweep from young to old finds everything.
  for (NodeId id = size() - 1; id >= 0; --id) {
    if (!needed[static_cast<size_t>(id)]) continue;
    for (NodeId arg : (*this)[id].args) needed[static_cast<size_t>(arg)] = true;
  }
  std::vector<NodeId> result;
  for (NodeId id = 0; id < size(); ++id)
    if (needed[static_cast<size_t>(id)]) result.push_back(id);
  return result;
}

namespace {

// Turns nodes back into syntax, so that there is one printer; gives up on the details once the text would be
// too long.
class Unparser {
 public:
  Unparser(const Graph& graph, const std::map<NodeId, std::string>& names, size_t budget)
      : graph_(graph), names_(names), budget_(static_cast<int64_t>(budget)) {}

  ExpressionPtr expression(NodeId id) {
    if (const auto named = names_.find(id); named != names_.end()) return leaf(named->second);
    const Node& node = graph_[id];
    if (--budget_ < 0) return leaf("...");
    switch (node.op) {
      case Op::number:
        return number(node);
      case Op::variable:
        return leaf(std::string(name_of(static_cast<Variable>(node.symbol))));
      case Op::stream:
        return leaf(name(graph_.stream_names, node.symbol, "s"));
      case Op::read: {
        if (node.args.empty()) return leaf(name(graph_.table_names, node.symbol, "table"));
        Expression result{.kind = Expression::Kind::subscript, .span = {}};
        result.name = name(graph_.table_names, node.symbol, "table");
        for (NodeId arg : node.args) result.arguments.push_back(expression(arg));
        return std::make_shared<Expression>(std::move(result));
      }
      case Op::softmax:
      case Op::l1:
      case Op::softpick: {
        Expression result{.kind = Expression::Kind::call, .span = {}};
        for (const NormOperation& row : norm_operations())
          if (row.op == node.op) result.name = row.name;
        result.arguments = {expression(node.args[0])};
        if (node.args.size() > 1) result.sink = expression(node.args[1]);
        return std::make_shared<Expression>(std::move(result));
      }
      default:
        break;
    }
    Expression result{.kind = Expression::Kind::call, .span = {}};
    const Operation& row = operation(node.op);
    result.name = row.name;
    if (row.precedence > 0) result.op = node.op;
    for (NodeId arg : node.args) result.arguments.push_back(expression(arg));
    return std::make_shared<Expression>(std::move(result));
  }

 private:
  static ExpressionPtr leaf(std::string name) {
    Expression result{.kind = Expression::Kind::name, .span = {}};
    result.name = std::move(name);
    return std::make_shared<Expression>(std::move(result));
  }
  static std::string name(const std::vector<std::string>& names, int32_t index, const char* otherwise) {
    return static_cast<size_t>(index) < names.size() ? names[static_cast<size_t>(index)] : otherwise;
  }
  static ExpressionPtr number(const Node& node) {
    if (node.type == Type::boolean) return leaf(node.number != 0 ? "full" : "not full");
    if (std::isinf(node.number)) return leaf(node.number > 0 ? "inf" : "-inf");
    if (std::isnan(node.number)) return leaf("nan");
    Expression result{.kind = Expression::Kind::number, .span = {}};
    result.number = std::fabs(node.number);
    result.integer = node.type == Type::integer ||
                     (node.number == std::floor(node.number) && std::fabs(node.number) < 1e15);
    auto magnitude = std::make_shared<Expression>(result);
    if (!std::signbit(node.number)) return magnitude;
    Expression negated{.kind = Expression::Kind::call, .span = {}};
    negated.op = Op::negate;
    negated.name = "-";
    negated.arguments = {magnitude};
    return std::make_shared<Expression>(std::move(negated));
  }

  const Graph& graph_;
  const std::map<NodeId, std::string>& names_;
  int64_t budget_;
};

}  // namespace

std::string Graph::print(NodeId id, const std::map<NodeId, std::string>& names, size_t longest) const {
  std::string text = saccade::print(*Unparser(*this, names, longest / 2).expression(id));
  if (text.size() > longest) text = text.substr(0, longest) + " ...";
  return text;
}

}  // namespace saccade
