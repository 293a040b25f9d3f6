// The vector code of the kernels, as a table of functions for the best instruction set of this machine. What
// is here knows strips of numbers and nothing of attention's order of work; the drivers above know the order
// and contain no vector code.
//
// A tile is a block of rows of kTileStride numbers of which kTileKeys are used, with a margin on both sides.
// A strip is a few neighbouring rows of it. A panel is `panel` neighbouring keys, stored feature by feature.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "saccade/formula/operations.h"
#include "saccade/kernels/arrays.h"

namespace saccade::kernels {

inline constexpr int64_t kTileKeys = 256, kTileMargin = 16, kTileStride = kTileKeys + 2 * kTileMargin;
// What the mask leaves of an argument of softmax, and the largest of none.
template <class Real>
inline constexpr Real kMinusInfinity = -std::numeric_limits<Real>::infinity();
inline constexpr int64_t kMostRows = 12;   // of a strip, on any machine
inline constexpr int64_t kMostPanel = 32;  // keys of a panel, on any machine

// An operand of a strip: row r begins at rows[r]; a step of 0 repeats one vector all along the row.
template <class Real>
struct View {
  const Real* const* rows = nullptr;
  int64_t step = 1;
};

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
};

// out[r][key] = scale * (query r . key) + addend, for strips of queries and for each the panels of its range.
template <class Real>
struct ScoreTask {
  const Real* queries;  // strip s is [depth][rows of the strip], at s * depth * primitives.rows
  int64_t rows, depth;
  const Real* panels;
  Real scale;
  const Real* const* addends;  // per row, for the first key; null: none
  const Range* ranges;         // per strip, in panels
  Real* out;                   // a tile
};

// The same for few queries, and keys that stand anywhere: the queries are the vector, and a key's numbers are
// broadcast, so that nothing has to be laid out in panels first.
template <class Real>
struct RowScoreTask {
  // [depth / fold][rows][fold], each group of rows filled up with 0 to whole vectors.
  const Real* queries;
  int64_t rows, depth;
  int64_t fold;  // 1, 2 or 4 neighbouring numbers of a row beside each other; more than 1 for one vector only
  const Real* const* keys;  // one pointer for each key
  int64_t begin, end;       // columns of the tile; keys are counted as they are
  Real scale;
  const Real* const* addends;  // per row, for key 0; null: none
  Real* out;  // a tile with room for a multiple of 8 rows: those behind the last hold anything
};

// c += a . b, where a is read from a tile.
template <class Real>
struct AccumulateTask {
  const Real* a;
  bool transposed;  // a's rows are columns of the tile
  int64_t rows, depth;
  const Real* b;
  int64_t b_stride;
  int64_t columns;  // a multiple of the lanes
  Real* c;
  int64_t c_stride;
  const Real* const* b_rows = nullptr;  // instead of b: where each of its rows stands
  Real* const* c_rows = nullptr;        // instead of c: the same; for transposed a alone
  const uint16_t* narrow_b = nullptr;   // instead of b: in bfloat16; for floats, and not for transposed a
};

// One scalar operation of the formula language over a strip.
template <class Real>
struct ApplyTask {
  View<Real> x, y, z;
  Real* out;
  int64_t out_stride, rows;
  int64_t begin, end;  // columns; their number is a multiple of the lanes
};

// Short operations one after the other over a strip. The result of a step is held for the next one, which
// reads it as the operand that its code names; what is read later, too, is also stored.
inline constexpr int chain_code(Op op, int held) { return static_cast<int>(op) * 3 + held; }
inline constexpr int kChainMultiplyAdd = -1;  // the held one times the first other, plus the second

template <class Real>
struct ChainStep {
  int code = kChainMultiplyAdd;
  View<Real> other[2];  // the operands that are not held, in order
  Real* const* out =
      nullptr;            // where the strip of a tile is that receives it; null: only the next step wants it
  View<Real> start = {};  // held instead of the result of the step before
};

template <class Real>
struct ChainTask {
  const ChainStep<Real>* steps;
  int64_t count;
  int64_t rows, begin, end;  // columns; their number is a multiple of the lanes
};

// How an operation takes the held result as the operand of that number: it may be another operation, which
// means the same with operands in another order. Nothing: not in a chain.
std::optional<int> chain_code_of(Op op, int held);

