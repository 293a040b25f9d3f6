// The gradients of one tile: queries against keys, five products for a single softmax. Weights are recomputed
// from the saved log-sums. What it adds to belongs to the caller, who sees to it that no two threads share
// it.
#pragma once

#include "saccade/kernels/forward_tile.h"

namespace saccade::kernels {

inline constexpr int64_t kBackwardKeys = 96, kBackwardQueries = 96;

// Keys of a tile in the layouts that the products need, and where their gradients are summed.
template <class Real>
struct BackwardKeys : Columns {
  const ListMask<Real>* lists = nullptr;  // hides what is not listed; null: nothing to hide
  std::vector<const Real*> panels;        // by key vector
  std::vector<const Real*> rows;          // by key vector
  std::vector<int64_t> row_strides;
  const Real* value_panels = nullptr;
  std::vector<Real*> key_gradients;  // by key vector, [kBackwardKeys][columns_of]
  Real* value_gradient = nullptr;    // [kBackwardKeys][value_columns]
  // For few queries nothing of this is laid out: keys and values are read, and their gradients are added to,
  // where they stand. A pointer for each key; an empty list of gradients is not wanted.
  bool few = false;
  std::vector<std::vector<const Real*>> single_rows;  // by key vector
  std::vector<const Real*> single_values;
  std::vector<std::vector<Real*>> single_gradients;  // by key vector
  std::vector<Real*> single_value_gradients;
};

// One head's queries, all of them: a tile takes its part.
template <class Real>
struct BackwardQueries {
  int64_t batch = 0, head = 0;
  std::vector<const Real*>
      strips;  // by query vector, packed for products; of few queries as row_scores reads them
  std::vector<const Real*> rows;  // by query vector
  std::vector<int64_t> row_strides;
  const Real* gradient_strips = nullptr;  // of the output
  int64_t gradient_depth = 0;             // of a row of them
  void (*gradient_scores)(const ScoreTask<Real>&) = nullptr;
  const Real* gradient_rows = nullptr;
  int64_t gradient_row_stride = 0;
  const Real* log_sums = nullptr;      // [term][query]
  const Real* deltas = nullptr;        // [term][query]
  std::vector<Real*> query_gradients;  // by query vector
  // Per target, at its first element: sums by row, column, diagonal or a single one. Null: not wanted.
  std::vector<Real*> sums;
};

template <class Real>
class BackwardTile {
 public:
  BackwardTile(const CallContext<Real>& context, const SlotTable<Real>& adjoint_slots,
               const Gradients& gradients);

  int64_t size() const { return size_; }
  void bind(Real* memory);

  void run(const BackwardQueries<Real>& queries, Range range, const BackwardKeys<Real>& keys, TileState state,
           bool clip);

  int64_t columns_of(const Array& array) const { return round_up(array.width, code_.lanes); }
  TileMap<Real>& map() { return map_; }

 private:
  void score(const BackwardQueries<Real>& queries, Range range, const BackwardKeys<Real>& keys,
             const Range* ranges);
  // Whether the gradient of a product's scores is not an argument's or a coefficient's as it stands.
  bool has_own_tile(const Target& target) const {
    return target.adjoint.kind != Operand::Kind::stream || context_.scale_varies();
  }
  void weigh_strip(const BackwardQueries<Real>& queries, const BackwardKeys<Real>& keys, TileState state,
                   int64_t first_query, int64_t row, int64_t rows, Range columns);
  void hide(const BackwardKeys<Real>& keys, TileState state, const StripPlace& place, Range columns,
            Real fill, Real* tile);
  void take_targets(const BackwardQueries<Real>& queries, const BackwardKeys<Real>& keys,
                    const StripPlace& place, int64_t row, Range columns);
  void scatter(const Target& target, const BackwardQueries<Real>& queries, const StripPlace& place,
               Range columns, const Real* adjoint);
  void multiply(const BackwardQueries<Real>& queries, Range range, const BackwardKeys<Real>& keys,
                const Range* columns, bool partial);

  const CallContext<Real>& context_;
  const SlotTable<Real>& adjoint_slots_;
  const Gradients& gradients_;
  const KernelPlan& plan_;
  const Primitives<Real>& code_;
  TileMap<Real> map_;
  TileProgram<Real> mask_program_, forward_program_, adjoint_program_;
  std::vector<bool> in_place_, direct_;
  bool runs_program_ = true, runs_adjoint_ = true;
  bool all_softmax_ = true;
  int64_t size_ = 0;
  std::vector<TileRow> rows_;
  SlotsOfHead<Real> mask_slots_, forward_slots_, adjoint_slots_of_head_;
  std::array<const Real*, kBackwardQueries> addends_;

  // Scores, arguments and weight gradients are used anew by every strip of rows, so that they stay in the
  // nearest cache; for few queries, whose scores are made all at once, each strip has its part of the tile.
  std::vector<Real*> scores_;                                      // by product
  std::vector<Real*> arguments_;                                   // by term, where not in place
  std::vector<Real*> argument_gradients_, coefficient_gradients_;  // by term
  std::vector<bool> multiplied_;        // by term: its argument's gradient is a factor of the last products
  std::vector<Real*> score_gradients_;  // by product, where they are not an argument's
  Real* weights_ = nullptr;
  Real* weight_gradients_ = nullptr;
  Real* gathered_ = nullptr;
  std::vector<const Real*> score_gradient_of_;  // by product: where the adjoint of this tile is
  std::vector<Real*> streams_;
};

}  // namespace saccade::kernels
