// Operands are resolved to one pointer per row before the instructions run.
#include "saccade/kernels/tile_program.h"

#include <algorithm>

#include "saccade/base/error.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kStretch = 256;  // columns that an instruction processes at once
constexpr int64_t kBroadcast = 16;

bool same(const Operand& a, const Operand& b) {
  return a.kind == b.kind && a.index == b.index &&
         (a.kind != Operand::Kind::immediate || a.value == b.value ||
          (a.value != a.value && b.value != b.value));
}

}  // namespace

template <class Real>
TileProgram<Real>::TileProgram(const Program& program) : program_(&program) {
  const Stage& stage = program.stage(Rate::tile);
  for (const Instruction& instruction : stage.code) {
    Step step{&instruction, {-1, -1, -1}};
    for (size_t index = 0; index < 3; ++index)
      if (instruction.args[index].kind != Operand::Kind::none)
        step.args[index] = external(instruction.args[index]);
    steps_.push_back(step);
  }
  persistent_.assign(static_cast<size_t>(stage.registers), false);
  for (const Operand& output : program.outputs) {
    if (output.kind == Operand::Kind::reg)
      persistent_[static_cast<size_t>(output.index)] = true;
    else if (output.kind != Operand::Kind::none)
      external(output);
  }
  // Registers are numbered after all externals.
  for (Step& step : steps_)
    for (size_t index = 0; index < 3; ++index)
      if (step.args[index] < -1)
        step.args[index] = static_cast<int>(externals_.size()) - 2 - step.args[index];
  const size_t count = externals_.size() + persistent_.size();
  bases_.resize(persistent_.size());
  pointers_.resize(count * kMostRows);
  widths_.assign(count, 1);
}

// The number of an external operand; a register r is -2 - r until all externals are known.
template <class Real>
int TileProgram<Real>::external(const Operand& operand) {
  if (operand.kind == Operand::Kind::reg) return -2 - operand.index;
  for (size_t index = 0; index < externals_.size(); ++index)
    if (same(externals_[index], operand)) return static_cast<int>(index);
  externals_.push_back(operand);
  return static_cast<int>(externals_.size()) - 1;
}

template <class Real>
int64_t TileProgram<Real>::size() const {
  const auto externals = static_cast<int64_t>(externals_.size());
  return static_cast<int64_t>(persistent_.size()) * kMostRows * kTileStride +
         externals * kMostRows * (kBroadcast + kTileStride);
}

template <class Real>
void TileProgram<Real>::bind(Real* memory) {
  if (!memory) return;
  for (size_t reg = 0; reg < persistent_.size(); ++reg)
    bases_[reg] = memory + static_cast<int64_t>(reg) * kMostRows * kTileStride + kTileMargin;
  broadcasts_ = memory + static_cast<int64_t>(persistent_.size()) * kMostRows * kTileStride;
  gathered_ = broadcasts_ + static_cast<int64_t>(externals_.size()) * kMostRows * kBroadcast;
}

template <class Real>
void TileProgram<Real>::resolve(const StripPlace& place, Range columns, const SlotsOfHead<Real>& slots,
                                Real* const* streams) {
  const int64_t lanes = primitives<Real>().lanes;
  for (size_t index = 0; index < externals_.size(); ++index) {
    const Operand& operand = externals_[index];
    const Real** rows = &pointers_[index * kMostRows];
    for (int64_t r = 0; r < place.rows; ++r) {
      const TileRow& row = place.row[r];
      Real* broadcast = broadcasts_ + (static_cast<int64_t>(index) * kMostRows + r) * kBroadcast;
      const auto repeat = [&](Real value) {
        std::fill_n(broadcast, lanes, value);
        rows[r] = broadcast;
        widths_[index] = 0;
      };
      switch (operand.kind) {
        case Operand::Kind::immediate:
          repeat(static_cast<Real>(operand.value));
          break;
        case Operand::Kind::stream:
          rows[r] = streams[operand.index] + r * kTileStride;
          break;
        case Operand::Kind::slot: {
          const Slots<Real>& source = *slots[static_cast<size_t>(row.head)];
          const Real* data = source.row_of(operand.index, row.query);
          const Rate rate = source.rate(operand.index);
          if (rate != Rate::column && rate != Rate::diagonal) {
            repeat(*data);
          } else if (!place.picked) {
            rows[r] = data + place.first_key;
          } else {
            Real* copy = gathered_ + (static_cast<int64_t>(index) * kMostRows + r) * kTileStride;
            for (int64_t c = columns.begin; c < columns.end; ++c) copy[c] = data[place.picked[c]];
            rows[r] = copy;
          }
          break;
        }
        case Operand::Kind::none:
        case Operand::Kind::reg:
          break;
      }
    }
  }
}