// A norm, tile after tile: turns arguments into numerators in place, and keeps per row what it divides by.
template <class Real>
struct NormTask {
  Real* x;  // a tile; columns [begin, end), multiples of the lanes
  int64_t rows, begin, end;
  Real* maximum;  // so far, or up to `headroom` less; numerators are divided by exp(maximum)
  Real* sum;      // so far
  Real* factor;   // by which earlier numerators have to be multiplied
  // A softmax's maximum is not replaced by one that is larger by less: most rows are never scaled again then.
  Real headroom = 0;
};

// The adjoint of one term, for a strip. P = numerator / sum, recomputed from the argument and the log-sum.
template <class Real>
struct TermBackwardTask {
  const Real* argument;         // null for a term without norm; masked places hold -inf (softmax) or 0
  const Real* weight_gradient;  // dO . v
  View<Real> coefficient;       // rows null: 1
  const Real* log_sums;         // per row
  const Real* deltas;           // per row: the sum of P * coefficient * weight_gradient
  int64_t rows, begin, end;
  Real* weight;  // coefficient * P, set or added
  bool add_weight;
  Real* argument_gradient;     // null: not wanted
  Real* coefficient_gradient;  // null: not wanted
};

template <class Real>
struct Primitives {
  const char* target = nullptr;  // the instruction set
  int64_t lanes = 0, rows = 0, panel = 0;
  int64_t few_rows = 0;  // at most so many go through row_scores

  // --- moving ---
  // One row of an array as numbers of the compute type, filled with 0 up to a multiple of the lanes.
  void (*widen)(const void* source, Storage storage, int64_t stride, int64_t width, Real* out);
  void (*narrow)(const Real* source, Storage storage, int64_t stride, int64_t width, void* out);
  // out[k * out_stride + row] = source[row * source_stride + k]; rows from `count` to `filled` are 0.
  void (*transpose)(const Real* source, int64_t source_stride, int64_t count, int64_t depth, Real* out,
                    int64_t out_stride, int64_t filled);
  void (*copy)(View<Real> source, int64_t rows, int64_t begin, int64_t end, Real* tile);

  // --- products ---
  void (*scores)(const ScoreTask<Real>&);
  void (*row_scores)(const RowScoreTask<Real>&);
  // The same for vectors of bfloat16 numbers, two of which stand in each number of queries and keys; depth
  // counts pairs. Products are exact and sums are in single precision. Null where the machine cannot do it.
  void (*pair_scores)(const ScoreTask<Real>&) = nullptr;
  void (*pair_row_scores)(const RowScoreTask<Real>&) = nullptr;
  void (*accumulate)(const AccumulateTask<Real>&);

  // --- formulas ---
  std::vector<void (*)(const ApplyTask<Real>&)> apply;  // by operation
  void (*chain)(const ChainTask<Real>&);

  // --- norms ---
  void (*softmax)(const NormTask<Real>&);
  void (*l1)(const NormTask<Real>&);
  void (*softpick)(const NormTask<Real>&);
  // x = mask ? x : fill
  void (*mask)(View<Real> mask, Real fill, int64_t rows, int64_t begin, int64_t end, Real* tile);
  // x = x * coefficient, where 0 stays 0.
  void (*weigh)(View<Real> coefficient, int64_t rows, int64_t begin, int64_t end, Real* tile);
  // out = x * factor + y * other factor, per row; out may be x.
  void (*combine)(const Real* x, const Real* y, int64_t rows, int64_t begin, int64_t end,
                  const Real* x_factors, const Real* y_factors, Real* out);
  void (*scale_rows)(Real* data, int64_t stride, int64_t rows, int64_t columns, const Real* factors);
  void (*softmax_backward)(const TermBackwardTask<Real>&);
  void (*l1_backward)(const TermBackwardTask<Real>&);
  void (*softpick_backward)(const TermBackwardTask<Real>&);
  void (*plain_backward)(const TermBackwardTask<Real>&);

  // --- sums ---
  void (*row_sums)(const Real* tile, int64_t rows, int64_t begin, int64_t end, Real* sums);
  void (*column_sums)(const Real* tile, int64_t rows, int64_t begin, int64_t end, Real* sums);
  // sums[c - r] += tile[r][c]; the margins around the range are overwritten.
  void (*diagonal_sums)(Real* tile, int64_t rows, int64_t begin, int64_t end, Real* sums);
  Real (*dot)(const Real* a, const Real* b, int64_t width);  // a multiple of the lanes
  void (*add)(const Real* source, int64_t count, Real* sum);
};

template <class Real>
const Primitives<Real>& primitives();

// The instruction set in use, for people.
std::string target_name();

}  // namespace saccade::kernels
