// Runs the tile stage of a program on one strip after another. Neighbouring short instructions run as one
// chain, which keeps most of their results in registers; a long one, such as an exponential, processes the
// whole strip at once, so that choosing it is paid rarely.
#pragma once

#include "saccade/kernels/primitives.h"
#include "saccade/kernels/slots.h"

namespace saccade::kernels {

// A row of a tile. Neighbouring rows may belong to different heads.
struct TileRow {
  int64_t head = 0;  // among the heads in reach
  int64_t query = 0;
};

// The slots of every head in reach.
template <class Real>
using SlotsOfHead = std::vector<const Slots<Real>*>;

// Which pairs a strip holds: its rows, and the keys of its columns, either neighbours or picked one by one.
struct StripPlace {
  const TileRow* row = nullptr;
  int64_t rows = 0;
  int64_t first_key = 0;
  const int32_t* picked = nullptr;  // the key of each column
};

template <class Real>
class TileProgram {
 public:
  explicit TileProgram(const Program& program);

  // Numbers that `bind` needs.
  int64_t size() const;
  void bind(Real* memory);

  // Computes all outputs for the columns. `streams` are tiles, at the strip's first row. The slots are by
  // head of the strip's rows.
  void run(const StripPlace& place, Range columns, const SlotsOfHead<Real>& slots, const Inputs& inputs,
           Real* const* streams);

  // Lets the next run put an output that it computes at a strip of the caller's; other outputs stay inside.
  void direct(const Operand& output, Real* strip) { set_register(static_cast<size_t>(output.index), strip); }

  // Where an output is, until the next run: in the layout of the strip.
  View<Real> output(const Operand& operand) const;
  bool has_steps() const { return !steps_.empty(); }
  bool idle() const { return steps_.empty() && externals_.empty(); }

 private:
  struct Step {
    const Instruction* instruction;
    std::array<int, 3> args;  // -1: none; otherwise an external, or a register after all externals
    // As part of a chain, if it is one:
    int code = kAlone;
    int held = -1;            // which operand is the result of the step before; -1: the first is loaded
    bool stores = true;       // somebody else than the next step reads the result
    bool ends = false;        // it is the last
    size_t from = 0, to = 0;  // of the last: its chain among all steps of chains
  };
  static constexpr int kAlone = -2;
  void find_chains();
  bool reads(const Step& step, int32_t reg) const;
  int held_by(size_t step) const;
  bool multiplies_and_adds(size_t step) const;
  void link_chains();
  int external(const Operand& operand);
  void resolve(const StripPlace& place, Range columns, const SlotsOfHead<Real>& slots, Real* const* streams);
  void read(const Step& step, const StripPlace& place, Range columns, const SlotsOfHead<Real>& slots,
            const Inputs& inputs, Real* out);
  void set_register(size_t reg, Real* strip);
  void repeat_in_all_rows(size_t external, Real value);
  View<Real> view(size_t index) const { return {&pointers_[index * kMostRows], widths_[index]}; }

  const Program* program_;
  std::vector<Operand> externals_;  // operands that are not registers
  std::vector<Step> steps_;
  size_t registers_ = 0;
  std::vector<const Real*> pointers_;   // [external or register][row]
  std::vector<int64_t> widths_;         // the step of each
  std::vector<Real*> bases_;            // of the registers
  std::vector<ChainStep<Real>> links_;  // of all chains; empty until the first run
  Real* broadcasts_ = nullptr;
  Real* gathered_ = nullptr;
};

}  // namespace saccade::kernels
