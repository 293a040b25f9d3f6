// Runs the stages below the tile, in strips, with the same vector code as the tile itself.
#include "saccade/kernels/slots.h"

#include <algorithm>
#include <cmath>

#include "saccade/base/error.h"

namespace saccade::kernels {

template <class Real>
Slots<Real>::Slots(const Program& program, const Shape& shape)
    : program_(&program), shape_(shape), data_(program.slots.size()) {
  bind(nullptr);
}

template <class Real>
int64_t Slots<Real>::length(Rate rate) const {
  switch (rate) {
    case Rate::row:
      return shape_.queries;
    case Rate::column:
      return shape_.keys;
    case Rate::diagonal:
      return shape_.distances();
    case Rate::constant:
    case Rate::head:
    case Rate::tile:
      break;
  }
  return 1;
}

template <class Real>
void Slots<Real>::bind(Real* memory) {
  int64_t used = 0;
  const auto take = [&](int64_t count) {
    Real* result = memory ? memory + used : nullptr;
    used += (count + 15) / 16 * 16;
    return result;
  };
  for (size_t slot = 0; slot < data_.size(); ++slot) {
    Real* start = take(length(program_->slots[slot]) + 2 * kSlotPadding);
    data_[slot] = start ? start + kSlotPadding : nullptr;
  }
  int registers = 1;
  for (Rate rate : {Rate::head, Rate::row, Rate::column, Rate::diagonal})
    registers = std::max(registers, program_->stage(rate).registers);
  registers_ = take(static_cast<int64_t>(registers) * kStripLength);
  constants_ = take(3 * 64);
  size_ = used;
}

template <class Real>
void Slots<Real>::prepare(const Inputs& inputs, int64_t batch, int64_t head) {
  batch_ = batch;
  head_ = head;
  for (size_t slot = 0; slot < data_.size(); ++slot) {
    const int64_t count = length(program_->slots[slot]);
    std::fill_n(data_[slot] - kSlotPadding, kSlotPadding, Real{0});
    std::fill_n(data_[slot] + count, kSlotPadding, Real{0});
  }
  for (Rate rate : {Rate::head, Rate::row, Rate::column, Rate::diagonal})
    if (!program_->stage(rate).code.empty()) run_stage(inputs, rate);
  // What is computed past the last key must stay within the bounds of the formula, where a 0 may lie outside.
  for (size_t slot = 0; slot < data_.size(); ++slot) {
    const int64_t count = length(program_->slots[slot]);
    if (count == 0) continue;
    std::fill_n(data_[slot] - kSlotPadding, kSlotPadding, data_[slot][0]);
    std::fill_n(data_[slot] + count, kSlotPadding, data_[slot][count - 1]);
  }
}

template <class Real>
void Slots<Real>::run_stage(const Inputs& inputs, Rate rate) {
  const int64_t count = length(rate);
  for (int64_t first = 0; first < count; first += kStripLength)
    run_strip(inputs, rate, first, std::min<int64_t>(kStripLength, count - first));
}

template <class Real>
void Slots<Real>::run_strip(const Inputs& inputs, Rate rate, int64_t first, int64_t count) {
  const Primitives<Real>& code = primitives<Real>();
  const int64_t width = (count + code.lanes - 1) / code.lanes * code.lanes;
  for (const Instruction& instruction : program_->stage(rate).code) {
    std::array<const Real*, 3> args{};
    std::array<int64_t, 3> steps{1, 1, 1};
    for (size_t index = 0; index < 3; ++index) {
      const Operand& operand = instruction.args[index];
      const auto broadcast = [&](Real value) {
        Real* constant = constants_ + index * 64;
        std::fill_n(constant, code.lanes, value);
        args[index] = constant;
        steps[index] = 0;
      };
      switch (operand.kind) {
        case Operand::Kind::none:
          break;
        case Operand::Kind::immediate:
          broadcast(static_cast<Real>(operand.value));
          break;
        case Operand::Kind::reg:
          args[index] = registers_ + operand.index * kStripLength;
          break;
        case Operand::Kind::slot:
          if (this->rate(operand.index) == rate && rate != Rate::head)
            args[index] = data(operand.index) + first;
          else
            broadcast(data(operand.index)[0]);
          break;
        case Operand::Kind::stream:
          invariant(false, "slots: a stream below the tile");
      }
    }
    Real* result = registers_ + instruction.result * kStripLength;
    if (instruction.op == Op::variable) {
      const Shape& s = shape_;
      int64_t start = 0, step = 0;
      switch (static_cast<Variable>(instruction.symbol)) {
        case Variable::i:
          start = s.offset + first, step = 1;
          break;
        case Variable::j:
          start = s.first_key + first, step = 1;
          break;
        // Diagonals are stored from the largest distance down, so that a row reads them left to right.
        case Variable::d:
          start = s.offset - s.first_key + s.queries - 1 - first, step = -1;
          break;
        case Variable::h:
          start = head_;
          break;
        case Variable::H:
          start = s.heads;
          break;
        case Variable::n:
          start = s.first_key + s.keys;
          break;
        case Variable::x:
        case Variable::y:
        case Variable::z:
          invariant(false, "slots: an operand variable outside a derivative rule");
      }
      for (int64_t k = 0; k < width; ++k) result[k] = static_cast<Real>(start + k * step);
    } else if (instruction.op == Op::read) {
      const Table& table = inputs.tables[static_cast<size_t>(instruction.symbol)];
      const Real* elements = table_data<Real>(table, batch_, head_);
      for (int64_t k = 0; k < count; ++k) {
        int64_t place = 0;
        for (size_t index = 0; index < 3; ++index)
          if (args[index])
            place += table_place(args[index][k * steps[index]], table.size[index], table.origin[index]) *
                     table.stride[index];
        result[k] = elements[place];
      }
      std::fill(result + count, result + width, Real{0});
    } else {
      const auto view = [&](size_t index) {
        return View<Real>{args[index] ? &args[index] : nullptr, steps[index]};
      };
      code.apply[static_cast<size_t>(instruction.op)](
          {view(0), view(1), view(2), result, kStripLength, 1, 0, width});
    }
    if (instruction.store >= 0)
      std::copy_n(result, count,
                  data_[static_cast<size_t>(instruction.store)] + (rate == Rate::head ? 0 : first));
  }
}

template <class Real>
const Real* Slots<Real>::row_of(int32_t slot, int64_t query) const {
  switch (rate(slot)) {
    case Rate::row:
      return data(slot) + query;
    case Rate::diagonal:
      return data(slot) + (shape_.queries - 1 - query);
    case Rate::constant:
    case Rate::head:
    case Rate::column:
    case Rate::tile:
      break;
  }
  return data(slot);
}

template <class Real>
Real Slots<Real>::scalar(const Operand& operand, int64_t query) const {
  if (operand.kind == Operand::Kind::immediate) return static_cast<Real>(operand.value);
  invariant(operand.kind == Operand::Kind::slot, "slots: not a value of a row");
  return *row_of(operand.index, query);
}

template <class Real>
Real Slots<Real>::element(const Operand& operand, int64_t k) const {
  if (operand.kind == Operand::Kind::immediate) return static_cast<Real>(operand.value);
  invariant(operand.kind == Operand::Kind::slot, "slots: not a value below the tile");
  return data(operand.index)[rate(operand.index) == Rate::head ? 0 : k];
}

template <class Real>
Interval Slots<Real>::range(int32_t slot, Range rows, Range columns) const {
  Range at{0, 1};
  switch (rate(slot)) {
    case Rate::row:
      at = rows;
      break;
    case Rate::column:
      at = columns;
      break;
    case Rate::diagonal:
      at = {shape_.queries - rows.end + columns.begin, shape_.queries - 1 - rows.begin + columns.end};
      break;
    case Rate::constant:
    case Rate::head:
    case Rate::tile:
      break;
  }
  const Real* values = data(slot);
  Real low = values[at.begin], high = low;
  bool nan = false;
  for (int64_t k = at.begin; k < at.end; ++k) {
    low = std::min(low, values[k]);
    high = std::max(high, values[k]);
    nan |= std::isnan(values[k]);
  }
  if (nan) return Interval::everything();
  return {static_cast<double>(low), static_cast<double>(high)};
}

template class Slots<float>;
template class Slots<double>;

}  // namespace saccade::kernels
