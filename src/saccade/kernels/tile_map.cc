// Interval arithmetic over the mask's few instructions.
#include "saccade/kernels/tile_map.h"

#include <algorithm>

namespace saccade::kernels {

template <class Real>
Range TileMap<Real>::keys_of(Range queries) const {
  Range keys{0, shape_.keys};
  const int64_t shift = shape_.offset - shape_.first_key;
  if (plan_.band.high)
    keys.begin = std::clamp<int64_t>(queries.begin + shift - *plan_.band.high, 0, shape_.keys);
  if (plan_.band.low) keys.end = std::clamp<int64_t>(queries.end + shift - *plan_.band.low, 0, shape_.keys);
  return keys;
}

template <class Real>
Range TileMap<Real>::queries_of(Range keys) const {
  Range queries{0, shape_.queries};
  const int64_t shift = shape_.offset - shape_.first_key;
  if (plan_.band.low)
    queries.begin = std::clamp<int64_t>(keys.begin - shift + *plan_.band.low, 0, shape_.queries);
  if (plan_.band.high)
    queries.end = std::clamp<int64_t>(keys.end - shift + *plan_.band.high, 0, shape_.queries);
  return queries;
}

template <class Real>
TileState TileMap<Real>::state(const Slots<Real>& slots, Range queries, Range keys) {
  if (!plan_.masked) return TileState::full;
  if (queries.empty() || keys.empty()) return TileState::empty;
  if (plan_.band.exact) {
    const Range first = allowed_keys(queries.begin), last = allowed_keys(queries.end - 1);
    if (last.end <= keys.begin || first.begin >= keys.end) return TileState::empty;
    return first.end >= keys.end && last.begin <= keys.begin ? TileState::full : TileState::mixed;
  }
  const Program& program = plan_.mask;
  const Graph& graph = plan_.plan.graph;
  const Stage& stage = program.stage(Rate::tile);
  registers_.resize(static_cast<size_t>(stage.registers));
  const auto value = [&](const Operand& operand) -> Interval {
    switch (operand.kind) {
      case Operand::Kind::none:
        return {};
      case Operand::Kind::immediate:
        return Interval::point(static_cast<double>(static_cast<Real>(operand.value)));
      case Operand::Kind::reg:
        return registers_[static_cast<size_t>(operand.index)];
      case Operand::Kind::slot:
        return slots.range(operand.index, queries, keys);
      case Operand::Kind::stream:
        return Interval::everything();
    }
    return Interval::everything();
  };
  for (const Instruction& instruction : stage.code) {
    const Node& node = graph[instruction.node];
    Interval result = node.type == Type::boolean ? Interval{0, 1} : Interval::everything();
    if (instruction.op != Op::read) {
      const Interval operands[3] = {value(instruction.args[0]), value(instruction.args[1]),
                                    value(instruction.args[2])};
      result = bound_operation(graph, node, operands);
    }
    registers_[static_cast<size_t>(instruction.result)] = result;
  }
  const Interval mask = value(program.outputs[0]);
  return mask.always_false() ? TileState::empty : mask.always_true() ? TileState::full : TileState::mixed;
}

template class TileMap<float>;
template class TileMap<double>;

}  // namespace saccade::kernels
