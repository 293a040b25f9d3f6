// Interval analysis over the graph: given what is known of the leaves (a range of i, of j, a param's bounds),
// what can a node be? From this follow the tiles that a mask empties or fills, causality, and the size of a
// ring buffer.
#pragma once

#include <optional>
#include <vector>

#include "saccade/formula/plan.h"

namespace saccade {

// Positions are computed in single precision, which is exact up to here.
inline constexpr double kMostPositions = 1 << 24;

class Bounds {
 public:
  // Starts from what holds for every call: positions from 0 on unless they are an input, params within their
  // bounds, streams and inputs unknown.
  explicit Bounds(const Plan& plan);

  void set(NodeId node, Interval interval) { known_[static_cast<size_t>(node)] = interval; }
  // Sets a variable, if the formula reads it at all.
  void set(Variable variable, Interval interval);
  void set_table(int table, Interval interval) { tables_[static_cast<size_t>(table)] = interval; }

  // The interval of a node. Evaluates what is needed; set() everything first.
  Interval of(NodeId node);

 private:
  Interval evaluate(const Node& node);

  const Plan& plan_;
  std::vector<std::optional<Interval>> known_;
  std::vector<Interval> tables_;
};

// The interval of a scalar operation from those of its operands, with room for rounding.
Interval bound_operation(const Graph& graph, const Node& node, const Interval* operands);

// Queries [row_begin, row_end) against keys [column_begin, column_end), by position.
struct Tile {
  double row_begin, row_end, column_begin, column_end;
};

enum class TileState { empty, full, mixed };

// What the mask does to a whole tile: nothing is allowed, everything is, or one has to look. Exact: a tile
// that is called empty or full is so for every pair. `head` fixes h; without it the answer holds for all
// heads.
TileState classify(const Plan& plan, const Tile& tile, std::optional<double> head = {},
                   std::optional<double> heads = {}, std::optional<double> length = {});

// How many of the tiles of size `side` an n x n map has in each state.
struct TileCount {
  int64_t empty = 0, full = 0, mixed = 0;
  int64_t total() const { return empty + full + mixed; }
};
TileCount count_tiles(const Plan& plan, int64_t n, int64_t side);

}  // namespace saccade
