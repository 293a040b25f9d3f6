// Declarations and outputs: who may be called what, which dimensions a table may have, what the sides of a
// stream are.
#include "saccade/formula/check.h"

#include <algorithm>
#include <cmath>

#include "saccade/base/text.h"
#include "saccade/formula/lower.h"
#include "saccade/formula/parser.h"

namespace saccade {
namespace {

constexpr int64_t kLongest = 1 << 24;  // positions above it are not exact in single precision

bool is_length(double n) { return n >= 1 && n <= kLongest && n == std::floor(n); }

class Checker {
 public:
  Checker(const Syntax& syntax, const Overrides& overrides, Diagnostics& diagnostics)
      : syntax_(syntax), overrides_(overrides), diagnostics_(diagnostics) {}

  Plan run() {
    plan_.streams.push_back({.name = "s"});
    collect();
    check_overrides();
    declare(Statement::Kind::constant, &Checker::constant);
    declare(Statement::Kind::param, &Checker::param);
    declare(Statement::Kind::input, &Checker::input);
    declare(Statement::Kind::vector, &Checker::vector);
    declare(Statement::Kind::token, &Checker::token);
    declare(Statement::Kind::stream, &Checker::stream);
    for (const StreamInfo& info : plan_.streams) plan_.graph.stream_names.push_back(info.name);
    use_position_input();
    outputs();
    warn_unused();
    // What the outputs do not reach is checked all the same.
    for (const Statement& statement : syntax_.statements)
      if (statement.kind == Statement::Kind::let && statements_.contains(statement.name))
        lowering_.resolve(statement.name, statement.name_span);
    finish();
    return std::move(plan_);
  }

 private:
  // --- declarations
  // -----------------------------------------------------------------------------------------------------

  void collect() {
    for (const Statement& statement : syntax_.statements) {
      const std::string& name = statement.name;
      const bool is_let = statement.kind == Statement::Kind::let;
      const bool pins_length = name == "n" && statement.kind == Statement::Kind::constant;
      if (is_builtin(name) && !pins_length) {
        diagnostics_.report(statement.name_span, "'{}' is built in and cannot be defined{}", name,
                            name == "n" ? "; 'const n = 2048' pins it" : "");
      } else if (find_call(name) || find_norm(name)) {
        diagnostics_.report(statement.name_span, "'{}' is a function and cannot be defined", name);
      } else if (is_output(name) && !is_let) {
        diagnostics_.report(statement.name_span, "'{}' is an output; define it with '{} = ...'", name, name);
      } else if (is_layer_tensor(name) && !is_let) {
        diagnostics_.report(statement.name_span, "'{}' already is one of the layer's own tensors", name);
      } else if (statements_.contains(name)) {
        diagnostics_.report(statement.name_span, "'{}' is defined twice", name);
      } else {
        statements_[name] = &statement;
      }
    }
  }

  void check_overrides() {
    std::vector<std::string> names{"n"};
    for (const auto& [name, statement] : statements_)
      if ((statement->kind == Statement::Kind::constant || statement->kind == Statement::Kind::param) &&
          name != "n")
        names.push_back(name);
    for (const auto& [name, value] : overrides_) {
      if (std::ranges::find(names, name) == names.end() && !syntax_.broken.contains(name)) {
        const auto near = nearest(name, names);
        diagnostics_.report({0, 0}, "cannot set '{}': {}", name,
                            near ? fmt::format("did you mean '{}'?", *near)
                            : names.size() == 1
                                ? std::string("the formula has no such constant; only n can be pinned")
                                : "what can be set is " + join(names, ", "));
      }
      if (!std::isfinite(value))
        diagnostics_.report({0, 0}, "cannot set '{}' to {}: expected a finite number", name, value);
      else if (name == "n" && !is_length(value))
        diagnostics_.report({0, 0}, "cannot set n to {}: expected a whole number of keys from 1 to {}", value,
                            kLongest);
    }
  }

  // By kind, not by place: what a kind may refer to is declared before it.
  void declare(Statement::Kind kind, void (Checker::*declare_one)(const Statement&)) {
    for (const Statement& statement : syntax_.statements)
      if (statement.kind == kind && statements_.contains(statement.name) &&
          statements_[statement.name] == &statement)
        (this->*declare_one)(statement);
  }

