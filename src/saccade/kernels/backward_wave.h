// What the units of a backward pass share. A wave is as many key heads as fit into a bounded memory: for each
// of their heads the packed queries and output gradients with what is known of each row, and for each unit
// its partial sums, which are added up in a fixed order when all units are done.
#pragma once

#include "saccade/kernels/backward_tile.h"

namespace saccade::kernels {

// Rows as plain numbers.
template <class Real>
struct PlainRows {
  const Real* data = nullptr;
  int64_t stride = 0;
};

template <class Real>
class BackwardWave {
 public:
  BackwardWave(const CallContext<Real>& context, const BackwardInputs& saved, const Gradients& gradients);

  void
  prepare();  // the order of its memory, and the chain rule's slots if anybody asks for what they lead to

  int64_t most_pairs() const { return wave_; }  // key heads of a wave
  int64_t chunks() const { return chunks_; }    // units of an owner: a key head, or with lists a head
  size_t bytes(int64_t pairs) const;

  // Packs queries and output gradients of the key heads [first, first + pairs), and finds the deltas.
  void begin(int64_t first_pair, int64_t pairs, std::byte* memory);
  // A head of the wave with the sums of a unit, which begin at 0.
  BackwardQueries<Real> begin_unit(int64_t local_head, int64_t chunk);
  // Whether lists are for so few queries that keys and values are better read where they stand.
  bool few() const { return few_; }
  // Where a listed unit's gradients of picked keys and values are summed, for few queries.
  void point_at_sums(BackwardKeys<Real>& keys, int64_t local_head, int64_t chunk) const;
  // Adds a tile's gradients of keys and values to those of a listed unit.
  void scatter_keys(const BackwardKeys<Real>& keys, int64_t local_head, int64_t chunk) const;
  // The partial sums together.
  void add_up();

  int64_t first_head() const { return first_head_; }
  // The values as their products with output gradients read them: as numbers, or as pairs of bfloat16
  // numbers.
  const Array& score_value() const { return score_value_; }
  bool gathers() const { return inputs_.lists && inputs_.lists.gather; }
  int64_t columns(const Array& array) const { return round_up(array.width, code_.lanes); }
  // Products are scaled in the end, unless heads have scales of their own.
  Real scale_of_key(size_t vector) const;
  Real scale_of_query(size_t vector) const;

 private:
  void lay_out();
  bool reads_singly() const;
  int64_t sum_length(const Target& target) const;
  bool wants_chain() const;
  Real uniform_scale(size_t product) const;
  Real* head_memory(int64_t local_head) const { return heads_ + local_head * head_size_; }
  Real* part_memory(int64_t local_head, int64_t chunk) const {
    return parts_ + (local_head * chunks_ + chunk) * part_size_;
  }
  // Where they are, if they can be read there, otherwise in the copy.
  PlainRows<Real> rows_of(const Array& array, int64_t batch, int64_t head, const Real* copy) const;
  void load_heads(int64_t heads);
  void load_rows_of(int64_t local_head, Range rows, Real* scratch) const;
  const Real* output_row(size_t term, int64_t batch, int64_t head, int64_t row, Real* scratch) const;
  void find_deltas(int64_t local_head, Range rows, Real* scratch) const;
  void add_rows(const Array& array, int64_t batch, int64_t head, Range rows, int64_t offset,
                int64_t first_local, int64_t members, Real scale, const Real* real) const;
  void add_tables(int64_t local_head);
  std::vector<double> row_adjoints(const RowTarget& target, int64_t local_head, int64_t batch,
                                   int64_t head) const;

  const CallContext<Real>& context_;
  const KernelPlan& plan_;
  const Inputs& inputs_;
  const BackwardInputs& saved_;
  const Gradients& gradients_;
  const Shape& shape_;
  const Primitives<Real>& code_;
  SlotTable<Real> chain_slots_;
  Array score_value_, score_gradient_;

  // In numbers: sizes of a head's and a unit's memory, and where their pieces begin.
  int64_t head_size_ = 0, part_size_ = 0;
  std::vector<int64_t> strip_offsets_, row_offsets_, query_sums_, target_sums_, key_sums_;
  int64_t gradient_strips_ = 0, gradient_rows_ = 0, log_sums_ = 0, deltas_ = 0, dots_ = 0, value_sums_ = 0;
  int64_t chunks_ = 1, wave_ = 1;
  bool few_ = false;

  int64_t first_pair_ = 0, pairs_ = 0, first_head_ = 0;
  Real* heads_ = nullptr;
  Real* parts_ = nullptr;
};

}  // namespace saccade::kernels
