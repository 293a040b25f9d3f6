// The walk over the graph. Kernels compute in single precision, so literals are taken with their rounding,
// and the result of every inexact operation is widened by a little more than its rounding before a conclusion
// is drawn from it.
#include "saccade/formula/bounds.h"

#include <algorithm>
#include <cmath>

namespace saccade {
namespace {

constexpr double kRelative = 1.0 / (1 << 20), kAbsolute = 1e-30;
constexpr double kLargest = 3.4e38;  // what overflows in single precision is infinite there

double largest(Interval interval) { return std::max(std::fabs(interval.low), std::fabs(interval.high)); }
double smallest(Interval interval) { return std::min(std::fabs(interval.low), std::fabs(interval.high)); }

// A number as either precision knows it.
Interval rounded(double value) {
  return hull(Interval::point(value), Interval::point(static_cast<float>(value)));
}

Interval widen(Interval interval) {
  const auto slack = [](double value) {
    return std::isfinite(value) ? std::fabs(value) * kRelative + kAbsolute : 0.0;
  };
  Interval result{interval.low - slack(interval.low), interval.high + slack(interval.high), interval.nan};
  if (result.high > kLargest) result.high = std::numeric_limits<double>::infinity();
  if (result.low < -kLargest) result.low = -std::numeric_limits<double>::infinity();
  return result;
}

// x - y * floor(x / y): next to a multiple of y the quotient may round to either side of it, and the
// difference keeps the rounding of x.
Interval rounded_modulo(Interval x, Interval y) {
  const Interval exact = bounds::modulo(x, y, {});
  if (!(largest(x) / smallest(y) < kLargest)) return Interval::everything();
  const double slack = largest(x) * kRelative + kAbsolute;
  const Interval whole = hull(exact, hull(Interval::point(0), y));
  return {whole.low - slack, whole.high + slack, whole.nan};
}

bool is_exact_integer(Interval interval) { return !interval.nan && largest(interval) <= kMostPositions; }

}  // namespace

Bounds::Bounds(const Plan& plan) : plan_(plan), known_(static_cast<size_t>(plan.graph.size())) {
  for (const TableInfo& table : plan.tables)
    tables_.push_back(table.type == Type::boolean ? Interval{0, 1}
                                                  : hull(rounded(table.low), rounded(table.high)));
  // Positions that are given may be negative, as those of padding are, but must be exact.
  if (const int table = plan.position_table(); table >= 0)
    set_table(table, {-kMostPositions, kMostPositions});
}

void Bounds::set(Variable variable, Interval interval) {
  for (NodeId id = 0; id < plan_.graph.size(); ++id) {
    const Node& node = plan_.graph[id];
    if (node.op == Op::variable && static_cast<Variable>(node.symbol) == variable) set(id, interval);
  }
}

Interval Bounds::of(NodeId root) {
  for (NodeId id : plan_.graph.reachable({root})) {
    auto& known = known_[static_cast<size_t>(id)];
    if (!known) known = evaluate(plan_.graph[id]);
  }
  return *known_[static_cast<size_t>(root)];
}

Interval Bounds::evaluate(const Node& node) {
  switch (node.op) {
    case Op::number:
      return rounded(node.number);
    case Op::variable:
      switch (static_cast<Variable>(node.symbol)) {
        case Variable::i:
        case Variable::j:
          return {0, kMostPositions};
        case Variable::d:
          return {-kMostPositions, kMostPositions};
        case Variable::h:
          return {0, kMostPositions};
        case Variable::H:
        case Variable::n:
          return {1, kMostPositions};
        case Variable::x:
        case Variable::y:
        case Variable::z:
          return Interval::everything();
      }
      return Interval::everything();
    case Op::stream:
      return {};
    case Op::read:
      return tables_[static_cast<size_t>(node.symbol)];
    case Op::softmax:
      return {0, 1};
    case Op::l1:
      return {-1, 1};
    case Op::softpick:
      return {0, 1};
    default:
      break;
  }
  Interval operands[3];
  for (size_t index = 0; index < node.args.size(); ++index)
    operands[index] = *known_[static_cast<size_t>(node.args[index])];
  return bound_operation(plan_.graph, node, operands);
}

Interval bound_operation(const Graph& graph, const Node& node, const Interval* operands) {
  bool integers = true;
  for (size_t index = 0; index < node.args.size(); ++index)
    integers &= graph[node.args[index]].type == Type::integer && is_exact_integer(operands[index]);
  const Interval x = operands[0], y = operands[1], z = operands[2];
  const Operation& row = operation(node.op);
  const Interval result = row.bound(x, y, z);
  if (node.op == Op::floor_divide && !integers) return bounds::floor(widen(bounds::divide(x, y, {})), {}, {});
  if (node.op == Op::modulo) {
    // y * floor(x / y) is no larger than x when both are positive, and otherwise may be larger by |y|.
    const bool exact = integers && ((x.low >= 0 && y.low > 0) || largest(x) + largest(y) <= kMostPositions);
    if (!exact) return rounded_modulo(x, y);
    // A whole remainder never reaches its divisor.
    if (y.low > 0) return {result.low, std::min(result.high, y.high - 1), result.nan};
    return {y.high < 0 ? std::max(result.low, y.low + 1) : result.low, result.high, result.nan};
  }
  const bool exact = row.exact || (integers && node.type == Type::integer && is_exact_integer(result));
  return exact ? result : widen(result);
}

TileState classify(const Plan& plan, const Tile& tile, std::optional<double> head,
                   std::optional<double> heads, std::optional<double> length) {
  Bounds bounds(plan);
  bounds.set(Variable::i, {tile.row_begin, tile.row_end - 1});
  bounds.set(Variable::j, {tile.column_begin, tile.column_end - 1});
  bounds.set(Variable::d, {tile.row_begin - tile.column_end + 1, tile.row_end - 1 - tile.column_begin});
  if (head) bounds.set(Variable::h, Interval::point(*head));
  if (heads) bounds.set(Variable::H, Interval::point(*heads));
  if (length) bounds.set(Variable::n, Interval::point(*length));
  const Interval mask = bounds.of(plan.mask);
  return mask.always_false() ? TileState::empty : mask.always_true() ? TileState::full : TileState::mixed;
}

TileCount count_tiles(const Plan& plan, int64_t n, int64_t side) {
  TileCount count;
  for (int64_t row = 0; row < n; row += side) {
    for (int64_t column = 0; column < n; column += side) {
      const Tile tile{static_cast<double>(row), static_cast<double>(std::min(row + side, n)),
                      static_cast<double>(column), static_cast<double>(std::min(column + side, n))};
      switch (classify(plan, tile, {}, {}, static_cast<double>(n))) {
        case TileState::empty:
          ++count.empty;
          break;
        case TileState::full:
          ++count.full;
          break;
        case TileState::mixed:
          ++count.mixed;
          break;
      }
    }
  }
  return count;
}

}  // namespace saccade