  void constant(const Statement& statement) {
    const auto value = lowering_.constant_value(*statement.value, "a constant");
    if (!value) return;
    const auto override = overrides_.find(statement.name);
    plan_.constants.emplace_back(statement.name, override == overrides_.end() ? *value : override->second);
    if (statement.name == "n" && !is_length(*value))
      diagnostics_.report(statement.value->span,
                          "n is pinned to {}; expected a whole number of keys from 1 to {}", *value,
                          kLongest);
  }

  void param(const Statement& statement) {
    TableInfo table{.source = TableInfo::Source::param, .name = statement.name};
    table.dimensions = statement.dimensions;
    int64_t elements = 1;
    for (const Dimension& dimension : table.dimensions) {
      using Kind = Dimension::Kind;
      if (dimension.kind != Kind::head && dimension.kind != Kind::layer && dimension.kind != Kind::fixed)
        diagnostics_.report(statement.name_span,
                            "a param cannot have the dimension '{}', whose size is not known beforehand; use "
                            "head, layer or a number",
                            to_string(dimension));
      if (dimension.kind == Kind::fixed)
        elements = std::min(elements * dimension.size, Limits::param_elements * 2);
    }
    if (elements > Limits::param_elements)
      diagnostics_.report(statement.name_span, "a param may have at most {} elements per head",
                          Limits::param_elements);
    const auto override = overrides_.find(statement.name);
    table.start = lowering_.number(*statement.value);
    if (override != overrides_.end() && std::isfinite(override->second))
      table.start = plan_.graph.number(override->second, Type::real);
    if (table.start != kNoNode && !is_start_value(table.start)) {
      diagnostics_.report(statement.value->span,
                          "a start value may depend on h, H and constants only; '{}' depends on more",
                          print(*statement.value));
      table.start = kNoNode;
    }
    if (statement.low) {
      const auto low = lowering_.constant_value(*statement.low, "a bound"),
                 high = lowering_.constant_value(*statement.high, "a bound");
      if (low && high && !(*low <= *high))
        diagnostics_.report(statement.low->span, "the bounds [{}, {}] are empty", *low, *high);
      table.low = low.value_or(table.low);
      table.high = high.value_or(table.high);
      const bool literal = table.start != kNoNode && plan_.graph[table.start].op == Op::number;
      const double start = literal ? plan_.graph[table.start].number : table.low;
      if (low && high && *low <= *high && !(table.low <= start && start <= table.high))
        diagnostics_.report(statement.value->span, "the start value {} lies outside the bounds [{}, {}]",
                            start, table.low, table.high);
    }
    add_table(std::move(table), statement);
  }

  bool is_start_value(NodeId start) const {
    if (plan_.graph[start].reads & ~kReadsHead) return false;
    return std::ranges::none_of(plan_.graph.reachable({start}),
                                [&](NodeId id) { return plan_.graph[id].op == Op::read; });
  }

  void input(const Statement& statement) {
    TableInfo table{.source = TableInfo::Source::input, .name = statement.name, .type = statement.type};
    table.dimensions = statement.dimensions;
    for (const Dimension& dimension : table.dimensions)
      if (dimension.kind == Dimension::Kind::layer)
        diagnostics_.report(statement.name_span,
                            "an input cannot have the dimension 'layer'; it is given to each layer's call");
    add_table(std::move(table), statement);
  }

  void add_table(TableInfo table, const Statement& statement) {
    using Kind = Dimension::Kind;
    for (Kind kind : {Kind::batch, Kind::head, Kind::layer})
      if (std::ranges::count(table.dimensions, kind, &Dimension::kind) > 1)
        diagnostics_.report(statement.name_span, "the dimension '{}' is given twice",
                            to_string(Dimension{kind}));
    if (table.subscripted().size() > Limits::subscripts)
      diagnostics_.report(statement.name_span, "a table may have at most {} subscripted dimensions",
                          Limits::subscripts);
    if (plan_.tables.size() >= Limits::tables)
      diagnostics_.report(statement.name_span, "a formula may have at most {} params, inputs and tokens",
                          Limits::tables);
    plan_.graph.table_names.push_back(table.name);
    plan_.tables.push_back(std::move(table));
  }

