// One tile of queries on its way through the keys: scores, formula, mask, norm, and the weighted sum of
// values, block after block, with running maxima and sums.
#pragma once

#include <algorithm>

#include "saccade/kernels/kernels.h"
#include "saccade/kernels/list_mask.h"
#include "saccade/kernels/packing.h"
#include "saccade/kernels/slot_table.h"
#include "saccade/kernels/tile_map.h"
#include "saccade/kernels/tile_program.h"

namespace saccade::kernels {

inline constexpr int64_t kTileRows = 96;
// Rows that go through all steps before the next: their scores stay in the nearest cache.
inline constexpr int64_t kSubRows = 24;

// Up to kTileKeys keys in panels, and their values.
template <class Real>
struct KeyBlock : Columns {
  std::vector<const Real*> panels;             // by key vector
  std::vector<std::vector<const Real*>> rows;  // instead of panels: by key vector, a pointer for each key
  const Real* values = nullptr;
  int64_t value_stride = 0;
  std::vector<const Real*> value_rows;      // instead, unless empty: a pointer for each
  const uint16_t* narrow_values = nullptr;  // instead, unless null: in bfloat16
  const ListMask<Real>* lists = nullptr;    // hides what is not listed; null: nothing to hide
};

// What all tiles of a call share.
template <class Real>
struct CallContext {
  CallContext(const KernelPlan& kernel_plan, const Inputs& call_inputs)
      : plan(kernel_plan),
        inputs(call_inputs),
        code(primitives<Real>()),
        mask_slots(kernel_plan.mask, kernel_plan.plan, call_inputs.shape),
        forward_slots(kernel_plan.forward, kernel_plan.plan, call_inputs.shape),
        value_columns(round_up(call_inputs.value.width, code.lanes)) {
    find_score_vectors();
  }

  void prepare();  // in parallel

  // The keys that are not padding, or null when all are real.
  const Real* real_keys(int64_t batch) const {
    if (plan.key_mask_table < 0) return nullptr;
    return table_data<Real>(inputs.tables[static_cast<size_t>(plan.key_mask_table)], batch, 0);
  }
  Real scale(size_t product, const Slots<Real>& slots) const;
  // Whether heads have different scales.
  bool scale_varies() const {
    return std::ranges::any_of(plan.products,
                               [](const Product& p) { return p.scale.kind == Operand::Kind::slot; });
  }
  int64_t widest_key() const {
    int64_t widest = 1;
    for (const Array& array : score_keys) widest = std::max(widest, array.width);
    return widest;
  }

  const KernelPlan& plan;
  const Inputs& inputs;
  const Primitives<Real>& code;
  SlotTable<Real> mask_slots, forward_slots;
  int64_t value_columns;
  // What the products of queries and keys read: numbers, or where the machine multiplies pairs of bfloat16
  // numbers, such pairs. The vectors are the inputs' otherwise.
  std::vector<Array> score_queries, score_keys;
  void (*scores)(const ScoreTask<Real>&) = nullptr;
  void (*row_scores)(const RowScoreTask<Real>&) = nullptr;
  Real headroom = 8;  // of maxima: numerators are at most exp(8)

 private:
  void find_score_vectors();
};

// Per term: whether its argument is a product that nothing else reads, so that the weights may take its
// place.
std::vector<bool> in_place_terms(const KernelPlan& plan);
// Whether a program computes an output in a register that is no other output, so that it may stand elsewhere.
bool single_reader(const Program& program, const Operand& output);
// Per term: whether its argument is computed by the program into a register of its own, which may then be the
// tile of the weights.
std::vector<bool> direct_terms(const KernelPlan& plan);
// Whether a strip needs anything that the forward program computes; `coefficients`: also those of rows.
bool reads_outputs(const KernelPlan& plan, const std::vector<bool>& in_place, bool coefficients);

template <class Real>
class ForwardTile {
 public:
  explicit ForwardTile(const CallContext<Real>& context);

  // Numbers that `bind` needs.
  int64_t size() const { return size_; }
  void bind(Real* memory);

  // Begins with the rows [heads x queries]. The heads [first_head, first_head + heads) must share their keys
  // and their scales. `few`: the blocks will come with rows instead of panels.
  void begin(int64_t batch, int64_t first_head, int64_t heads, Range queries, bool few = false);
  // `clip`: leave out what the band forbids.
  void add(const KeyBlock<Real>& block, TileState state, bool clip);
  // Writes outputs and log-sums.
  void finish(const ForwardOutputs& outputs);

