// A formula as a program for a small register machine. Work is hoisted to its rate: one stage runs per head,
// one over the rows, one over the columns, one over the diagonals, and only what is left runs for every pair.
// An instruction processes a strip of elements, so that its cost is paid per strip and the registers stay in
// the nearest cache.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "saccade/formula/plan.h"

namespace saccade {

inline constexpr int kStripLength = 512;

struct Operand {
  enum class Kind : uint8_t {
    none,
    immediate,  // `value`
    reg,        // a register of the same stage
    slot,       // the result of an earlier stage
    stream      // a strip of dot products, given by the caller
  };
  Kind kind = Kind::none;
  int32_t index = 0;
  double value = 0;
};

struct Instruction {
  Op op;               // a scalar operation, or `variable` or `read`
  int32_t symbol = 0;  // of a variable or read
  std::array<Operand, 3> args;
  int32_t result = 0;  // register
  int32_t store = -1;  // slot that also receives the result, for later stages
  NodeId node = kNoNode;
};

struct Stage {
  std::vector<Instruction> code;
  int registers = 0;
};

struct Program {
  // Indexed by Rate; constant work is part of the head stage.
  std::array<Stage, 6> stages;
  // The rate of each slot says how it is laid out: one number, one per row, per column or per diagonal.
  std::vector<Rate> slots;
  // Where the roots are found once all stages have run.
  std::vector<Operand> outputs;

  const Stage& stage(Rate rate) const { return stages[static_cast<size_t>(rate)]; }
  Stage& stage(Rate rate) { return stages[static_cast<size_t>(rate)]; }
};

// The program that computes the roots, which must not contain norms.
Program compile(const Plan& plan, const std::vector<NodeId>& roots);

// The program as text, one instruction per line with the expression it computes.
std::string list(const Program& program, const Plan& plan);

}  // namespace saccade
