// The matrix products of the kernels: one register tile, used in three ways. Included once per instruction
// set.
#if defined(SACCADE_PRODUCTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SACCADE_PRODUCTS_INL
#undef SACCADE_PRODUCTS_INL
#else
#define SACCADE_PRODUCTS_INL
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "saccade/kernels/primitives.h"
#include "saccade/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace saccade::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// As many rows as accumulators, one vector pair of the other factor and a broadcast fit into the registers.
#if HWY_TARGET <= HWY_AVX3
inline constexpr int kStripRows = 12;
#elif HWY_TARGET == HWY_NEON
inline constexpr int kStripRows = 8;
#elif HWY_TARGET == HWY_AVX2
inline constexpr int kStripRows = 6;
#else
inline constexpr int kStripRows = 4;
#endif

#define SACCADE_UNROLL _Pragma("GCC unroll 16")

// Whether some machines with this instruction set multiply pairs of bfloat16 numbers.
#undef SACCADE_BFLOAT_PAIRS
#define SACCADE_BFLOAT_PAIRS (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL)

// Rows at equal distances, and rows that stand anywhere: b[k] of the products below.
template <class Real>
struct EvenRows {
  const Real* first;
  int64_t stride;
  HWY_INLINE const Real* next() {
    const Real* row = first;
    first += stride;
    return row;
  }
};
template <class Real>
struct AnyRows {
  const Real* const* rows;
  int64_t column;
  HWY_INLINE const Real* next() { return *rows++ + column; }
};

// What the lanes of the factors hold: numbers, or pairs of bfloat16 numbers whose two products are both
// added.
struct Numbers {
  template <class V>
  static HWY_INLINE V multiply_add(V a, V b, V sum) {
    return hn::MulAdd(a, b, sum);
  }
};
#if SACCADE_BFLOAT_PAIRS
struct BfloatPairs {
  // As assembly, because Highway has no instruction set with it: the caller sees to it that the machine does.
  template <class V>
  static HWY_INLINE V multiply_add(V a, V b, V sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
    return sum;
  }
};
#endif

// A vector of numbers, from how they are stored.
template <class D>
HWY_INLINE hn::Vec<D> load_numbers(D d, const Scalar<D>* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> load_numbers(D d, const uint16_t* from) {  // bfloat16
  const hn::Rebind<uint16_t, D> narrow;
  const hn::RebindToUnsigned<D> bits;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, hn::LoadU(narrow, from))));
}

// acc[r][v] += sum over k of a[r * RowStep + k * DepthStep] * b[k][v]
template <int R, int NV, int64_t RowStep, int64_t DepthStep, class Factors = Numbers, class D, class Rows>
HWY_INLINE void multiply_register_tile(D d, const Scalar<D>* HWY_RESTRICT a, Rows b, int64_t depth,
                                       hn::Vec<D> (&acc)[R][NV]) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
#pragma GCC unroll 4
  for (int64_t k = 0; k < depth; ++k) {
    const auto* HWY_RESTRICT row_of_b = b.next();
    hn::Vec<D> column[NV];
    SACCADE_UNROLL
    for (int v = 0; v < NV; ++v) column[v] = load_numbers(d, row_of_b + v * lanes);
    SACCADE_UNROLL
    for (int r = 0; r < R; ++r) {
      const auto row = hn::Set(d, a[r * RowStep]);
      SACCADE_UNROLL
      for (int v = 0; v < NV; ++v) acc[r][v] = Factors::multiply_add(row, column[v], acc[r][v]);
    }
    a += DepthStep;
  }
}

// Calls f<R>() for a number of rows known at run time.
template <int R = kStripRows, class F>
HWY_INLINE void with_rows(int64_t rows, F&& f) {
  if constexpr (R == 1) {
    f.template operator()<1>();
  } else {
    if (rows == R)
      f.template operator()<R>();
    else
      with_rows<R - 1>(rows, f);
  }
}

