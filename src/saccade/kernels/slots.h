// The values below the cut: what a program computes once per head, row, column and diagonal, kept in memory
// for the tile to read.
#pragma once

#include "saccade/kernels/kernel_plan.h"
#include "saccade/kernels/primitives.h"

namespace saccade::kernels {

// Beyond both ends of a column or diagonal slot there is room to read a few vectors of zeros, because panels
// reach past the last key.
inline constexpr int64_t kSlotPadding = 64;

template <class Real>
class Slots {
 public:
  Slots(const Program& program, const Shape& shape);

  // Elements that `bind` needs.
  int64_t size() const { return size_; }
  void bind(Real* memory);

  // Runs the stages of one sequence and head. `tables` is in the order of the plan's tables.
  void prepare(const Inputs& inputs, int64_t batch, int64_t head);

  const Real* data(int32_t slot) const { return data_[static_cast<size_t>(slot)]; }
  Rate rate(int32_t slot) const { return program_->slots[static_cast<size_t>(slot)]; }
  // Where a row reads: the element for its first key.
  const Real* row_of(int32_t slot, int64_t query) const;
  // The value of an operand that is at most at row rate.
  Real scalar(const Operand& operand, int64_t query) const;
  // Element k of an operand in the layout of `rate`: a row, column or diagonal number.
  Real element(const Operand& operand, int64_t k) const;

  // The smallest and largest values of a slot among rows, columns or diagonals; NaN counts as unknown.
  Interval range(int32_t slot, Range rows, Range columns) const;

  const Program& program() const { return *program_; }
  int64_t batch() const { return batch_; }
  int64_t head() const { return head_; }

 private:
  int64_t length(Rate rate) const;
  void run_stage(const Inputs& inputs, Rate rate);
  void run_strip(const Inputs& inputs, Rate rate, int64_t first, int64_t count);

  const Program* program_;
  Shape shape_;
  int64_t size_ = 0, batch_ = 0, head_ = 0;
  std::vector<Real*> data_;
  Real* registers_ = nullptr;
  Real* constants_ = nullptr;
};

// The place in a table that a subscript means, as every path computes it.
template <class Real>
int64_t table_place(Real subscript, int64_t size, int64_t origin) {
  subscript -= static_cast<Real>(origin);
  if (!(subscript >= 0)) return 0;  // also NaN
  return subscript >= static_cast<Real>(size - 1) ? size - 1 : static_cast<int64_t>(subscript);
}

template <class Real>
const Real* table_data(const Table& table, int64_t batch, int64_t head) {
  return static_cast<const Real*>(table.data) + batch * table.batch_stride + head * table.head_stride;
}

}  // namespace saccade::kernels
