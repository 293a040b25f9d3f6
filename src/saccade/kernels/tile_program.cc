// Operands are resolved to one pointer per row before the instructions run.
#include "saccade/kernels/tile_program.h"

#include <algorithm>

#include "saccade/base/error.h"

namespace saccade::kernels {
namespace {

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
  registers_ = static_cast<size_t>(stage.registers);
  for (const Operand& output : program.outputs) {
    if (output.kind != Operand::Kind::reg && output.kind != Operand::Kind::none) external(output);
  }
  // Registers are numbered after all externals.
  for (Step& step : steps_)
    for (size_t index = 0; index < 3; ++index)
      if (step.args[index] < -1)
        step.args[index] = static_cast<int>(externals_.size()) - 2 - step.args[index];
  find_chains();
  const size_t count = externals_.size() + registers_;
  bases_.resize(registers_);
  pointers_.resize(count * kMostRows);
  widths_.assign(count, 1);
}

template <class Real>
bool TileProgram<Real>::reads(const Step& step, int32_t reg) const {
  const int index = static_cast<int>(externals_.size()) + reg;
  return std::ranges::find(step.args, index) != step.args.end();
}

// Which operand of a step is the result of the step before it, and no other is; -1: none.
template <class Real>
int TileProgram<Real>::held_by(size_t step) const {
  if (step == 0) return -1;
  const int before = static_cast<int>(externals_.size()) + steps_[step - 1].instruction->result;
  const auto& args = steps_[step].args;
  if (std::ranges::count(args, before) != 1) return -1;
  return static_cast<int>(std::ranges::find(args, before) - args.begin());
}

// Splits the steps into chains and long ones.
template <class Real>
void TileProgram<Real>::find_chains() {
  for (size_t index = 0; index < steps_.size(); ++index) {
    Step& step = steps_[index];
    const bool follows = index > 0 && steps_[index - 1].code != kAlone;
    const int held = follows ? held_by(index) : -1;
    std::optional<int> code = held < 0 ? std::nullopt : chain_code_of(step.instruction->op, held);
    step.held = code ? held : -1;
    if (!code) code = chain_code_of(step.instruction->op, 0);
    if (!code) continue;
    step.code = *code;
    if (follows) steps_[index - 1].ends = false;
    step.ends = true;
  }
  for (size_t index = 0; index < steps_.size(); ++index) {
    Step& step = steps_[index];
    if (step.code == kAlone) continue;
    const int32_t reg = step.instruction->result;
    step.stores = step.ends;
    bool overwritten = false;
    for (size_t later = index + 1; later < steps_.size() && !overwritten; ++later) {
      step.stores |= reads(steps_[later], reg) && (later > index + 1 || steps_[later].held < 0);
      overwritten = steps_[later].instruction->result == reg;
    }
    for (const Operand& output : program_->outputs)
      step.stores |= !overwritten && output.kind == Operand::Kind::reg && output.index == reg;
  }
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
  return static_cast<int64_t>(registers_) * kMostRows * kTileStride +
         externals * kMostRows * (kBroadcast + kTileStride);
}

template <class Real>
void TileProgram<Real>::bind(Real* memory) {
  if (!memory) return;
  links_.clear();
  const size_t externals = externals_.size();
  for (size_t reg = 0; reg < registers_; ++reg)
    set_register(reg, memory + static_cast<int64_t>(reg) * kMostRows * kTileStride + kTileMargin);
  broadcasts_ = memory + static_cast<int64_t>(registers_) * kMostRows * kTileStride;
  gathered_ = broadcasts_ + static_cast<int64_t>(externals) * kMostRows * kBroadcast;
  for (size_t index = 0; index < externals; ++index)
    if (externals_[index].kind == Operand::Kind::immediate)
      repeat_in_all_rows(index, static_cast<Real>(externals_[index].value));
}

template <class Real>
void TileProgram<Real>::set_register(size_t reg, Real* strip) {
  bases_[reg] = strip;
  for (int64_t r = 0; r < kMostRows; ++r)
    pointers_[(externals_.size() + reg) * kMostRows + static_cast<size_t>(r)] = strip + r * kTileStride;
}

// One vector of the value, that all rows read again and again.
template <class Real>
void TileProgram<Real>::repeat_in_all_rows(size_t index, Real value) {
  Real* vector = broadcasts_ + static_cast<int64_t>(index) * kMostRows * kBroadcast;
  if (widths_[index] == 0 && pointers_[index * kMostRows] == vector && *vector == value) return;
  std::fill_n(vector, kBroadcast, value);
  std::fill_n(&pointers_[index * kMostRows], kMostRows, vector);
  widths_[index] = 0;
}

template <class Real>
void TileProgram<Real>::resolve(const StripPlace& place, Range columns, const SlotsOfHead<Real>& slots,
                                Real* const* streams) {
  for (size_t index = 0; index < externals_.size(); ++index) {
    const Operand& operand = externals_[index];
    const Real** rows = &pointers_[index * kMostRows];
    if (operand.kind == Operand::Kind::stream) {
      for (int64_t r = 0; r < place.rows; ++r) rows[r] = streams[operand.index] + r * kTileStride;
      continue;
    }
    if (operand.kind != Operand::Kind::slot) continue;  // immediates are there since bind()
    const Rate rate = slots[0]->rate(operand.index);
    if ((rate == Rate::head || rate == Rate::constant) && slots.size() == 1) {
      repeat_in_all_rows(index, *slots[0]->data(operand.index));
      continue;
    }
    if (rate == Rate::column && slots.size() == 1 && !place.picked) {  // the same for all queries
      std::fill_n(rows, place.rows, slots[0]->row_of(operand.index, place.row[0].query) + place.first_key);
      continue;
    }
    for (int64_t r = 0; r < place.rows; ++r) {
      const TileRow& row = place.row[r];
      const Real* data = slots[static_cast<size_t>(row.head)]->row_of(operand.index, row.query);
      if (rate != Rate::column && rate != Rate::diagonal) {
        Real* vector = broadcasts_ + (static_cast<int64_t>(index) * kMostRows + r) * kBroadcast;
        std::fill_n(vector, kBroadcast, *data);
        rows[r] = vector;
        widths_[index] = 0;
      } else if (!place.picked) {
        rows[r] = data + place.first_key;
      } else {
        Real* copy = gathered_ + (static_cast<int64_t>(index) * kMostRows + r) * kTileStride;
        for (int64_t c = columns.begin; c < columns.end; ++c) copy[c] = data[place.picked[c]];
        rows[r] = copy;
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
  if (links_.empty()) link_chains();
  for (const Step& step : steps_) {
    if (step.code != kAlone) {
      if (step.ends)
        code.chain({links_.data() + step.from, static_cast<int64_t>(step.to - step.from), place.rows,
                    columns.begin, columns.end});
      continue;
    }
    Real* out = bases_[static_cast<size_t>(step.instruction->result)];
    if (step.instruction->op == Op::read) {
      read(step, place, columns, slots, inputs, out);
      continue;
    }
    std::array<View<Real>, 3> views;
    for (size_t index = 0; index < 3; ++index)
      if (step.args[index] >= 0) views[index] = view(static_cast<size_t>(step.args[index]));
    code.apply[static_cast<size_t>(step.instruction->op)](
        {views[0], views[1], views[2], out, kTileStride, place.rows, columns.begin, columns.end});
  }
}

// Whether a step is a product that nobody wants but the sum after it.
template <class Real>
bool TileProgram<Real>::multiplies_and_adds(size_t index) const {
  if (index + 1 >= steps_.size()) return false;
  const Step &step = steps_[index], &next = steps_[index + 1];
  return step.code == chain_code(Op::multiply, 0) && !step.stores && !step.ends &&
         next.code == chain_code(Op::add, 0) && next.held >= 0;
}

// Operands keep their places from the first run on; only what is there changes.
template <class Real>
void TileProgram<Real>::link_chains() {
  size_t from = 0;
  for (size_t index = 0; index < steps_.size(); ++index) {
    if (steps_[index].code == kAlone) continue;
    ChainStep<Real> link{steps_[index].code, {}, nullptr};
    if (steps_[index].held < 0) link.start = view(static_cast<size_t>(steps_[index].args[0]));
    size_t others = 0;
    const auto add_others = [&](const Step& step) {
      for (int operand = 0; operand < 3; ++operand)
        if (operand != std::max(step.held, 0) && step.args[static_cast<size_t>(operand)] >= 0)
          link.other[others++] = view(static_cast<size_t>(step.args[static_cast<size_t>(operand)]));
    };
    add_others(steps_[index]);
    if (multiplies_and_adds(index)) {
      link.code = kChainMultiplyAdd;
      add_others(steps_[++index]);
    }
    Step& last = steps_[index];
    if (last.stores) link.out = &bases_[static_cast<size_t>(last.instruction->result)];
    links_.push_back(link);
    if (!last.ends) continue;
    last.from = from;
    last.to = from = links_.size();
  }
}

template <class Real>
void TileProgram<Real>::read(const Step& step, const StripPlace& place, Range columns,
                             const SlotsOfHead<Real>& slots, const Inputs& inputs, Real* out) {
  const Table& table = inputs.tables[static_cast<size_t>(step.instruction->symbol)];
  for (int64_t r = 0; r < place.rows; ++r) {
    const Slots<Real>& source = *slots[static_cast<size_t>(place.row[r].head)];
    const Real* elements = table_data<Real>(table, source.batch(), source.head());
    std::array<View<Real>, 3> subscripts;
    for (size_t index = 0; index < 3; ++index)
      if (step.args[index] >= 0) subscripts[index] = view(static_cast<size_t>(step.args[index]));
    for (int64_t c = columns.begin; c < columns.end; ++c) {
      int64_t at = 0;
      for (size_t index = 0; index < 3; ++index)
        if (subscripts[index].rows)
          at += table_place(subscripts[index].rows[r][c * subscripts[index].step], table.size[index],
                            table.origin[index]) *
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
  return view(index);
}

template class TileProgram<float>;
template class TileProgram<double>;

}  // namespace saccade::kernels
