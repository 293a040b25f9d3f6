// Rewrites the graph, chooses the cut and compiles the four programs.
#include "saccade/kernels/kernel_plan.h"

#include <cmath>
#include <map>

#include "saccade/formula/bounds.h"
#include "saccade/formula/derivative.h"

namespace saccade::kernels {
namespace {

// Copies of expressions with some nodes replaced.
class Rewriter {
 public:
  Rewriter(Graph& graph, std::map<NodeId, NodeId> replaced) : graph_(graph), copies_(std::move(replaced)) {}

  NodeId operator()(NodeId root) {
    if (root == kNoNode) return root;
    for (NodeId id : graph_.reachable({root})) {
      if (copies_.contains(id)) continue;
      const Node node = graph_[id];
      if (node.args.empty()) {
        copies_[id] = id;
        continue;
      }
      std::vector<NodeId> args;
      for (NodeId arg : node.args) args.push_back(copies_.at(arg));
      copies_[id] = args == node.args ? id
                    : node.op == Op::read
                        ? graph_.read(node.symbol, node.type, implied(node), std::move(args))
                        : graph_.apply(node.op, std::move(args));
    }
    return copies_.at(root);
  }

 private:
  // What a read depends on by its own dimensions.
  Reads implied(const Node& node) const { return node.reads & (kReadsHead | kReadsBatch); }

  Graph& graph_;
  std::map<NodeId, NodeId> copies_;
};

struct TermNodes {
  NodeId argument = kNoNode, coefficient = kNoNode, sink = kNoNode;
};

class Builder {
 public:
  Builder(const Plan& plan, bool key_mask) : key_mask_(key_mask) { out_.plan = plan; }

  KernelPlan run() {
    collect();
    if (key_mask_) add_key_mask();
    apply_scale();
    fold_addends();
    find_band();
    compile_forward();
    find_targets();
    return std::move(out_);
  }

 private:
  Graph& graph() { return out_.plan.graph; }

  void collect() {
    const Plan& plan = out_.plan;
    for (const StreamInfo& stream : plan.streams)
      out_.products.push_back({stream.query_vector + 1, stream.key_vector + 1});
    scales_.assign(plan.streams.size(), plan.scale);
    for (const TermInfo& info : plan.terms) {
      Term term;
      TermNodes nodes{.coefficient = info.coefficient};
      if (info.norm >= 0) {
        const NormInfo& norm = plan.norms[static_cast<size_t>(info.norm)];
        term.norm = norm.kind;
        nodes.argument = norm.argument;
        nodes.sink = norm.sink;
      }
      // The norms are named by their order among the terms: a term's norm is found again by it.
      out_.terms.push_back(term);
      nodes_.push_back(nodes);
    }
  }

  void add_key_mask() {
    Plan& plan = out_.plan;
    out_.key_mask_table = static_cast<int>(plan.tables.size());
    TableInfo table;
    table.source = TableInfo::Source::input;
    table.name = "key mask";
    table.type = Type::boolean;
    table.dimensions = {Dimension{Dimension::Kind::batch}, Dimension{Dimension::Kind::key}};
    plan.tables.push_back(table);
    graph().table_names.push_back(table.name);
    const NodeId real =
        graph().read(out_.key_mask_table, Type::boolean, kReadsBatch, {graph().variable(Variable::j)});
    plan.mask = graph().apply(Op::logical_and, {plan.mask, real});
  }

  std::vector<NodeId*> pair_roots() {
    std::vector<NodeId*> roots{&out_.plan.mask};
    for (TermNodes& nodes : nodes_) {
      if (nodes.argument != kNoNode) roots.push_back(&nodes.argument);
      roots.push_back(&nodes.coefficient);
    }
    return roots;
  }

  bool learned(NodeId id) {
    if (const auto known = learned_.find(id); known != learned_.end()) return known->second;
    const Node& node = graph()[id];
    bool result = node.op == Op::read && differentiable(node);
    if (node.op != Op::read)
      for (NodeId arg : node.args) result |= learned(arg);
    return learned_[id] = result;
  }

  bool differentiable(const Node& read) const {
    return out_.plan.tables[static_cast<size_t>(read.symbol)].differentiable();
  }

  // A scale that is learned becomes part of the expressions, where its gradient follows from the rules.
  void apply_scale() {
    if (out_.plan.scale == kNoNode || !learned(out_.plan.scale)) return;
    std::map<NodeId, NodeId> replaced;
    for (size_t index = 0; index < out_.products.size(); ++index) {
      const NodeId stream = graph().stream(static_cast<int>(index));
      replaced[stream] = graph().apply(Op::multiply, {stream, out_.plan.scale});
      scales_[index] = graph().number(1, Type::real);
    }
    Rewriter rewrite(graph(), replaced);
    for (NodeId* root : pair_roots()) *root = rewrite(*root);
  }

