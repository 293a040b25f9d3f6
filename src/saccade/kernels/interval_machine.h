// A tile program in interval arithmetic: what its outputs can be anywhere in a tile, from the smallest and
// largest values of what it reads there.
#pragma once

#include <span>

#include "saccade/formula/bounds.h"
#include "saccade/kernels/slots.h"

namespace saccade::kernels {

template <class Real>
class IntervalMachine {
 public:
  IntervalMachine(const Graph& graph, const Program& program) : graph_(graph), program_(program) {}

  // Streams that are not given can be anything.
  void run(const Slots<Real>& slots, Range queries, Range keys, std::span<const Interval> streams = {}) {
    slots_ = &slots;
    queries_ = queries;
    keys_ = keys;
    streams_ = streams;
    const Stage& stage = program_.stage(Rate::tile);
    registers_.resize(static_cast<size_t>(stage.registers));
    for (const Instruction& instruction : stage.code) {
      const Node& node = graph_[instruction.node];
      Interval result = node.type == Type::boolean ? Interval{0, 1} : Interval::everything();
      if (instruction.op != Op::read) {
        const Interval operands[3] = {value(instruction.args[0]), value(instruction.args[1]),
                                      value(instruction.args[2])};
        result = bound_operation(graph_, node, operands);
      }
      registers_[static_cast<size_t>(instruction.result)] = result;
    }
  }

  Interval value(const Operand& operand) const {
    switch (operand.kind) {
      case Operand::Kind::none:
        return {};
      case Operand::Kind::immediate:
        return Interval::point(static_cast<double>(static_cast<Real>(operand.value)));
      case Operand::Kind::reg:
        return registers_[static_cast<size_t>(operand.index)];
      case Operand::Kind::slot:
        return slots_->range(operand.index, queries_, keys_);
      case Operand::Kind::stream:
        return static_cast<size_t>(operand.index) < streams_.size()
                   ? streams_[static_cast<size_t>(operand.index)]
                   : Interval::everything();
    }
    return Interval::everything();
  }

 private:
  const Graph& graph_;
  const Program& program_;
  const Slots<Real>* slots_ = nullptr;
  Range queries_, keys_;
  std::span<const Interval> streams_;
  std::vector<Interval> registers_;
};

}  // namespace saccade::kernels
