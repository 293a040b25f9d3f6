// The scalar executor. A strip's operands are either one number or one per element, which a step of 0 or 1
// expresses.
#include "saccade/formula/evaluator.h"

#include <algorithm>
#include <cmath>

#include "saccade/base/error.h"

namespace saccade {
namespace {

template <class Real>
struct Source {
  const Real* data;
  int64_t step;
  Real at(int64_t k) const { return data[k * step]; }
};

template <class Real>
int64_t place(Real subscript, int64_t size, int64_t origin) {
  subscript -= static_cast<Real>(origin);
  if (!(subscript >= 0)) return 0;  // also NaN
  return subscript >= static_cast<Real>(size - 1) ? size - 1 : static_cast<int64_t>(subscript);
}

}  // namespace

// Where a strip lies: its first element in the layout of its stage, and for a tile stage its row.
template <class Real>
struct Evaluator<Real>::Strip {
  Rate rate;
  int64_t row;
  int64_t first;  // row, column or diagonal number of element 0
  int64_t count;
  int64_t stream_first;  // of element 0 within the caller's strip
};

template <class Real>
Evaluator<Real>::Evaluator(const Program& program) : program_(program), slots_(program.slots.size()) {
  int most = 1;
  for (const Stage& stage : program.stages) most = std::max(most, stage.registers);
  registers_.resize(static_cast<size_t>(most) * kStripLength);
}

template <class Real>
void Evaluator<Real>::prepare(const MapShape& shape, int64_t head, int64_t heads,
                              std::span<const TableView<Real>> tables) {
  shape_ = shape;
  head_ = head;
  heads_ = heads;
  tables_ = tables;
  const auto length_of = [&](Rate rate) -> int64_t {
    switch (rate) {
      case Rate::row:
        return shape.queries;
      case Rate::column:
        return shape.keys;
      case Rate::diagonal:
        return std::max<int64_t>(0, shape.queries + shape.keys - 1);
      case Rate::constant:
      case Rate::head:
      case Rate::tile:
        break;
    }
    return 1;
  };
  for (size_t slot = 0; slot < slots_.size(); ++slot)
    slots_[slot].resize(static_cast<size_t>(length_of(program_.slots[slot])));
  for (Rate rate : {Rate::head, Rate::row, Rate::column, Rate::diagonal})
    if (!program_.stage(rate).code.empty()) run_stage(rate, 0, 0, length_of(rate), {});
}

template <class Real>
void Evaluator<Real>::run_stage(Rate rate, int64_t row, int64_t first, int64_t count,
                                std::span<const Real* const> streams) {
  for (int64_t done = 0; done < count; done += kStripLength)
    run_strip(program_.stage(rate),
              {rate, row, first + done, std::min<int64_t>(kStripLength, count - done), done}, streams);
}

template <class Real>
void Evaluator<Real>::run_strip(const Stage& stage, const Strip& strip,
                                std::span<const Real* const> streams) {
  Real immediates[3];
  for (const Instruction& instruction : stage.code) {
    std::array<Source<Real>, 3> args{};
    for (size_t index = 0; index < 3; ++index) {
      const Operand& operand = instruction.args[index];
      switch (operand.kind) {
        case Operand::Kind::none:
        case Operand::Kind::immediate:
          immediates[index] = static_cast<Real>(operand.value);
          args[index] = {&immediates[index], 0};
          break;
        case Operand::Kind::reg:
          args[index] = {&registers_[static_cast<size_t>(operand.index) * kStripLength], 1};
          break;
        case Operand::Kind::stream:
          args[index] = {streams[static_cast<size_t>(operand.index)] + strip.stream_first, 1};
          break;
        case Operand::Kind::slot: {
          const Real* data = slots_[static_cast<size_t>(operand.index)].data();
          switch (program_.slots[static_cast<size_t>(operand.index)]) {
            case Rate::row:
              args[index] = {data + strip.row, 0};
              break;
            case Rate::column:
              args[index] = {data + strip.first, 1};
              break;
            // Diagonals are stored from the largest distance down, so that a row reads them left to right.
            case Rate::diagonal:
              args[index] = {data + (shape_.queries - 1 - strip.row) + strip.first, 1};
              break;
            case Rate::constant:
            case Rate::head:
            case Rate::tile:
              args[index] = {data, 0};
              break;
          }
          break;
        }
      }
    }
    Real* result = &registers_[static_cast<size_t>(instruction.result) * kStripLength];
    if (instruction.op == Op::variable) {
      for (int64_t k = 0; k < strip.count; ++k) {
        double value = 0;
        switch (static_cast<Variable>(instruction.symbol)) {
          case Variable::i:
            value = static_cast<double>(shape_.offset + strip.first + k);
            break;
          case Variable::j:
            value = static_cast<double>(shape_.first_key + strip.first + k);
            break;
          case Variable::d:
            value = static_cast<double>(shape_.offset - shape_.first_key + shape_.queries - 1 -
                                        (strip.first + k));
            break;
          case Variable::h:
            value = static_cast<double>(head_);
            break;
          case Variable::H:
            value = static_cast<double>(heads_);
            break;
          case Variable::n:
            value = static_cast<double>(shape_.first_key + shape_.keys);
            break;
          case Variable::x:
          case Variable::y:
          case Variable::z:
            invariant(false, "evaluator: an operand variable outside a derivative rule");
        }
        result[k] = static_cast<Real>(value);
      }
    } else if (instruction.op == Op::read) {
      const TableView<Real>& table = tables_[static_cast<size_t>(instruction.symbol)];
      for (int64_t k = 0; k < strip.count; ++k) {
        int64_t offset = 0;
        for (size_t index = 0; index < 3; ++index)
          if (instruction.args[index].kind != Operand::Kind::none)
            offset += place(args[index].at(k), table.size[index], table.origin[index]) * table.stride[index];
        result[k] = table.data[offset];
      }
    } else {
      dispatch(instruction.op, [&]<Op op>() {
        for (int64_t k = 0; k < strip.count; ++k)
          result[k] = static_cast<Real>(apply<op>(args[0].at(k), args[1].at(k), args[2].at(k)));
      });
    }
    if (instruction.store >= 0) {
      auto& slot = slots_[static_cast<size_t>(instruction.store)];
      const int64_t begin = strip.rate == Rate::head ? 0 : strip.first;
      std::copy_n(result, strip.count, slot.begin() + begin);
    }
  }
}

template <class Real>
void Evaluator<Real>::run(int64_t row, int64_t first, int64_t count, std::span<const Real* const> streams,
                          std::span<Real* const> outputs) {
  for (int64_t done = 0; done < count; done += kStripLength) {
    const Strip strip{Rate::tile, row, first + done, std::min<int64_t>(kStripLength, count - done), done};
    run_strip(program_.stage(Rate::tile), strip, streams);
    for (size_t index = 0; index < program_.outputs.size(); ++index) {
      const Operand& operand = program_.outputs[index];
      Real* out = outputs[index] + done;
      for (int64_t k = 0; k < strip.count; ++k) {
        switch (operand.kind) {
          case Operand::Kind::none:
          case Operand::Kind::immediate:
            out[k] = static_cast<Real>(operand.value);
            break;
          case Operand::Kind::reg:
            out[k] = registers_[static_cast<size_t>(operand.index) * kStripLength + static_cast<size_t>(k)];
            break;
          case Operand::Kind::stream:
            out[k] = streams[static_cast<size_t>(operand.index)][done + k];
            break;
          case Operand::Kind::slot: {
            const auto& slot = slots_[static_cast<size_t>(operand.index)];
            const Rate rate = program_.slots[static_cast<size_t>(operand.index)];
            const int64_t at = rate == Rate::row        ? row
                               : rate == Rate::column   ? strip.first + k
                               : rate == Rate::diagonal ? shape_.queries - 1 - row + strip.first + k
                                                        : 0;
            out[k] = slot[static_cast<size_t>(at)];
            break;
          }
        }
      }
    }
  }
}

template class Evaluator<float>;
template class Evaluator<double>;

}  // namespace saccade
