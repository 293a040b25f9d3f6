// The analyses. Each answers one question about the plan and writes the answer, with its reason, back into
// it.
#include "saccade/formula/analysis.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "saccade/base/error.h"
#include "saccade/formula/bounds.h"
#include "saccade/formula/derivative.h"

namespace saccade {
namespace {

// --- terms
// ----------------------------------------------------------------------------------------------------------------

// weights as a sum over norms: for each norm its coefficient, and under kNoNode what has no norm. Sharing
// keeps this linear in the size of the graph, however often a let is reused.
class Terms {
 public:
  explicit Terms(Graph& graph) : graph_(graph) {}

  using Sum = std::map<NodeId, NodeId>;  // norm -> coefficient

  const Sum& of(NodeId id) {
    if (const auto known = memo_.find(id); known != memo_.end()) return known->second;
    Sum sum = compute(id);
    return memo_[id] = std::move(sum);
  }

 private:
  bool has_norm(NodeId id) {
    const Sum& sum = of(id);
    return sum.size() > 1 || !sum.contains(kNoNode);
  }

  Sum compute(NodeId id) {
    const Node node = graph_[id];
    if (is_norm(node.op)) return {{id, graph_.number(1, Type::real)}};
    bool any = false;
    if (!is_leaf(node.op))
      for (NodeId arg : node.args) any |= has_norm(arg);
    if (!any) return {{kNoNode, id}};
    const auto map = [&](const Sum& sum, auto f) {
      Sum result;
      for (const auto& [norm, coefficient] : sum) result[norm] = f(coefficient);
      return result;
    };
    switch (node.op) {
      case Op::negate:
        return map(of(node.args[0]), [&](NodeId c) { return graph_.apply(Op::negate, {c}); });
      case Op::add:
      case Op::subtract: {
        Sum result = of(node.args[0]);
        for (const auto& [norm, coefficient] : of(node.args[1])) {
          if (result.contains(norm))
            result[norm] = graph_.apply(node.op, {result[norm], coefficient});
          else
            result[norm] = node.op == Op::add ? coefficient : graph_.apply(Op::negate, {coefficient});
        }
        return result;
      }
      case Op::multiply: {
        const size_t side = has_norm(node.args[0]) ? 0 : 1;
        const NodeId factor = node.args[1 - side];
        return map(of(node.args[side]), [&](NodeId c) { return graph_.apply(Op::multiply, {c, factor}); });
      }
      case Op::divide:
        return map(of(node.args[0]), [&](NodeId c) { return graph_.apply(Op::divide, {c, node.args[1]}); });
      case Op::where: {
        const NodeId zero = graph_.number(0, Type::real);
        Sum result;
        for (const auto& [norm, coefficient] : of(node.args[1]))
          result[norm] = graph_.apply(Op::where, {node.args[0], coefficient, zero});
        for (const auto& [norm, coefficient] : of(node.args[2])) {
          const NodeId chosen = graph_.apply(Op::where, {node.args[0], zero, coefficient});
          result[norm] = result.contains(norm) ? graph_.apply(Op::add, {result[norm], chosen}) : chosen;
        }
        return result;
      }
      default:
        break;
    }
    invariant(false, "weights are not linear in a norm");
    return {};
  }

