// Small questions that are asked of a plan in several places.
#include "saccade/formula/plan.h"

#include <algorithm>
#include <map>

namespace saccade {

bool TableInfo::has(Dimension::Kind kind) const {
  return std::ranges::find(dimensions, kind, &Dimension::kind) != dimensions.end();
}

std::vector<Dimension> TableInfo::subscripted() const {
  std::vector<Dimension> result;
  for (const Dimension& dimension : dimensions)
    if (dimension.kind != Dimension::Kind::batch && dimension.kind != Dimension::Kind::head &&
        dimension.kind != Dimension::Kind::layer)
      result.push_back(dimension);
  return result;
}

Reads TableInfo::implied() const {
  using Kind = Dimension::Kind;
  // What belongs to tokens differs between the sequences of a batch, whether or not its declaration says so.
  const bool of_batch = has(Kind::batch) || has(Kind::token) || has(Kind::query) || has(Kind::key);
  return static_cast<Reads>((has(Kind::head) ? kReadsHead : 0) | (of_batch ? kReadsBatch : 0));
}

bool runs_along_tokens(Dimension::Kind kind) {
  return kind == Dimension::Kind::token || kind == Dimension::Kind::query || kind == Dimension::Kind::key;
}

int64_t origin_of(const Dimension& dimension, int64_t size, int64_t offset, int64_t first_key) {
  switch (dimension.kind) {
    case Dimension::Kind::token:
    case Dimension::Kind::key:
      return first_key;
    case Dimension::Kind::query:
      return offset;
    case Dimension::Kind::rel:
      return -((size - 1) / 2);
    case Dimension::Kind::batch:
    case Dimension::Kind::head:
    case Dimension::Kind::layer:
    case Dimension::Kind::fixed:
    case Dimension::Kind::any:
      break;
  }
  return 0;
}

bool TableInfo::rides_in_cache() const {
  int64_t along_tokens = 0;
  for (const Dimension& dimension : dimensions) along_tokens += runs_along_tokens(dimension.kind);
  return along_tokens == 1 && !has(Dimension::Kind::query);
}

std::vector<NodeId> Plan::outputs() const {
  std::vector<NodeId> result{mask, weights};
  if (scale != kNoNode) result.push_back(scale);
  return result;
}

namespace {

bool some_host_reads(const Plan& plan, HostOp op) {
  const auto does = [&](const HostPtr& host) { return host && reads(*host, op); };
  return std::ranges::any_of(plan.tables, does, &TableInfo::host) ||
         std::ranges::any_of(plan.vectors,
                             [&](const VectorInfo& vector) { return vector.used && does(vector.host); });
}

}  // namespace

bool Plan::needs_layer_input() const { return some_host_reads(*this, HostOp::project); }

bool Plan::keeps_running_sums() const { return some_host_reads(*this, HostOp::cumsum); }

bool Plan::uses_length() const {
  return std::ranges::any_of(graph.reachable(outputs()), [this](NodeId id) {
    return graph[id].op == Op::variable && static_cast<Variable>(graph[id].symbol) == Variable::n;
  });
}

bool Plan::uses_positions() const {
  return std::ranges::any_of(graph.reachable(outputs()), [this](NodeId id) {
    return graph[id].reads & (kReadsRow | kReadsColumn | kReadsDiagonal);
  });
}

bool Plan::uses_places() const {
  const auto is_place = [this](NodeId id) {
    const auto variable = static_cast<Variable>(graph[id].symbol);
    return graph[id].op == Op::variable && (variable == Variable::i || variable == Variable::j);
  };
  return std::ranges::any_of(graph.reachable(outputs()), [&](NodeId id) {
    if (graph[id].op != Op::read) return std::ranges::any_of(graph[id].args, is_place);
    const std::vector<Dimension> dimensions = tables[static_cast<size_t>(graph[id].symbol)].subscripted();
    for (size_t index = 0; index < dimensions.size(); ++index)
      if (is_place(graph[id].args[index]) && !runs_along_tokens(dimensions[index].kind)) return true;
    return false;
  });
}

bool Plan::streams_used(int stream) const {
  return std::ranges::any_of(graph.reachable(outputs()), [&](NodeId id) {
    return graph[id].op == Op::stream && graph[id].symbol == stream;
  });
}

int Plan::position_table() const {
  for (size_t index = 0; index < tables.size(); ++index) {
    const TableInfo& table = tables[index];
    const auto dimensions = table.subscripted();
    if (table.source == TableInfo::Source::input && table.name == "pos" && table.type == Type::integer &&
        dimensions.size() == 1 && dimensions[0].kind == Dimension::Kind::token)
      return static_cast<int>(index);
  }
  return -1;
}

double Plan::start_value(const TableInfo& table, int64_t head, int64_t heads) const {
  std::map<NodeId, double> values;
  for (NodeId id : graph.reachable({table.start})) {
    const Node& node = graph[id];
    if (node.op == Op::number) {
      values[id] = node.number;
    } else if (node.op == Op::variable) {
      values[id] = static_cast<double>(static_cast<Variable>(node.symbol) == Variable::h ? head : heads);
    } else {
      double operands[3] = {0, 0, 0};
      for (size_t index = 0; index < node.args.size(); ++index) operands[index] = values[node.args[index]];
      values[id] = evaluate(node.op, operands[0], operands[1], operands[2]);
    }
  }
  return values[table.start];
}

int Plan::table_index(std::string_view name) const {
  const auto found = std::ranges::find(tables, name, &TableInfo::name);
  return found == tables.end() ? -1 : static_cast<int>(found - tables.begin());
}

}  // namespace saccade
