// The plan of a formula: everything that follows from its text. Tables and streams it reads, its outputs as
// nodes of one graph, its norms and terms, its derivatives, whether and how it can decode. All later rungs
// work from the plan; none looks at text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "saccade/formula/graph.h"
#include "saccade/formula/host.h"
#include "saccade/formula/syntax.h"

namespace saccade {

bool runs_along_tokens(Dimension::Kind kind);  // token, query or key

// Where a dimension of a table begins to count: subscripts have it taken away. `offset` and `first_key` are
// the positions of the first query and the first key.
int64_t origin_of(const Dimension& dimension, int64_t size, int64_t offset, int64_t first_key);

// A named array that a formula reads element by element.
struct TableInfo {
  enum class Source { param, input, token };
  Source source;
  std::string name;
  Type type = Type::real;
  std::vector<Dimension> dimensions;  // as declared; a token table is [head, token]
  // param:
  NodeId start = kNoNode;  // start value, at most at head rate
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  // token:
  HostPtr host;

  bool has(Dimension::Kind kind) const;
  // The dimensions that are subscripted in the text: all but batch, head and layer, whose subscripts are
  // implied.
  std::vector<Dimension> subscripted() const;
  // What the dimensions with implied subscripts add to the dependence of a read.
  Reads implied() const;
  // Whether a KV cache remembers it: one dimension runs along tokens or keys. Then a call gives it for the
  // new tokens only. A table of pairs, with several such dimensions, is given whole with every call.
  bool rides_in_cache() const;
  bool learned() const { return source == Source::param; }
  bool differentiable() const { return type == Type::real; }
};

// A computed query or key vector.
struct VectorInfo {
  std::string name;
  HostPtr host;
  bool for_keys = false;  // the right operand of its streams
  bool used = false;
};

// A scaled dot product of a query vector and a key vector; stream 0 is s = q . k.
struct StreamInfo {
  std::string name;
  int query_vector = -1;  // index of a vector, or -1 for q
  int key_vector = -1;    // index of a vector, or -1 for k
};

struct NormInfo {
  NodeId node;
  Op kind;
  NodeId argument;
  NodeId sink = kNoNode;
};

// weights = sum over terms of coefficient * norm.
struct TermInfo {
  NodeId coefficient;
  int norm = -1;  // -1: the coefficient alone is the weight
};

struct DerivativeInfo {
  NodeId of;  // an argument of a norm, a coefficient, or a sink
  NodeId by;  // a stream or a read of a table
  NodeId value;
};

struct Decoding {
  bool possible = false;
  std::string reason;           // why (not), in words
  std::optional<int64_t> ring;  // the mask is provably false from this distance on: so many keys suffice
};

struct Plan {
  Graph graph;
  std::vector<TableInfo> tables;
  std::vector<VectorInfo> vectors;
  std::vector<StreamInfo> streams;
  std::vector<std::pair<std::string, double>> constants;
  NodeId mask = kNoNode, score = kNoNode, weights = kNoNode;
  NodeId scale = kNoNode;  // absent: 1 / sqrt(d_k)
  std::vector<NormInfo> norms;
  std::vector<TermInfo> terms;
  std::vector<DerivativeInfo> derivatives;
  Decoding decoding;
  std::vector<std::string> warnings;
  std::vector<std::pair<std::string, NodeId>> lets;  // for readable printing

  bool needs_layer_input() const;   // some host expression reads x
  bool keeps_running_sums() const;  // some host expression sums along the tokens
  bool uses_length() const;         // n is read and not pinned
  bool uses_positions() const;      // i, j or d is read anywhere
  bool uses_places() const;  // i or j counts for more than their difference, or than an entry of a table
  bool streams_used(int stream) const;
  int position_table() const;                    // the table `pos`, or -1
  int table_index(std::string_view name) const;  // -1: no such table
  // The start value of a param for one of so many heads.
  double start_value(const TableInfo& table, int64_t head, int64_t heads) const;
  std::vector<NodeId> outputs() const;  // mask, weights and, if given, scale
};

}  // namespace saccade