template <class Real>
void TileProgram<Real>::run(const StripPlace& place, Range columns, const SlotsOfHead<Real>& slots,
                            const Inputs& inputs, Real* const* streams) {
  if (idle() || columns.empty()) return;
  const Primitives<Real>& code = primitives<Real>();
  resolve(place, columns, slots, streams);
  const size_t externals = externals_.size();
  for (size_t reg = 0; reg < persistent_.size(); ++reg)
    for (int64_t r = 0; r < place.rows; ++r)
      pointers_[(externals + reg) * kMostRows + static_cast<size_t>(r)] =
          register_row(static_cast<int>(reg), r);
  std::array<std::array<const Real*, kMostRows>, 3> rows;
  for (int64_t begin = columns.begin; begin < columns.end; begin += kStretch) {
    const int64_t width = std::min(kStretch, columns.end - begin);
    for (const Step& step : steps_) {
      const auto result = static_cast<size_t>(step.instruction->result);
      Real* out = register_row(step.instruction->result, 0) + (persistent_[result] ? begin : 0);
      if (step.instruction->op == Op::read) {
        read(step, place, {begin, begin + width}, slots, inputs, out);
        continue;
      }
      std::array<View<Real>, 3> views;
      for (size_t index = 0; index < 3; ++index) {
        if (step.args[index] < 0) continue;
        const auto arg = static_cast<size_t>(step.args[index]);
        // A register that is no output is used from its first column on, in every stretch.
        const bool short_lived = arg >= externals && !persistent_[arg - externals];
        const int64_t shift = short_lived ? 0 : begin * widths_[arg];
        for (int64_t r = 0; r < place.rows; ++r)
          rows[index][static_cast<size_t>(r)] = pointers_[arg * kMostRows + static_cast<size_t>(r)] + shift;
        views[index] = {rows[index].data(), widths_[arg]};
      }
      code.apply[static_cast<size_t>(step.instruction->op)](
          {views[0], views[1], views[2], out, kTileStride, place.rows, width});
    }
  }
}

template <class Real>
void TileProgram<Real>::read(const Step& step, const StripPlace& place, Range columns,
                             const SlotsOfHead<Real>& slots, const Inputs& inputs, Real* out) {
  const size_t externals = externals_.size();
  const Table& table = inputs.tables[static_cast<size_t>(step.instruction->symbol)];
  for (int64_t r = 0; r < place.rows; ++r) {
    const Slots<Real>& source = *slots[static_cast<size_t>(place.row[r].head)];
    const Real* elements = table_data<Real>(table, source.batch(), source.head());
    std::array<const Real*, 3> subscripts{};
    std::array<int64_t, 3> steps{};
    for (size_t index = 0; index < 3; ++index) {
      if (step.args[index] < 0) continue;
      const auto arg = static_cast<size_t>(step.args[index]);
      const bool short_lived = arg >= externals && !persistent_[arg - externals];
      subscripts[index] = pointers_[arg * kMostRows + static_cast<size_t>(r)] +
                          (short_lived ? 0 : columns.begin * widths_[arg]);
      steps[index] = widths_[arg];
    }
    for (int64_t c = 0; c < columns.size(); ++c) {
      int64_t at = 0;
      for (size_t index = 0; index < 3; ++index)
        if (subscripts[index])
          at += table_place(subscripts[index][c * steps[index]], table.size[index], table.origin[index]) *
                table.stride[index];
      out[r * kTileStride + c] = elements[at];
    }
  }
}

template <class Real>
View<Real> TileProgram<Real>::output(const Operand& operand) const {
  size_t index = 0;
  if (operand.kind == Operand::Kind::reg) {
    index = externals_.size() + static_cast<size_t>(operand.index);
  } else {
    while (index < externals_.size() && !same(externals_[index], operand)) ++index;
    invariant(index < externals_.size(), "tile program: not one of its outputs");
  }
  return {&pointers_[index * kMostRows], widths_[index]};
}

template class TileProgram<float>;
template class TileProgram<double>;

}  // namespace saccade::kernels