template <class Factors, class D, int R>
HWY_INLINE void score_register_tile(D d, const ScoreTask<Scalar<D>>& task, const Scalar<D>* queries,
                                    int64_t first_row, int64_t panel) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> acc[R][2];
  SACCADE_UNROLL
  for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = hn::Zero(d);
  const EvenRows<Scalar<D>> keys{task.panels + panel * 2 * lanes * task.depth, 2 * lanes};
  multiply_register_tile<R, 2, 1, R, Factors>(d, queries, keys, task.depth, acc);
  const auto scale = hn::Set(d, task.scale);
  Scalar<D>* out = task.out + first_row * kTileStride + panel * 2 * lanes;
  if (task.addends) {
    SACCADE_UNROLL
    for (int r = 0; r < R; ++r) {
      const Scalar<D>* addend = task.addends[first_row + r] + panel * 2 * lanes;
      hn::StoreU(hn::MulAdd(acc[r][0], scale, hn::LoadU(d, addend)), d, out + r * kTileStride);
      hn::StoreU(hn::MulAdd(acc[r][1], scale, hn::LoadU(d, addend + lanes)), d,
                 out + r * kTileStride + lanes);
    }
  } else {
    SACCADE_UNROLL
    for (int r = 0; r < R; ++r) {
      hn::StoreU(hn::Mul(acc[r][0], scale), d, out + r * kTileStride);
      hn::StoreU(hn::Mul(acc[r][1], scale), d, out + r * kTileStride + lanes);
    }
  }
}

// Panels outside, strips inside: a panel is read once from far and serves all strips from the nearest cache.
template <class Real, class Factors = Numbers>
void scores(const ScoreTask<Real>& task) {
  const hn::ScalableTag<Real> d;
  const int64_t strips = (task.rows + kStripRows - 1) / kStripRows;
  int64_t begin = INT64_MAX, end = 0;
  for (int64_t strip = 0; strip < strips; ++strip) {
    if (task.ranges[strip].empty()) continue;
    begin = std::min(begin, task.ranges[strip].begin);
    end = std::max(end, task.ranges[strip].end);
  }
  for (int64_t panel = begin; panel < end; ++panel)
    for (int64_t strip = 0; strip < strips; ++strip) {
      if (panel < task.ranges[strip].begin || panel >= task.ranges[strip].end) continue;
      const int64_t first = strip * kStripRows;
      const Real* queries = task.queries + first * task.depth;
      with_rows(std::min<int64_t>(kStripRows, task.rows - first), [&]<int R>() HWY_ATTR {
        score_register_tile<Factors, decltype(d), R>(d, task, queries, first, panel);
      });
    }
}

// Few queries. Keys of one register tile: their pointers and sums must fit into the registers.
inline constexpr int kFewVectors = 2;
inline constexpr int kFewKeys = HWY_TARGET <= HWY_AVX3 ? 8 : 4;

// The next `Fold` numbers of a key, again and again.
template <int Fold, class D>
HWY_INLINE hn::Vec<D> broadcast(D d, const Scalar<D>* from) {
  if constexpr (Fold == 1) {
    return hn::Set(d, *from);
  } else if constexpr (Fold == 2) {
    double pair;
    static_assert(sizeof(pair) == 2 * sizeof(*from));
    __builtin_memcpy(&pair, from, sizeof(pair));
    return hn::BitCast(d, hn::Set(hn::RepartitionToWide<D>(), pair));
  } else {
    return hn::LoadDup128(d, from);
  }
}