  HostNames host_names() {
    return [this](const std::string& name) -> HostName {
      const auto found = statements_.find(name);
      if (found == statements_.end()) return unknown_host_name(name);
      const Statement& statement = *found->second;
      if (statement.kind == Statement::Kind::param) {
        for (const Dimension& dimension : statement.dimensions)
          if (dimension.kind == Dimension::Kind::fixed)
            return {.kind = HostName::Kind::unusable, .why = "it is a table"};
        lowering_.mark_used(name);
        return {.kind = HostName::Kind::param, .table = plan_.table_index(name)};
      }
      if (statement.kind == Statement::Kind::constant) {
        const NodeId node = lowering_.resolve(name, statement.name_span);
        if (node != kNoNode) return {.kind = HostName::Kind::number, .number = plan_.graph[node].number};
        return {.kind = HostName::Kind::broken};
      }
      return {.kind = HostName::Kind::unusable, .why = "only constants, params, x, q and k are known there"};
    };
  }

  HostName unknown_host_name(const std::string& name) const {
    if (syntax_.broken.contains(name)) return {.kind = HostName::Kind::broken};
    std::vector<std::string> candidates(std::begin(kLayerTensors), std::end(kLayerTensors));
    for (const auto& [known, statement] : statements_)
      if (statement->kind == Statement::Kind::constant || statement->kind == Statement::Kind::param)
        candidates.push_back(known);
    const auto near = nearest(name, candidates);
    return {
        .kind = HostName::Kind::unknown,
        .why = near ? fmt::format("did you mean '{}'?", *near) : "it may use x, q, k, constants and params"};
  }

  void vector(const Statement& statement) {
    HostPtr host = check_host(*statement.value, true, host_names(), diagnostics_);
    plan_.vectors.push_back({.name = statement.name, .host = std::move(host)});
  }

  void token(const Statement& statement) {
    TableInfo table{.source = TableInfo::Source::token, .name = statement.name};
    table.dimensions = {{Dimension::Kind::head}, {Dimension::Kind::token}};
    table.host = check_host(*statement.value, false, host_names(), diagnostics_);
    add_table(std::move(table), statement);
  }

  void stream(const Statement& statement) {
    if (plan_.streams.size() >= Limits::streams)
      diagnostics_.report(statement.span, "a formula may have at most {} streams", Limits::streams);
    StreamInfo info{.name = statement.name};
    info.query_vector = operand(statement.left, statement.left_span, false);
    info.key_vector = operand(statement.right, statement.right_span, true);
    plan_.streams.push_back(info);
  }

  int operand(const std::string& name, Span span, bool for_keys) {
    const std::string_view own = for_keys ? "k" : "q", other = for_keys ? "q" : "k";
    if (name == own) return -1;
    const auto refuse = [&](std::string_view why) {
      diagnostics_.report(span, "the {} side of a stream is a {} vector; {}", for_keys ? "right" : "left",
                          for_keys ? "key" : "query", why);
      return -1;
    };
    if (name == other) return refuse(fmt::format("'{}' is a {} vector", name, for_keys ? "query" : "key"));
    const auto found = std::ranges::find(plan_.vectors, name, &VectorInfo::name);
    if (found == plan_.vectors.end()) {
      if (syntax_.broken.contains(name)) return -1;
      std::vector<std::string> candidates{std::string(own)};
      for (const VectorInfo& info : plan_.vectors) candidates.push_back(info.name);
      const auto near = nearest(name, candidates);
      diagnostics_.report(
          span, "unknown vector '{}'; {}", name,
          near ? fmt::format("did you mean '{}'?", *near) : "expected " + join(candidates, ", "));
      return -1;
    }
    VectorInfo& info = *found;
    if (info.host && reads(*info.host, for_keys ? HostOp::query : HostOp::key))
      return refuse(fmt::format("'{}' is computed from {}", name, other));
    if (info.used && info.for_keys != for_keys)
      return refuse(fmt::format("'{}' is already used on the other side; write a second vector", name));
    info.used = true;
    info.for_keys = for_keys;
    return static_cast<int>(found - plan_.vectors.begin());
  }