  // A stream that is only ever read as stream + value, with a value per column or diagonal, gets the value
  // while it is still in registers.
  void fold_addends() {
    std::map<NodeId, NodeId> replaced;
    for (size_t index = 0; index < out_.products.size(); ++index) {
      const NodeId stream = graph().stream(static_cast<int>(index));
      NodeId user = kNoNode;
      int users = 0;
      std::vector<NodeId> roots;
      for (NodeId* root : pair_roots()) {
        roots.push_back(*root);
        users += *root == stream;
      }
      for (NodeId id : graph().reachable(roots))
        for (NodeId arg : graph()[id].args)
          if (arg == stream) {
            user = id;
            ++users;
          }
      if (users != 1 || user == kNoNode) continue;
      const Node node = graph()[user];
      if (node.op != Op::add && node.op != Op::subtract) continue;
      NodeId addend = node.args[0] == stream ? node.args[1] : node.args[0];
      if (node.op == Op::subtract) {
        if (node.args[0] != stream) continue;
        addend = graph().apply(Op::negate, {addend});
      }
      const Rate rate = graph().rate(addend);
      if (rate != Rate::column && rate != Rate::diagonal) continue;
      out_.products[index].addend_node = addend;
      replaced[user] = stream;
    }
    if (replaced.empty()) return;
    Rewriter rewrite(graph(), replaced);
    for (NodeId* root : pair_roots()) *root = rewrite(*root);
  }

  bool mask_is(bool value, Interval distance) {
    Bounds bounds(out_.plan);
    bounds.set(Variable::d, distance);
    const Interval mask = bounds.of(out_.plan.mask);
    return value ? mask.always_true() : mask.always_false();
  }

  // The smallest distance from which on the mask is false in one direction, by bisection.
  std::optional<int64_t> last_allowed(int64_t sign) {
    const auto limit = static_cast<int64_t>(kMostPositions);
    const auto none_beyond = [&](int64_t distance) {
      const auto from = static_cast<double>(sign * (distance + 1)), to = static_cast<double>(sign * limit);
      return mask_is(false, sign > 0 ? Interval{from, to} : Interval{to, from});
    };
    if (!none_beyond(limit - 2)) return std::nullopt;
    int64_t low = -limit + 2, high = limit - 2;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (none_beyond(middle))
        high = middle;
      else
        low = middle + 1;
    }
    return sign * high;
  }

  void find_band() {
    out_.masked = !graph().is_number(out_.plan.mask, 1);
    if (!out_.masked || graph().has_position_input()) return;
    graph().variable(Variable::d);  // known to the bounds
    Band& band = out_.band;
    band.low = last_allowed(-1);
    band.high = last_allowed(1);
    const double low = band.low ? static_cast<double>(*band.low) : -kMostPositions;
    const double high = band.high ? static_cast<double>(*band.high) : kMostPositions;
    band.exact = low <= high && mask_is(true, {low, high});
  }

  void compile_forward() {
    Plan& plan = out_.plan;
    out_.mask = compile(plan, {plan.mask});
    std::vector<NodeId> roots;
    std::vector<Operand*> places;
    const auto want = [&](NodeId node, Operand& place) {
      if (node == kNoNode) return;
      roots.push_back(node);
      places.push_back(&place);
    };
    for (size_t index = 0; index < out_.products.size(); ++index) {
      want(scales_[index], out_.products[index].scale);
      want(out_.products[index].addend_node, out_.products[index].addend);
    }
    for (size_t index = 0; index < out_.terms.size(); ++index) {
      Term& term = out_.terms[index];
      want(nodes_[index].argument, term.argument);
      want(nodes_[index].coefficient, term.coefficient);
      want(nodes_[index].sink, term.sink);
      const Rate rate = graph().rate(nodes_[index].coefficient);
      term.inside = !term.norm || (rate != Rate::constant && rate != Rate::head && rate != Rate::row);
      term.unit = graph().is_number(nodes_[index].coefficient, 1);
    }
    out_.forward = compile(plan, roots);
    for (size_t index = 0; index < roots.size(); ++index) *places[index] = out_.forward.outputs[index];
  }

  // The adjoint times a derivative, in which zero always wins: where no gradient arrives, none leaves.
  NodeId gated(NodeId adjoint, NodeId derivative) {
    Graph& g = graph();
    if (g.is_number(derivative, 1)) return adjoint;
    const NodeId product = g.apply(Op::multiply, {adjoint, derivative});
    const Interval range = Bounds(out_.plan).of(derivative);
    if (std::isfinite(range.low) && std::isfinite(range.high) && !range.nan) return product;
    const NodeId zero = g.number(0, Type::real);
    return g.apply(Op::where, {g.apply(Op::not_equal, {adjoint, zero}), product, zero});
  }

  bool is_cut(NodeId id) {
    const Node& node = graph()[id];
    if (node.op == Op::stream) return true;
    if (graph().rate(id) != Rate::tile) return learned(id);
    return node.op == Op::read && differentiable(node);
  }

