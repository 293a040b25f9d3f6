// Slow and obvious evaluation of formulas, one pair at a time, to hold the fast one against: by walking the
// graph, and by walking the syntax tree, which knows nothing of lowering and its rewrites. With them come
// random tables of the right shapes.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "saccade/base/error.h"
#include "saccade/base/random.h"
#include "saccade/formula/evaluator.h"
#include "saccade/formula/formula.h"

namespace saccade {

// Equal, where all NaNs are equal.
template <class Real>
bool identical(Real a, Real b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

// Random contents for the tables of a plan. All numbers fit single precision, so that both precisions see the
// same.
template <class Real>
class RandomTables {
 public:
  RandomTables(const Plan& plan, const MapShape& shape, RandomStream& random) {
    contents_.resize(plan.tables.size());
    views_.resize(plan.tables.size());
    for (size_t index = 0; index < plan.tables.size(); ++index) fill(index, plan, shape, random);
  }
  RandomTables(const RandomTables&) = delete;
  RandomTables& operator=(const RandomTables&) = delete;

  std::span<const TableView<Real>> views() const { return views_; }
  std::vector<Real>& contents(int table) { return contents_[static_cast<size_t>(table)]; }

 private:
  void fill(size_t index, const Plan& plan, const MapShape& shape, RandomStream& random) {
    const TableInfo& table = plan.tables[index];
    TableView<Real>& view = views_[index];
    const std::vector<Dimension> dimensions = table.subscripted();
    int64_t elements = 1;
    for (size_t place = dimensions.size(); place-- > 0;) {
      view.size[place] = extent(dimensions[place], shape, random);
      view.origin[place] = origin(dimensions[place], view.size[place], shape);
      view.stride[place] = elements;
      elements *= view.size[place];
    }
    std::vector<Real>& contents = contents_[index];
    for (int64_t count = 0; count < elements; ++count) contents.push_back(value(table, random));
    view.data = contents.data();
  }

  static int64_t extent(const Dimension& dimension, const MapShape& shape, RandomStream& random) {
    using Kind = Dimension::Kind;
    const int64_t last = std::max(shape.offset + shape.queries, shape.first_key + shape.keys);
    switch (dimension.kind) {
      case Kind::token:
        return std::max<int64_t>(last - shape.first_key, 1);
      case Kind::query:
        return std::max<int64_t>(shape.queries, 1);
      case Kind::key:
        return std::max<int64_t>(shape.keys, 1);
      case Kind::rel:
        return 2 * (1 + static_cast<int64_t>(random.below(8))) - 1;
      case Kind::any:
        return 1 + static_cast<int64_t>(random.below(6));
      case Kind::fixed:
        return std::min<int64_t>(dimension.size, 64);  // what lies beyond is clamped to what is there
      case Kind::batch:
      case Kind::head:
      case Kind::layer:
        break;
    }
    return 1;
  }

  static int64_t origin(const Dimension& dimension, int64_t size, const MapShape& shape) {
    using Kind = Dimension::Kind;
    if (dimension.kind == Kind::rel) return -(size - 1) / 2;
    if (dimension.kind == Kind::query) return shape.offset;
    return dimension.kind == Kind::token || dimension.kind == Kind::key ? shape.first_key : 0;
  }

  static Real value(const TableInfo& table, RandomStream& random) {
    switch (table.type) {
      case Type::boolean:
        return static_cast<Real>(random.below(2));
      case Type::integer:
        return static_cast<Real>(random.below(24)) - 4;
      case Type::real:
        break;
    }
    const double bound = random.below(2) ? table.low : table.high;
    const bool at_bound = std::isfinite(bound) && random.below(4) == 0;
    return static_cast<float>(at_bound ? bound : std::clamp(random.normal() * 2, table.low, table.high));
  }

  std::vector<std::vector<Real>> contents_;
  std::vector<TableView<Real>> views_;
};

// Where one evaluation takes place.
template <class Real>
struct Pair {
  int64_t row = 0, column = 0;  // counted from the first query and the first key of this call
  MapShape shape;
  int64_t head = 0, heads = 1;
  std::vector<Real> streams;

  Real i() const { return static_cast<Real>(shape.offset + row); }
  Real j() const { return static_cast<Real>(shape.first_key + column); }
  Real d() const { return static_cast<Real>(shape.offset + row - (shape.first_key + column)); }
  Real n() const { return static_cast<Real>(shape.first_key + shape.keys); }
};

template <class Real>
Real read_table(const TableView<Real>& table, const std::vector<Real>& subscripts) {
  int64_t offset = 0;
  for (size_t place = 0; place < subscripts.size(); ++place) {
    const double last = static_cast<double>(table.size[place] - 1);
    double subscript = static_cast<double>(subscripts[place]) - static_cast<double>(table.origin[place]);
    if (std::isnan(subscript)) subscript = 0;
    offset += static_cast<int64_t>(std::clamp(subscript, 0.0, last)) * table.stride[place];
  }
  return table.data[offset];
}

template <class Real>
class NaiveGraph {
 public:
  NaiveGraph(const Graph& graph, std::span<const TableView<Real>> tables, const Pair<Real>& pair)
      : graph_(graph), tables_(tables), pair_(pair) {}

  Real at(NodeId id) {
    if (const auto known = values_.find(id); known != values_.end()) return known->second;
    return values_[id] = compute(graph_[id]);
  }

  // Replaces what a node would compute to.
  void set(NodeId id, Real value) { values_[id] = value; }

 private:
  Real compute(const Node& node) {
    std::vector<Real> args;
    for (NodeId arg : node.args) args.push_back(at(arg));
    switch (node.op) {
      case Op::number:
        return static_cast<Real>(node.number);
      case Op::variable:
        return variable(static_cast<Variable>(node.symbol));
      case Op::stream:
        return pair_.streams[static_cast<size_t>(node.symbol)];
      case Op::read:
        return read_table(tables_[static_cast<size_t>(node.symbol)], args);
      default:
        break;
    }
    args.resize(3);
    return dispatch(node.op, [&]<Op op>() { return apply<op>(args[0], args[1], args[2]); });
  }

  Real variable(Variable variable) const {
    switch (variable) {
      case Variable::i:
        return pair_.i();
      case Variable::j:
        return pair_.j();
      case Variable::d:
        return pair_.d();
      case Variable::h:
        return static_cast<Real>(pair_.head);
      case Variable::H:
        return static_cast<Real>(pair_.heads);
      case Variable::n:
        return pair_.n();
      case Variable::x:
      case Variable::y:
      case Variable::z:
        break;
    }
    invariant(false, "NaiveGraph: x, y and z have no value");
    return 0;
  }

  const Graph& graph_;
  std::span<const TableView<Real>> tables_;
  const Pair<Real>& pair_;
  std::map<NodeId, Real> values_;
};

// Evaluates syntax trees in double precision. Norms have no value of a single pair and are not evaluated.
class NaiveSyntax {
 public:
  NaiveSyntax(const Formula& formula, std::span<const TableView<double>> tables, const Pair<double>& pair)
      : formula_(formula), tables_(tables), pair_(pair) {}

  double output(const std::string& name) { return named(name); }

  double at(const Expression& expression) {
    switch (expression.kind) {
      case Expression::Kind::number:
        return expression.number;
      case Expression::Kind::name:
        return named(expression.name);
      case Expression::Kind::subscript:
        return read(expression);
      case Expression::Kind::call:
        break;
    }
    const Operation* row = expression.op ? &operation(*expression.op) : find_call(expression.name);
    invariant(row != nullptr, "NaiveSyntax: a norm");
    std::vector<double> args;
    for (const ExpressionPtr& argument : expression.arguments) args.push_back(at(*argument));
    double result = args[0];
    if (row->arity == 2 && args.size() > 2) {
      for (size_t index = 1; index < args.size(); ++index) result = evaluate(row->op, result, args[index]);
      return result;
    }
    args.resize(3);
    return evaluate(row->op, args[0], args[1], args[2]);
  }

 private:
  double position(bool of_query) {
    const int table = formula_.plan().position_table();
    const double slot = of_query ? pair_.i() : pair_.j();
    return places_ || table < 0 ? slot : read_table(tables_[static_cast<size_t>(table)], {slot});
  }

  double named(const std::string& name) {
    if (name == "s") return pair_.streams[0];
    if (name == "i") return position(true);
    if (name == "j") return position(false);
    if (name == "d") return position(true) - position(false);
    if (name == "h") return static_cast<double>(pair_.head);
    if (name == "H") return static_cast<double>(pair_.heads);
    if (name == "full") return 1;
    if (name == "inf") return std::numeric_limits<double>::infinity();
    if (name == "causal") {
      const bool outer = std::exchange(places_, false);
      const bool result = position(true) - position(false) >= 0;
      places_ = outer;
      return result;
    }
    const auto key = std::pair{name, places_};
    if (const auto known = values_.find(key); known != values_.end()) return known->second;
    return values_[key] = defined(name);
  }

  double defined(const std::string& name) {
    const Plan& plan = formula_.plan();
    // What is set of a param is where it starts, not what it is.
    if (const auto value = formula_.overrides().find(name);
        value != formula_.overrides().end() && plan.table_index(name) < 0)
      return value->second;
    for (size_t index = 1; index < plan.streams.size(); ++index)
      if (plan.streams[index].name == name) return pair_.streams[index];
    for (const Statement& statement : formula_.syntax().statements) {
      if (statement.name != name) continue;
      if (statement.kind == Statement::Kind::let || statement.kind == Statement::Kind::constant)
        return at(*statement.value);
      return read_table(tables_[static_cast<size_t>(plan.table_index(name))], {});
    }
    if (name == "mask") return 1;
    if (name == "score") return pair_.streams[0];
    invariant(name == "n", "NaiveSyntax: unknown name");
    return pair_.n();
  }

  double read(const Expression& expression) {
    const int index = formula_.plan().table_index(expression.name);
    const std::vector<Dimension> dimensions =
        formula_.plan().tables[static_cast<size_t>(index)].subscripted();
    std::vector<double> subscripts;
    for (size_t place = 0; place < dimensions.size(); ++place) {
      using Kind = Dimension::Kind;
      const Kind kind = dimensions[place].kind;
      const bool outer =
          std::exchange(places_, kind == Kind::token || kind == Kind::query || kind == Kind::key);
      subscripts.push_back(at(*expression.arguments[place]));
      places_ = outer;
    }
    return read_table(tables_[static_cast<size_t>(index)], subscripts);
  }

  const Formula& formula_;
  std::span<const TableView<double>> tables_;
  const Pair<double>& pair_;
  std::map<std::pair<std::string, bool>, double> values_;
  bool places_ = false;  // i and j mean places in the sequence
};

}  // namespace saccade