  void use_position_input() {
    const int index = plan_.position_table();
    if (index < 0) return;
    Graph& graph = plan_.graph;
    const TableInfo& table = plan_.tables[static_cast<size_t>(index)];
    if (table.has(Dimension::Kind::head))
      diagnostics_.report(statements_["pos"]->name_span,
                          "a token has one position for all heads: 'input pos[token]: int'");
    const NodeId row = graph.read(index, Type::integer, table.implied(), {graph.variable(Variable::i)});
    const NodeId column = graph.read(index, Type::integer, table.implied(), {graph.variable(Variable::j)});
    const NodeId distance = graph.apply(Op::subtract, {row, column});
    graph.set_positions(row, column, distance);
    lowering_.mark_used("pos");
    lowering_.forget();
  }

  // --- outputs
  // ----------------------------------------------------------------------------------------------------------

  const Expression* output_expression(const std::string& name) {
    const auto found = statements_.find(name);
    return found == statements_.end() ? nullptr : found->second->value.get();
  }

  void outputs() {
    Graph& graph = plan_.graph;
    plan_.mask = lowering_.resolve("mask", {});
    if (const Expression* text = output_expression("mask"); text && plan_.mask != kNoNode &&
                                                            lowering_.plain(plan_.mask, *text) &&
                                                            graph[plan_.mask].type != Type::boolean)
      diagnostics_.report(text->span, "mask needs a condition such as 'd >= 0', but '{}' is {}", print(*text),
                          describe(graph[plan_.mask].type));
    if (const Expression* text = output_expression("weights")) {
      plan_.weights = lowering_.resolve("weights", {});
      if (plan_.weights != kNoNode) demand_number("weights", plan_.weights, *text);
      if (output_expression("score") && !lowering_.used("score"))
        plan_.warnings.push_back("score is defined, but weights does not use it");
    }
    plan_.score = lowering_.resolve("score", {});
    if (const Expression* text = output_expression("score");
        text && plan_.score != kNoNode && lowering_.plain(plan_.score, *text))
      demand_number("score", plan_.score, *text);
    if (!output_expression("weights") && plan_.score != kNoNode)
      plan_.weights = graph.norm(Op::softmax, plan_.score, kNoNode);
    if (const Expression* text = output_expression("scale")) {
      plan_.scale = lowering_.resolve("scale", {});
      if (plan_.scale != kNoNode && lowering_.plain(plan_.scale, *text)) {
        demand_number("scale", plan_.scale, *text);
        if (graph[plan_.scale].reads & ~(kReadsHead | kReadsLength))
          diagnostics_.report(text->span,
                              "scale may depend on h, H, params and constants only; '{}' depends on more",
                              print(*text));
      }
    }
  }

  void demand_number(std::string_view output, NodeId node, const Expression& text) {
    if (plan_.graph[node].type == Type::boolean)
      diagnostics_.report(text.span, "{} needs a number, but '{}' is a condition", output, print(text));
  }

  void warn_unused() {
    for (const Statement& statement : syntax_.statements)
      if (statement.kind != Statement::Kind::vector && !lowering_.used(statement.name))
        plan_.warnings.push_back(fmt::format("'{}' is defined, but nothing uses it", statement.name));
    for (const VectorInfo& vector : plan_.vectors)
      if (!vector.used)
        plan_.warnings.push_back(fmt::format("vector '{}' is defined, but no stream uses it", vector.name));
  }

  void finish() {
    if (plan_.weights == kNoNode) return;
    int norms = 0;
    for (NodeId node : plan_.graph.reachable({plan_.weights})) norms += is_norm(plan_.graph[node].op);
    if (norms > Limits::norms)
      diagnostics_.report({0, 0}, "a formula may have at most {} norms; this one has {}", Limits::norms,
                          norms);
  }

  const Syntax& syntax_;
  const Overrides& overrides_;
  Diagnostics& diagnostics_;
  Plan plan_;
  Statements statements_;
  Lowering lowering_{plan_, statements_, syntax_.broken, overrides_, diagnostics_};
};

}  // namespace

Plan check(const Syntax& syntax, const Overrides& overrides, Diagnostics& diagnostics) {
  return Checker(syntax, overrides, diagnostics).run();
}

}  // namespace saccade
