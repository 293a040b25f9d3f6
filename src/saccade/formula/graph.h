// The expressions of a formula as one directed acyclic graph. Equal subexpressions are one node
// (hash-consing), lets are gone, and every node knows its type and what it reads: from that follows its rate,
// the heart of all later analysis.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "saccade/formula/operations.h"

namespace saccade {

using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;

// The built-in numbers. i and j are positions of query and key, d = i - j, h the head, H the number of heads,
// n the number of keys. x, y and z are the operands in a derivative of the operation table.
enum class Variable : uint8_t { i, j, d, h, H, n, x, y, z };
std::string_view name_of(Variable variable);

// What a value depends on, as a set of bits.
using Reads = uint8_t;
inline constexpr Reads kReadsStream = 1, kReadsRow = 2, kReadsColumn = 4, kReadsDiagonal = 8, kReadsHead = 16,
                       kReadsBatch = 32, kReadsLength = 64;

// How often a value changes while the n x n map is walked. A value is computed at its rate and never expanded
// beyond it.
enum class Rate : uint8_t {
  constant,  // once
  head,      // once per head (and sequence)
  row,       // once per query
  column,    // once per key
  diagonal,  // once per distance
  tile       // for every pair
};
Rate rate_of(Reads reads);
std::string_view name_of(Rate rate);

struct Node {
  Op op = Op::number;
  Type type = Type::real;
  Reads reads = 0;
  int32_t symbol = 0;        // variable: which one; stream, read: index into the plan's lists
  double number = 0;         // the value of a literal
  std::vector<NodeId> args;  // operands, subscripts of a read, or argument and sink of a norm
  int32_t depth = 1;
};

class Graph {
 public:
  const Node& operator[](NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  NodeId size() const { return static_cast<NodeId>(nodes_.size()); }
  Rate rate(NodeId id) const { return rate_of((*this)[id].reads); }

  NodeId number(double value, Type type);
  NodeId boolean(bool value) { return number(value ? 1 : 0, Type::boolean); }
  NodeId variable(Variable variable);
  NodeId stream(int index);
  // `implied` is what the table's batch and head dimensions add to the dependence.
  NodeId read(int table, Type type, Reads implied, std::vector<NodeId> subscripts);
  // A scalar operation. Constants are folded, exact identities (x + 0, 1 * x, not not x) removed, i - j
  // becomes d. Floating-point operations are never re-associated.
  NodeId apply(Op op, std::vector<NodeId> args);
  NodeId norm(Op op, NodeId argument, NodeId sink);

  bool is_number(NodeId id, double value) const {
    return (*this)[id].op == Op::number && (*this)[id].number == value;
  }

  // All nodes that the roots need, operands before users.
  std::vector<NodeId> reachable(const std::vector<NodeId>& roots) const;

  // A readable expression. Nodes listed in `names` are printed by name; the text is cut after about `longest`
  // characters.
  std::string print(NodeId id, const std::map<NodeId, std::string>& names, size_t longest = 400) const;

  // What i, j and d stand for: the built-in variables, unless the formula gets its positions as an input.
  void set_positions(NodeId row, NodeId column, NodeId distance) {
    row_ = row;
    column_ = column;
    distance_ = distance;
  }
  bool has_position_input() const { return distance_ != kNoNode; }
  NodeId row() { return row_ == kNoNode ? variable(Variable::i) : row_; }
  NodeId column() { return column_ == kNoNode ? variable(Variable::j) : column_; }
  NodeId distance() { return distance_ == kNoNode ? variable(Variable::d) : distance_; }

  // How streams and reads are called in print(); set once by whoever builds the graph.
  std::vector<std::string> stream_names, table_names;

 private:
  NodeId intern(Node node);
  NodeId simplify(Op op, const std::vector<NodeId>& args);
  NodeId compare_positions(Op op, const std::vector<NodeId>& args);

  std::vector<Node> nodes_;
  std::unordered_multimap<size_t, NodeId> index_;
  NodeId row_ = kNoNode, column_ = kNoNode, distance_ = kNoNode;
};

// The type of an operation's result; operands are assumed to fit.
Type result_type(Op op, const std::vector<Type>& operands);

}  // namespace saccade