// out[key][v] = factor * sum over k of keys[key][k] * queries[k][v], where k counts groups of `Fold` numbers
template <class Factors, int R, int NV, int Fold, class D>
HWY_INLINE void row_score_register_tile(D d, const RowScoreTask<Scalar<D>>& task, int64_t key,
                                        hn::Vec<D> factor, Scalar<D>* HWY_RESTRICT out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> acc[R][NV];
  const Scalar<D>* rows[R];
  SACCADE_UNROLL
  for (int r = 0; r < R; ++r) {
    rows[r] = task.keys[key + r];
    SACCADE_UNROLL
    for (int v = 0; v < NV; ++v) acc[r][v] = hn::Zero(d);
  }
  const Scalar<D>* HWY_RESTRICT queries = task.queries;
#pragma GCC unroll 4
  for (int64_t k = 0; k < task.depth; k += Fold, queries += NV * lanes) {
    hn::Vec<D> column[NV];
    SACCADE_UNROLL
    for (int v = 0; v < NV; ++v) column[v] = hn::LoadU(d, queries + v * lanes);
    SACCADE_UNROLL
    for (int r = 0; r < R; ++r) {
      const auto numbers = broadcast<Fold>(d, rows[r] + k);
      SACCADE_UNROLL
      for (int v = 0; v < NV; ++v) acc[r][v] = Factors::multiply_add(numbers, column[v], acc[r][v]);
    }
  }
  SACCADE_UNROLL
  for (int r = 0; r < R; ++r) SACCADE_UNROLL
  for (int v = 0; v < NV; ++v) hn::StoreU(hn::Mul(acc[r][v], factor), d, out + (r * NV + v) * lanes);
}

template <class Factors, int NV, int Fold, class Real>
HWY_INLINE void row_scores_of(const RowScoreTask<Real>& task) {
  const hn::ScalableTag<Real> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kPart = 32;  // keys that are turned into rows of the tile while they are in the cache
  Real part[kPart * NV * hn::MaxLanes(d)], turned[kPart * NV * hn::MaxLanes(d)];
  const auto scale = hn::Set(d, task.scale);
  // Whole squares are turned; what is past the last row is nobody's.
  const int64_t columns = std::min(NV * lanes, (task.rows * Fold + 7) / 8 * 8);
  const bool finished = Fold == 1 && !task.addends;
  for (int64_t first = task.begin; first < task.end; first += kPart) {
    const int64_t count = std::min(kPart, task.end - first);
    int64_t key = 0;
    for (; key + kFewKeys <= count; key += kFewKeys)
      row_score_register_tile<Factors, kFewKeys, NV, Fold>(d, task, first + key, scale,
                                                           part + key * NV * lanes);
    for (; key < count; ++key)
      row_score_register_tile<Factors, 1, NV, Fold>(d, task, first + key, scale, part + key * NV * lanes);
    if (finished) {
      transpose(part, NV * lanes, count, columns, task.out + first, kTileStride, count);
      continue;
    }
    transpose(part, NV * lanes, count, columns, turned, kPart, count);
    for (int64_t row = 0; row < task.rows; ++row)
      for (int64_t c = 0; c < count; c += lanes) {
        auto sum = hn::LoadU(d, turned + row * Fold * kPart + c);
        SACCADE_UNROLL
        for (int f = 1; f < Fold; ++f)
          sum = hn::Add(sum, hn::LoadU(d, turned + (row * Fold + f) * kPart + c));
        const auto addend = task.addends ? hn::LoadU(d, task.addends[row] + first + c) : hn::Zero(d);
        hn::StoreU(hn::Add(sum, addend), d, task.out + row * kTileStride + first + c);
      }
  }
}

template <class Real, class Factors = Numbers>
void row_scores(const RowScoreTask<Real>& task) {
  if (task.rows * task.fold > static_cast<int64_t>(hn::Lanes(hn::ScalableTag<Real>())))
    return row_scores_of<Factors, 2, 1>(task);
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(Real) == 4) {
    if (task.fold == 4) return row_scores_of<Factors, 1, 4>(task);
    if (task.fold == 2) return row_scores_of<Factors, 1, 2>(task);
  }
#endif
  row_scores_of<Factors, 1, 1>(task);
}

// Where the rows of a product's factor b and of its result stand.
enum class Standing { evenly, b_anywhere, c_anywhere, b_narrow };

