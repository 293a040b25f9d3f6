// A formula as the kernels run it. The plan's graph is cut where the work of a pair ends: below the cut are
// values per head, row, column or diagonal, computed once and read as tables; above it are the few
// instructions that run for every pair. The adjoint is cut at the same places, so that a gradient is summed
// along its row, column or diagonal first and the chain rule to the learned parameters runs once per element
// of that sum.
#pragma once

#include <optional>
#include <vector>

#include "saccade/formula/program.h"

namespace saccade::kernels {

// A dot product as the tile computes it: scale * (query . key) + addend.
struct Product {
  int query_vector = 0, key_vector = 0;  // 0 is q or k; others are the plan's vectors plus 1
  Operand scale;                         // none: 1 / sqrt(width)
  Operand addend;                        // none, or a slot of column or diagonal rate
  NodeId addend_node = kNoNode;
};

// One term of the weights: coefficient * norm(argument).
struct Term {
  std::optional<Op> norm;  // absent: the coefficient alone is the weight
  Operand argument;
  Operand coefficient;
  bool inside = false;  // the coefficient varies within a row, and so multiplies every weight
  bool unit = false;    // the coefficient is 1
  Operand sink;
};

// How the gradient of a value below the cut reaches an element of a table: derivative and subscripts are
// outputs of the chain program.
struct Link {
  int table = -1;
  Operand derivative;
  std::array<Operand, 3> subscripts;
};

// What an adjoint of the tile is for.
struct Target {
  NodeId node = kNoNode;
  int product = -1;  // >= 0: the gradient of queries and keys, and of the product's addend
  Rate rate =
      Rate::tile;   // of a value below the cut: how its adjoints are summed; tile: a table read per pair
  Operand adjoint;  // output of the adjoint program
  std::vector<Link> links;
  // Of a table that is read per pair: which, and where, as outputs of the adjoint program.
  int table = -1;
  std::array<Operand, 3> subscripts;
};

// A coefficient or sink of a whole row: its adjoint is known once the row is.
struct RowTarget {
  int term = -1;
  bool sink = false;
  std::vector<Link> links;
};

// d = i - j lies in [low, high] for every allowed pair.
struct Band {
  std::optional<int64_t> low, high;
  bool exact = false;  // and every pair in it is allowed
};

struct KernelPlan {
  Plan plan;  // the formula's plan, rewritten
  int key_mask_table = -1;
  std::vector<Product> products;
  std::vector<Term> terms;
  Band band;
  bool masked = false;  // the mask is not simply true

  Program mask;     // output 0: the mask
  Program forward;  // arguments, coefficients, sinks, addends and scales, as the terms and products name them
  // Its streams are the products, then for each term the adjoint of its argument and of its coefficient.
  Program adjoint;
  Program chain;
  std::vector<Target> targets;
  std::vector<RowTarget> row_targets;

  int norms() const;
  int argument_stream(int term) const { return static_cast<int>(products.size()) + 2 * term; }
  int coefficient_stream(int term) const { return argument_stream(term) + 1; }
  // Whether a backward pass needs every term's output apart, and not only their sum.
  bool needs_partials() const { return terms.size() > 1 || (!terms[0].unit && !terms[0].inside); }
};

// `key_mask` adds a table [batch, key] of which keys are real, as the last one.
KernelPlan make_kernel_plan(const Plan& plan, bool key_mask);

// What the slots of a program depend on: kReadsBatch, kReadsHead.
Reads slot_reads(const Program& program, const Plan& plan);

}  // namespace saccade::kernels