  Graph& graph_;
  std::map<NodeId, Sum> memo_;
};

void find_terms(Plan& plan) {
  Graph& graph = plan.graph;
  Terms terms(graph);
  const Terms::Sum sum = terms.of(plan.weights);
  for (const auto& [node, coefficient] : sum) {
    int norm = -1;
    if (node != kNoNode) {
      norm = static_cast<int>(plan.norms.size());
      const Node& info = graph[node];
      plan.norms.push_back({node, info.op, info.args[0], info.args.size() > 1 ? info.args[1] : kNoNode});
    }
    plan.terms.push_back({coefficient, norm});
  }
}

// --- derivatives
// ----------------------------------------------------------------------------------------------------------

void find_derivatives(Plan& plan) {
  const auto is_target = [&plan](NodeId id) {
    const Node& node = plan.graph[id];
    if (node.op == Op::stream) return true;
    return node.op == Op::read && plan.tables[static_cast<size_t>(node.symbol)].differentiable();
  };
  std::set<NodeId> roots;
  for (const NormInfo& norm : plan.norms) {
    roots.insert(norm.argument);
    if (norm.sink != kNoNode) roots.insert(norm.sink);
  }
  for (const TermInfo& term : plan.terms) roots.insert(term.coefficient);
  for (NodeId root : roots)
    for (const Partial& partial : differentiate(plan.graph, root, is_target))
      plan.derivatives.push_back({root, partial.by, partial.value});
}

// --- decoding
// -------------------------------------------------------------------------------------------------------------

// Whether the mask is provably false for every pair whose distance lies in the interval.
bool never_allows(Plan& plan, Interval distance) {
  const NodeId d = plan.graph.distance();
  if (d >= plan.graph.size()) return false;
  Bounds bounds(plan);
  bounds.set(d, distance);
  return bounds.of(plan.mask).always_false();
}

// A place in the sequence that is not after the query: i, j (which the mask keeps at or before i) or either
// minus a constant.
bool is_past(const Graph& graph, NodeId subscript) {
  const Node& node = graph[subscript];
  // Of the variables only these two: h or a fixed place may lie ahead.
  if (node.op == Op::variable)
    return node.symbol == static_cast<int32_t>(Variable::i) ||
           node.symbol == static_cast<int32_t>(Variable::j);
  if (node.op == Op::max)
    return graph[node.args[1]].op == Op::number && graph[node.args[1]].number <= 0 &&
           is_past(graph, node.args[0]);
  return node.op == Op::subtract && graph[node.args[0]].op == Op::variable && is_past(graph, node.args[0]) &&
         graph[node.args[1]].op == Op::number && graph[node.args[1]].number >= 0;
}

// The first read of a token table that may look ahead, as text; empty when there is none.
std::string future_read(const Plan& plan) {
  for (NodeId id : plan.graph.reachable(plan.outputs())) {
    const Node& node = plan.graph[id];
    if (node.op != Op::read) continue;
    const std::vector<Dimension> dimensions = plan.tables[static_cast<size_t>(node.symbol)].subscripted();
    for (size_t place = 0; place < dimensions.size(); ++place)
      if (dimensions[place].kind == Dimension::Kind::token && !is_past(plan.graph, node.args[place]))
        return plan.graph.print(id, {});
  }
  return "";
}

std::optional<int64_t> ring_size(Plan& plan) {
  const auto suffices = [&](int64_t size) {
    return never_allows(plan, {static_cast<double>(size), kMostPositions});
  };
  const auto limit = static_cast<int64_t>(kMostPositions) - 1;
  if (!suffices(limit)) return std::nullopt;
  int64_t low = 0, high = limit;  // high suffices
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (suffices(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return std::max<int64_t>(high, 1);
}

// In a ring, places are not positions: only reads at exactly [i] or [j] can be followed there.
bool ring_allowed(const Plan& plan) {
  if (plan.position_table() >= 0) return false;
  for (NodeId id : plan.graph.reachable(plan.outputs())) {
    const Node& node = plan.graph[id];
    if (node.op != Op::read) continue;
    const std::vector<Dimension> dimensions = plan.tables[static_cast<size_t>(node.symbol)].subscripted();
    for (size_t place = 0; place < dimensions.size(); ++place)
      if (dimensions[place].kind == Dimension::Kind::token && plan.graph[node.args[place]].op != Op::variable)
        return false;
  }
  return true;
}

void decide_decoding(Plan& plan) {
  plan.graph.distance();  // make sure that the node exists before bounds are taken
  Decoding& decoding = plan.decoding;
  if (plan.uses_length()) {
    decoding.reason =
        "it reads n, the number of keys, which grows with every token; pin it with 'const n = 2048' or --set "
        "n=2048";
    return;
  }
  if (!never_allows(plan, {-kMostPositions, -1})) {
    decoding.reason =
        "its mask may allow a key that comes after the query (d < 0); add 'causal and' to the mask";
    return;
  }
  if (const std::string read = future_read(plan); !read.empty()) {
    decoding.reason = fmt::format("it reads {}, which may lie in the future", read);
    return;
  }
  decoding.possible = true;
  if (ring_allowed(plan)) decoding.ring = ring_size(plan);
  decoding.reason = "its mask is false for every d < 0, and it reads neither n nor a future token";
}

// --- warnings
// -------------------------------------------------------------------------------------------------------------

void warn_about_subscripts(Plan& plan) {
  Bounds bounds(plan);
  for (NodeId id : plan.graph.reachable(plan.outputs())) {
    const Node& node = plan.graph[id];
    if (node.op != Op::read) continue;
    const TableInfo& table = plan.tables[static_cast<size_t>(node.symbol)];
    const std::vector<Dimension> dimensions = table.subscripted();
    for (size_t place = 0; place < dimensions.size(); ++place) {
      if (dimensions[place].kind != Dimension::Kind::fixed) continue;
      const Interval range = bounds.of(node.args[place]);
      if (range.low >= 0 && range.high <= static_cast<double>(dimensions[place].size - 1) && !range.nan)
        continue;
      plan.warnings.push_back(
          fmt::format("the subscript of {} is not provably within 0..{}; outside it is clamped",
                      plan.graph.print(id, {}), dimensions[place].size - 1));
    }
  }
}

}  // namespace

void analyse(Plan& plan) {
  find_terms(plan);
  find_derivatives(plan);
  decide_decoding(plan);
  warn_about_subscripts(plan);
}

}  // namespace saccade
