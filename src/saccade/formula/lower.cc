// Names and types of expressions. A name is lowered when it is first needed, so statements may stand in any
// order.
#include "saccade/formula/lower.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "saccade/base/text.h"
#include "saccade/formula/parser.h"

namespace saccade {
namespace {

constexpr int kMostNested = 2000;  // definitions within definitions; keeps recursion within any stack

template <size_t N>
bool contains(const std::string_view (&list)[N], std::string_view name) {
  return std::ranges::find(list, name) != std::end(list);
}

}  // namespace

bool is_output(std::string_view name) { return contains(kOutputs, name); }
bool is_builtin(std::string_view name) { return contains(kBuiltins, name); }
bool is_layer_tensor(std::string_view name) { return contains(kLayerTensors, name); }

std::string_view describe(Type type) {
  return type == Type::boolean ? "a condition" : type == Type::integer ? "an integer" : "a number";
}

NodeId Lowering::resolve(const std::string& name, Span span) {
  used_.insert(name);
  const std::pair key{name, slots_ && plan_.graph.has_position_input()};
  if (const auto known = resolved_.find(key); known != resolved_.end()) return known->second;
  if (std::ranges::find(open_, name) != open_.end()) {
    std::string path;
    for (auto it = std::ranges::find(open_, name); it != open_.end(); ++it) path += *it + " -> ";
    diagnostics_.report(span, "'{}' is defined by itself: {}{}", name, path, name);
    return kNoNode;
  }
  open_.push_back(name);
  const NodeId node = resolve_new(name, span);
  open_.pop_back();
  if (node != kNoNode && !key.second && !is_output(name) && statements_.contains(name) &&
      statements_.at(name)->kind == Statement::Kind::let)
    plan_.lets.emplace_back(name, node);
  return resolved_[key] = node;
}

NodeId Lowering::resolve_new(const std::string& name, Span span) {
  Graph& graph = plan_.graph;
  if (name == "n") return length();
  for (size_t index = 1; index < plan_.streams.size(); ++index)
    if (plan_.streams[index].name == name) return graph.stream(static_cast<int>(index));
  if (const auto found = statements_.find(name); found != statements_.end()) {
    const Statement& statement = *found->second;
    switch (statement.kind) {
      case Statement::Kind::constant: {
        const auto override = overrides_.find(name);
        const auto value = constant_value(*statement.value, "a constant");
        if (!value) return kNoNode;
        const double chosen = override == overrides_.end() ? *value : override->second;
        const bool whole = std::isfinite(chosen) && chosen == std::floor(chosen);
        return graph.number(chosen, whole ? Type::integer : Type::real);
      }
      case Statement::Kind::param:
      case Statement::Kind::input:
      case Statement::Kind::token:
        return read(name, nullptr, span);
      case Statement::Kind::vector:
        diagnostics_.report(span, "'{}' is a vector; a stream makes a number of it: 'stream t = {} . k'",
                            name, name);
        return kNoNode;
      case Statement::Kind::stream:
        diagnostics_.report(span, "'{}' is a stream and cannot be used here", name);
        return kNoNode;
      case Statement::Kind::let:
        return lower(*statement.value);
    }
  }
  if (name == "mask") return graph.boolean(true);
  if (name == "score") return graph.stream(0);
  unknown_name(name, span);
  return kNoNode;
}

NodeId Lowering::length() {
  Graph& graph = plan_.graph;
  const auto override = overrides_.find("n");
  if (override != overrides_.end()) return graph.number(override->second, Type::integer);
  const auto statement = statements_.find("n");
  if (statement == statements_.end()) return graph.variable(Variable::n);
  const auto value = constant_value(*statement->second->value, "a constant");
  return value ? graph.number(*value, Type::integer) : kNoNode;
}

void Lowering::unknown_name(const std::string& name, Span span) {
  if (broken_.contains(name)) return;
  if (find_call(name) || find_norm(name)) {
    diagnostics_.report(span, "'{}' is a function; write {}(...)", name, name);
    return;
  }
  if (is_layer_tensor(name)) {
    diagnostics_.report(span, "'{}' is a tensor of the layer; only vector, token and stream can use it",
                        name);
    return;
  }
  std::vector<std::string> candidates(broken_.begin(), broken_.end());
  for (const auto& [known, statement] : statements_) candidates.push_back(known);
  for (std::string_view builtin : kBuiltins) candidates.emplace_back(builtin);
  diagnostics_.report(span, "unknown name '{}'{}", name, did_you_mean(name, candidates));
}

// An expression that must be a number without a norm in it.
NodeId Lowering::number(const Expression& expression) {
  const NodeId node = lower(expression);
  if (node == kNoNode || !plain(node, expression)) return kNoNode;
  if (plan_.graph[node].type != Type::boolean) return node;
  diagnostics_.report(expression.span, "expected a number, but '{}' is a condition", print(expression));
  return kNoNode;
}

NodeId Lowering::lower(const Expression& expression) {
  if (++nested_ > kMostNested) {
    --nested_;
    diagnostics_.report(expression.span, "the definitions are nested more than {} deep", kMostNested);
    return kNoNode;
  }
  const NodeId node = lower_unguarded(expression);
  --nested_;
  if (node == kNoNode) return kNoNode;
  if (plan_.graph[node].depth > Limits::graph_depth) {
    diagnostics_.report(expression.span, "the formula is more than {} operations deep here",
                        Limits::graph_depth);
    return kNoNode;
  }
  if (plan_.graph.size() > Limits::graph_nodes) {
    diagnostics_.report(expression.span, "the formula has more than {} operations", Limits::graph_nodes);
    return kNoNode;
  }
  return node;
}

NodeId Lowering::lower_unguarded(const Expression& expression) {
  Graph& graph = plan_.graph;
  switch (expression.kind) {
    case Expression::Kind::number:
      return graph.number(expression.number, expression.integer ? Type::integer : Type::real);
    case Expression::Kind::name:
      return lower_name(expression);
    case Expression::Kind::subscript:
      return read(expression.name, &expression, expression.span);
    case Expression::Kind::call:
      return lower_call(expression);
  }
  return kNoNode;
}

NodeId Lowering::lower_name(const Expression& expression) {
  Graph& graph = plan_.graph;
  const std::string& name = expression.name;
  if (name == "s") return graph.stream(0);
  if (name == "i") return slots_ ? graph.variable(Variable::i) : graph.row();
  if (name == "j") return slots_ ? graph.variable(Variable::j) : graph.column();
  if (name == "d") return slots_ ? graph.variable(Variable::d) : graph.distance();
  if (name == "h") return graph.variable(Variable::h);
  if (name == "H") return graph.variable(Variable::H);
  if (name == "full") return graph.boolean(true);
  if (name == "causal")
    return graph.apply(Op::greater_equal, {graph.distance(), graph.number(0, Type::integer)});
  if (name == "inf") return graph.number(std::numeric_limits<double>::infinity(), Type::real);
  return resolve(name, expression.span);
}

NodeId Lowering::lower_call(const Expression& expression) {
  if (const NormOperation* norm = expression.op ? nullptr : find_norm(expression.name))
    return lower_norm(*norm, expression);
  const Operation* row = expression.op ? &operation(*expression.op) : find_call(expression.name);
  if (!row) {
    unknown_function(expression);
    for (const ExpressionPtr& argument : expression.arguments) lower(*argument);
    return kNoNode;
  }
  if (expression.sink) {
    diagnostics_.report(expression.sink->span, "only softmax has a sink");
    return kNoNode;
  }
  const bool variadic = row->op == Op::min || row->op == Op::max;
  const int given = static_cast<int>(expression.arguments.size());
  if (given != row->arity && !(variadic && given > 2)) {
    diagnostics_.report(expression.span, "'{}' takes {}, not {}; for example '{}'", row->name,
                        plural(row->arity, "argument"), given, row->example);
    return kNoNode;
  }
  std::vector<NodeId> args;
  for (const ExpressionPtr& argument : expression.arguments) args.push_back(lower(*argument));
  if (std::ranges::find(args, kNoNode) != args.end()) return kNoNode;
  if (!types_fit(*row, args, expression) || !norms_fit(*row, args, expression)) return kNoNode;
  NodeId result = args[0];
  if (!variadic) return plan_.graph.apply(row->op, args);
  for (size_t index = 1; index < args.size(); ++index)
    result = plan_.graph.apply(row->op, {result, args[index]});
  return result;
}

void Lowering::unknown_function(const Expression& expression) {
  std::vector<std::string_view> candidates;
  for (const Operation& candidate : operations())
    if (candidate.precedence == 0) candidates.push_back(candidate.name);
  for (const NormOperation& candidate : norm_operations()) candidates.push_back(candidate.name);
  const auto near = nearest(expression.name, candidates);
  const bool host =
      std::ranges::any_of(host_operations(), [&](const auto& row) { return row.name == expression.name; });
  diagnostics_.report(expression.span, "unknown function '{}'; {}", expression.name,
                      host   ? std::string("it belongs to vector and token definitions")
                      : near ? fmt::format("did you mean '{}'?", *near)
                             : "the functions are " + join(candidates, ", "));
}

bool Lowering::types_fit(const Operation& row, const std::vector<NodeId>& args,
                         const Expression& expression) {
  bool fits = true;
  const auto demand = [&](size_t index, bool boolean) {
    const Expression& argument = *expression.arguments[index];
    const Type type = plan_.graph[args[index]].type;
    if ((type == Type::boolean) == boolean) return;
    fits = false;
    diagnostics_.report(argument.span, "'{}' needs {} here, but '{}' is {}", row.name,
                        boolean ? "a condition" : "a number", print(argument), describe(type));
  };
  switch (row.type) {
    case TypeRule::logic:
      for (size_t index = 0; index < args.size(); ++index) demand(index, true);
      break;
    case TypeRule::select: {
      demand(0, true);
      const bool first = plan_.graph[args[1]].type == Type::boolean,
                 second = plan_.graph[args[2]].type == Type::boolean;
      if (first != second) {
        fits = false;
        diagnostics_.report(expression.span,
                            "the two branches of where must be of one kind; '{}' is {} and '{}' is {}",
                            print(*expression.arguments[1]), describe(plan_.graph[args[1]].type),
                            print(*expression.arguments[2]), describe(plan_.graph[args[2]].type));
      }
      break;
    }
    case TypeRule::keep:
    case TypeRule::to_real:
    case TypeRule::to_integer:
    case TypeRule::compare:
      for (size_t index = 0; index < args.size(); ++index) demand(index, false);
      break;
  }
  return fits;
}

// Weights are linear in their norms: sums, differences, products with plain factors, and choices.
bool Lowering::norms_fit(const Operation& row, const std::vector<NodeId>& args,
                         const Expression& expression) {
  for (size_t index = 0; index < args.size(); ++index) {
    if (!has_norm(args[index])) continue;
    const bool linear = row.op == Op::add || row.op == Op::subtract || row.op == Op::negate ||
                        (row.op == Op::divide && index == 0) || (row.op == Op::where && index > 0) ||
                        (row.op == Op::multiply && !has_norm(args[1 - index]));
    if (linear) continue;
    if (row.op == Op::multiply)
      diagnostics_.report(expression.span, "a product may have at most one norm; '{}' has two",
                          print(expression));
    else
      diagnostics_.report(expression.span,
                          "a norm may be added, subtracted, scaled or chosen by where, not used as in '{}'",
                          print(expression));
    return false;
  }
  return true;
}

NodeId Lowering::lower_norm(const NormOperation& row, const Expression& expression) {
  if (expression.arguments.size() != 1) {
    diagnostics_.report(expression.span, "'{}' takes 1 argument, not {}; for example '{}'", row.name,
                        expression.arguments.size(), row.example);
    return kNoNode;
  }
  const NodeId argument = number(*expression.arguments[0]);
  NodeId sink = kNoNode;
  if (expression.sink) {
    if (!row.has_sink)
      diagnostics_.report(expression.sink->span, "only softmax has a sink, not {}", row.name);
    sink = number(*expression.sink);
    if (sink == kNoNode || !row.has_sink) return kNoNode;
    const Rate rate = plan_.graph.rate(sink);
    if (rate != Rate::constant && rate != Rate::head && rate != Rate::row) {
      diagnostics_.report(expression.sink->span,
                          "a sink belongs to a whole row: '{}' must not depend on s, j or d",
                          print(*expression.sink));
      return kNoNode;
    }
  }
  if (argument == kNoNode) return kNoNode;
  return plan_.graph.norm(row.op, argument, sink);
}

bool Lowering::has_norm(NodeId node) {
  if (const auto known = has_norm_.find(node); known != has_norm_.end()) return known->second;
  bool result = is_norm(plan_.graph[node].op);
  for (NodeId arg : plan_.graph[node].args) result |= !is_norm(plan_.graph[node].op) && has_norm(arg);
  return has_norm_[node] = result;
}

bool Lowering::plain(NodeId node, const Expression& expression) {
  if (!has_norm(node)) return true;
  diagnostics_.report(expression.span, "norms such as softmax belong to weights; '{}' has one",
                      print(expression));
  return false;
}

NodeId Lowering::read(const std::string& name, const Expression* subscript, Span span) {
  used_.insert(name);
  const auto found = statements_.find(name);
  const bool declared = found != statements_.end();
  const int index = plan_.table_index(name);
  if (index < 0) {
    if (declared || is_builtin(name)) {
      using Kind = Statement::Kind;
      const Kind kind = declared ? found->second->kind : Kind::let;
      if (kind == Kind::param || kind == Kind::input || kind == Kind::token)
        diagnostics_.report(span, "'{}' cannot be used here", name);  // it is declared later
      else
        diagnostics_.report(span, "'{}' is not a table and cannot be subscripted", name);
    } else {
      unknown_name(name, span);
    }
    return kNoNode;
  }
  const TableInfo& table = plan_.tables[static_cast<size_t>(index)];
  const std::vector<Dimension> wanted = table.subscripted();
  const size_t given = subscript ? subscript->arguments.size() : 0;
  if (given != wanted.size() || (subscript && subscript->sink)) {
    std::vector<std::string> names;
    for (const Dimension& dimension : wanted) names.push_back(to_string(dimension));
    if (wanted.empty())
      diagnostics_.report(span, "'{}' takes no subscript; batch and head are implied", name);
    else
      diagnostics_.report(span, "'{}' takes {} here, by {}; batch and head are implied", name,
                          plural(static_cast<int64_t>(wanted.size()), "subscript"), join(names, ", "));
    return kNoNode;
  }
  std::vector<NodeId> subscripts;
  for (size_t place = 0; place < wanted.size(); ++place)
    subscripts.push_back(lower_subscript(wanted[place], *subscript->arguments[place]));
  if (std::ranges::find(subscripts, kNoNode) != subscripts.end()) return kNoNode;
  return plan_.graph.read(index, table.type, table.implied(), std::move(subscripts));
}

NodeId Lowering::lower_subscript(const Dimension& dimension, const Expression& expression) {
  using Kind = Dimension::Kind;
  const bool by_token =
      dimension.kind == Kind::token || dimension.kind == Kind::query || dimension.kind == Kind::key;
  // A table over tokens is subscripted by places in the sequence, whatever positions the tokens claim to
  // have.
  const bool outer = std::exchange(slots_, by_token);
  const NodeId node = number(expression);
  slots_ = outer;
  if (node == kNoNode) return kNoNode;
  Graph& graph = plan_.graph;
  if (graph[node].type != Type::integer) {
    diagnostics_.report(expression.span,
                        "a subscript must be an integer, but '{}' is a real number; floor(...) makes it one",
                        print(expression));
    return kNoNode;
  }
  const bool wrong_query = dimension.kind == Kind::query && node != graph.variable(Variable::i);
  const bool wrong_key = dimension.kind == Kind::key && node != graph.variable(Variable::j);
  if (wrong_query || wrong_key) {
    diagnostics_.report(expression.span, "the dimension '{}' is subscripted by {} alone, not by '{}'",
                        to_string(dimension), wrong_query ? "i" : "j", print(expression));
    return kNoNode;
  }
  return node;
}

// The value of an expression that must not depend on anything but other constants.
std::optional<double> Lowering::constant_value(const Expression& expression, std::string_view what) {
  const NodeId node = number(expression);
  if (node == kNoNode) return std::nullopt;
  if (plan_.graph[node].op != Op::number) {
    diagnostics_.report(expression.span, "{} must be a number; '{}' depends on more than constants", what,
                        print(expression));
    return std::nullopt;
  }
  if (std::isnan(plan_.graph[node].number)) {
    diagnostics_.report(expression.span, "{} must be a number; '{}' is none", what, print(expression));
    return std::nullopt;
  }
  return plan_.graph[node].number;
}

}  // namespace saccade