  // All blocks at once, for several softmax terms whose sum alone is wanted: the arguments of a few rows are
  // kept for all keys, so that the weights are summed before they meet the values, in one product instead of
  // one per term. `memory` has merged_size() numbers.
  static bool merges(const KernelPlan& plan, const ForwardOutputs& outputs);
  int64_t merged_size(int64_t blocks) const;
  void run_merged(const std::vector<KeyBlock<Real>>& blocks, const std::vector<TileState>& block_states,
                  bool clip, Real* memory, const ForwardOutputs& outputs);

  // Per term, the smallest of the rows' maxima so far.
  std::vector<Real> lowest_maxima() const;

  // The state between two blocks, to be continued elsewhere.
  int64_t state_size() const;
  void save(Real* memory) const;
  void absorb(const Real* memory);

  TileMap<Real>& map() { return map_; }
  const SlotsOfHead<Real>& mask_slots() const { return mask_slots_; }

 private:
  void load_queries();
  int64_t fold_of(int64_t depth) const;
  void fold_queries(const Real* source, int64_t stride, int64_t depth, Real* out) const;
  Real divide(size_t term, int64_t row, Real* log_sum) const;
  void find_addends(const KeyBlock<Real>& block, int64_t first_row, int64_t rows, const Operand& addend);
  Range query_range(int64_t first_row, int64_t rows) const;
  Range clip(const KeyBlock<Real>& block, int64_t first_row, int64_t rows) const;
  // What the strips of rows [first, first + rows) have to do with a block.
  struct SubTile {
    int64_t first = 0, rows = 0, strips = 0;
    std::array<Range, kSubRows> ranges;  // panels
    std::array<TileState, kSubRows> states;
    bool any = false;
    Range columns(int64_t strip, int64_t panel) const {
      return {ranges[static_cast<size_t>(strip)].begin * panel,
              ranges[static_cast<size_t>(strip)].end * panel};
    }
    Range columns(int64_t panel) const {  // of all strips
      Range all{INT64_MAX, 0};
      for (int64_t strip = 0; strip < strips; ++strip) {
        if (columns(strip, panel).empty()) continue;
        all.begin = std::min(all.begin, columns(strip, panel).begin);
        all.end = std::max(all.end, columns(strip, panel).end);
      }
      return all;
    }
  };
  Range trim(const KeyBlock<Real>& block, TileState state, bool clip_band);
  SubTile sub_tile(const KeyBlock<Real>& block, TileState state, bool clip_band, Range allowed,
                   int64_t first);
  void score(const KeyBlock<Real>& block, const SubTile& sub, Range products);
  void argue_strip(const KeyBlock<Real>& block, TileState state, Range terms, int64_t first_row,
                   int64_t strip_row, int64_t rows, Range columns);
  void sum_values(const KeyBlock<Real>& block, const SubTile& sub, bool clip_band, const Real* weights,
                  Real* sums) const;
  Real* tile_of(size_t term) const {
    return in_place_[term] ? scores_[static_cast<size_t>(plan_.terms[term].argument.index)] : weights_[term];
  }
  void store_rows(const ForwardOutputs& outputs) const;
  int64_t place_of(const TileRow& at) const;
  void weigh_strip(const KeyBlock<Real>& block, TileState state, Range terms, int64_t first_row,
                   int64_t strip_row, int64_t rows, Range columns);
  void hide(const KeyBlock<Real>& block, TileState state, const StripPlace& place, Range columns, Real fill,
            Real* tile);
  Real* accumulator(size_t term) {
    return accumulators_ + static_cast<int64_t>(term) * kTileRows * context_.value_columns;
  }

  const CallContext<Real>& context_;
  const KernelPlan& plan_;
  const Primitives<Real>& code_;
  TileMap<Real> map_;
  TileProgram<Real> mask_program_, forward_program_;
  std::vector<bool> in_place_, direct_;  // per term
  // What is scored, weighed and summed before the next: all terms, or where nothing reads two of them each by
  // itself, whose scores then stay in the nearest cache.
  struct Turn {
    Range terms, products;
  };
  std::vector<Turn> turns_;
  bool runs_program_ = true, few_ = false;
  std::vector<TileRow> rows_;
  SlotsOfHead<Real> mask_slots_, forward_slots_;
  int64_t size_ = 0, batch_ = 0, first_head_ = 0;

  std::vector<Real*> queries_;  // by query vector, in strips; few of them in one piece
  Real* accumulators_ = nullptr;
  Real* maxima_ = nullptr;  // [term][row]
  Real* sums_ = nullptr;
  Real* factors_ = nullptr;
  Real* load_ = nullptr;
  std::vector<Real*> scores_;   // by product; the same for all that take turns
  std::vector<Real*> weights_;  // by term
  std::vector<Real*> streams_;  // scores at a strip's first row
  std::array<const Real*, kTileRows> addends_;
  Real* gathered_ = nullptr;
};

}  // namespace saccade::kernels