template <class D, int R, int NV, int64_t RowStep, int64_t DepthStep, Standing standing>
HWY_INLINE void accumulate_register_tile(D d, const AccumulateTask<Scalar<D>>& task, int64_t first,
                                         int64_t column) {
  const Scalar<D>* a = task.a + first * RowStep;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> acc[R][NV];
  SACCADE_UNROLL
  for (int r = 0; r < R; ++r) SACCADE_UNROLL
  for (int v = 0; v < NV; ++v) acc[r][v] = hn::Zero(d);
  if constexpr (standing == Standing::b_anywhere)
    multiply_register_tile<R, NV, RowStep, DepthStep>(d, a, AnyRows<Scalar<D>>{task.b_rows, column},
                                                      task.depth, acc);
  else if constexpr (standing == Standing::b_narrow)
    multiply_register_tile<R, NV, RowStep, DepthStep>(
        d, a, EvenRows<uint16_t>{task.narrow_b + column, task.b_stride}, task.depth, acc);
  else
    multiply_register_tile<R, NV, RowStep, DepthStep>(
        d, a, EvenRows<Scalar<D>>{task.b + column, task.b_stride}, task.depth, acc);
  // Sums start at zero in every tile and are then added: shorter sums lose fewer digits.
  SACCADE_UNROLL
  for (int r = 0; r < R; ++r) SACCADE_UNROLL
  for (int v = 0; v < NV; ++v) {
    Scalar<D>* row;
    if constexpr (standing == Standing::c_anywhere)
      row = task.c_rows[first + r];
    else
      row = task.c + (first + r) * task.c_stride;
    Scalar<D>* out = row + column + v * lanes;
    hn::StoreU(hn::Add(hn::LoadU(d, out), acc[r][v]), d, out);
  }
}

template <class Real, int64_t RowStep, int64_t DepthStep, Standing standing = Standing::evenly>
HWY_INLINE void accumulate_layout(const AccumulateTask<Real>& task) {
  const hn::ScalableTag<Real> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t column = 0;
  // Few rows: the other factor is read once, in whole lines as far as possible.
  if (standing != Standing::b_narrow && task.rows <= 8)
    for (; column + 4 * lanes <= task.columns; column += 4 * lanes)
      for (int64_t first = 0; first < task.rows; first += 4)
        with_rows<4>(std::min<int64_t>(4, task.rows - first), [&]<int R>() HWY_ATTR {
          accumulate_register_tile<decltype(d), R, 4, RowStep, DepthStep, standing>(d, task, first, column);
        });
  // Strips of equal height: one with the few rows that are left over would not keep the multipliers busy.
  const int64_t strips = (task.rows + kStripRows - 1) / kStripRows,
                height = (task.rows + strips - 1) / strips;
  while (column < task.columns) {
    const bool pair = column + 2 * lanes <= task.columns;
    for (int64_t first = 0; first < task.rows; first += height)
      with_rows(std::min<int64_t>(height, task.rows - first), [&]<int R>() HWY_ATTR {
        if (pair)
          accumulate_register_tile<decltype(d), R, 2, RowStep, DepthStep, standing>(d, task, first, column);
        else
          accumulate_register_tile<decltype(d), R, 1, RowStep, DepthStep, standing>(d, task, first, column);
      });
    column += pair ? 2 * lanes : lanes;
  }
}

template <class Real>
void accumulate(const AccumulateTask<Real>& task) {
  if constexpr (sizeof(Real) == 4)
    if (task.narrow_b) return accumulate_layout<Real, kTileStride, 1, Standing::b_narrow>(task);
  if (task.transposed && task.c_rows)
    accumulate_layout<Real, 1, kTileStride, Standing::c_anywhere>(task);
  else if (task.transposed)
    accumulate_layout<Real, 1, kTileStride>(task);
  else if (task.b_rows)
    accumulate_layout<Real, kTileStride, 1, Standing::b_anywhere>(task);
  else
    accumulate_layout<Real, kTileStride, 1>(task);
}

}  // namespace saccade::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