  void find_targets() {
    Graph& g = graph();
    std::map<NodeId, NodeId> adjoints;
    const auto add_root = [&](NodeId root, int stream) {
      const NodeId adjoint = g.stream(stream);
      for (const Partial& partial : differentiate(g, root, [this](NodeId id) { return is_cut(id); })) {
        const NodeId part = gated(adjoint, partial.value);
        const auto known = adjoints.find(partial.by);
        adjoints[partial.by] = known == adjoints.end() ? part : g.apply(Op::add, {known->second, part});
      }
    };
    for (size_t index = 0; index < out_.terms.size(); ++index) {
      const int term = static_cast<int>(index);
      if (out_.terms[index].norm) add_root(nodes_[index].argument, out_.argument_stream(term));
      if (out_.terms[index].inside)
        add_root(nodes_[index].coefficient, out_.coefficient_stream(term));
      else if (learned(nodes_[index].coefficient))
        add_row_target(term, false, nodes_[index].coefficient);
      if (nodes_[index].sink != kNoNode && learned(nodes_[index].sink))
        add_row_target(term, true, nodes_[index].sink);
    }
    // Adjoint outputs, then the subscripts of tables read per pair.
    std::vector<NodeId> roots;
    for (const auto& [node, adjoint] : adjoints) {
      Target target{.node = node};
      if (g[node].op == Op::stream)
        target.product = g[node].symbol;
      else
        target.rate = g.rate(node);
      out_.targets.push_back(target);
      roots.push_back(adjoint);
    }
    const size_t adjoint_count = roots.size();
    for (Target& target : out_.targets)
      if (target.product < 0 && target.rate == Rate::tile)
        for (NodeId subscript : g[target.node].args) roots.push_back(subscript);
    out_.adjoint = compile(out_.plan, roots);
    size_t next = adjoint_count;
    for (size_t index = 0; index < out_.targets.size(); ++index) {
      Target& target = out_.targets[index];
      target.adjoint = out_.adjoint.outputs[index];
      if (target.product >= 0) {
        const NodeId addend = out_.products[static_cast<size_t>(target.product)].addend_node;
        if (addend != kNoNode && learned(addend)) {
          target.rate = g.rate(addend);
          link(addend, target.links);
        }
      } else if (target.rate == Rate::tile) {
        target.table = g[target.node].symbol;
        for (size_t place = 0; place < g[target.node].args.size(); ++place)
          target.subscripts[place] = out_.adjoint.outputs[next++];
      } else {
        link(target.node, target.links);
      }
    }
    compile_chain();
  }

  void add_row_target(int term, bool sink, NodeId node) {
    out_.row_targets.push_back({term, sink, {}});
    row_nodes_.push_back(node);
  }

  // Notes the links from a value below the cut to the tables it reads; operands follow in compile_chain.
  void link(NodeId node, std::vector<Link>& links) {
    Graph& g = graph();
    const auto is_read = [&](NodeId id) { return g[id].op == Op::read && differentiable(g[id]); };
    for (const Partial& partial : differentiate(g, node, is_read)) {
      Link link{.table = g[partial.by].symbol};
      chain_roots_.push_back(partial.value);
      for (NodeId subscript : g[partial.by].args) chain_roots_.push_back(subscript);
      links.push_back(link);
      chain_arity_.push_back(g[partial.by].args.size());
    }
  }

  void compile_chain() {
    for (size_t index = 0; index < out_.row_targets.size(); ++index)
      link(row_nodes_[index], out_.row_targets[index].links);
    out_.chain = compile(out_.plan, chain_roots_);
    size_t next = 0, number = 0;
    const auto fill = [&](std::vector<Link>& links) {
      for (Link& link : links) {
        link.derivative = out_.chain.outputs[next++];
        for (size_t place = 0; place < chain_arity_[number]; ++place)
          link.subscripts[place] = out_.chain.outputs[next++];
        ++number;
      }
    };
    for (Target& target : out_.targets) fill(target.links);
    for (RowTarget& target : out_.row_targets) fill(target.links);
  }

  const bool key_mask_;
  KernelPlan out_;
  std::vector<TermNodes> nodes_;
  std::vector<NodeId> scales_;
  std::vector<NodeId> row_nodes_;
  std::vector<NodeId> chain_roots_;
  std::vector<size_t> chain_arity_;
  std::map<NodeId, bool> learned_;
};

}  // namespace

int KernelPlan::norms() const {
  int count = 0;
  for (const Term& term : terms) count += term.norm.has_value();
  return count;
}

KernelPlan make_kernel_plan(const Plan& plan, bool key_mask) { return Builder(plan, key_mask).run(); }

Reads slot_reads(const Program& program, const Plan& plan) {
  Reads reads = 0;
  for (Rate rate : {Rate::head, Rate::row, Rate::column, Rate::diagonal, Rate::tile})
    for (const Instruction& instruction : program.stage(rate).code)
      if (rate != Rate::tile || instruction.op == Op::read) reads |= plan.graph[instruction.node].reads;
  return reads & (kReadsBatch | kReadsHead);
}

}  // namespace saccade::kernels
