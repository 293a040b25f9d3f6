// Blocks of the depth one after another. Of each, all panels of b are packed once, by all threads; then every
// thread takes blocks of rows and columns of the result, packs its rows of a, and walks over the panels. Only
// the depth of a block shows in the last digits; the other sizes may follow from the number of threads.
#include "saccade/kernels/matrix_product.h"

#include <omp.h>

#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/kernels/unit_queue.h"
#include "saccade/kernels/vector_targets.h"
#include "saccade/kernels/workspace.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "saccade/kernels/matrix_product.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "saccade/kernels/vector_math-inl.h"
// After the headers that they use.
#include "saccade/kernels/products-inl.h"
#include "saccade/kernels/rows-inl.h"

#ifndef SACCADE_TILE_TARGET  // the same for all instruction sets
#define SACCADE_TILE_TARGET
namespace saccade::kernels {

// What a register tile adds to.
struct TileTarget {
  float* out;
  int64_t stride, columns;  // at most a panel's
  const float* bias;        // of these columns
  bool add;
};

}  // namespace saccade::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace saccade::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Packed operands: a in strips of kStripRows rows, b in panels of two vectors, both depth by depth.
inline int64_t panel_width() { return 2 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())); }

// Columns [first, first + panel) of b, rows [from, from + depth); beyond the last column zeros.
void pack_panel_of_b(const Matrix& b, int64_t first, int64_t from, int64_t depth, float* out) {
  const int64_t width = panel_width(), used = std::min(width, b.columns - first);
  const float* source = b.data + from * b.row_stride + first * b.column_stride;
  if (b.column_stride != 1) return transpose(source, b.column_stride, used, depth, out, width, width);
  for (int64_t k = 0; k < depth; ++k, source += b.row_stride, out += width) {
    std::copy_n(source, used, out);
    std::fill(out + used, out + width, 0.0F);
  }
}

void pack_strip_of_a(const Matrix& a, int64_t first, int64_t count, int64_t from, int64_t depth, float* out) {
  const float* source = a.data + first * a.row_stride + from * a.column_stride;
  if (a.column_stride == 1) return transpose(source, a.row_stride, count, depth, out, count, count);
  for (int64_t k = 0; k < depth; ++k) std::copy_n(source + k * a.column_stride, count, out + k * count);
}

template <int R>
HWY_INLINE void multiply_tile(const float* a, const float* b, int64_t depth, const TileTarget& target) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> acc[R][2];
  SACCADE_UNROLL
  for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = hn::Zero(d);
  multiply_register_tile<R, 2, 1, R>(d, a, EvenRows<float>{b, 2 * lanes}, depth, acc);
  if (target.columns == 2 * lanes) {
    SACCADE_UNROLL
    for (int r = 0; r < R; ++r) SACCADE_UNROLL
    for (int v = 0; v < 2; ++v) {
      float* out = target.out + r * target.stride + v * lanes;
      if (target.add)
        acc[r][v] = hn::Add(acc[r][v], hn::LoadU(d, out));
      else if (target.bias)
        acc[r][v] = hn::Add(acc[r][v], hn::LoadU(d, target.bias + v * lanes));
      hn::StoreU(acc[r][v], d, out);
    }
    return;
  }
  float edge[2 * hn::MaxLanes(d)];
  for (int r = 0; r < R; ++r) {
    hn::StoreU(acc[r][0], d, edge);
    hn::StoreU(acc[r][1], d, edge + lanes);
    float* out = target.out + r * target.stride;
    for (int64_t c = 0; c < target.columns; ++c)
      out[c] = edge[c] + (target.add ? out[c] : target.bias ? target.bias[c] : 0.0F);
  }
}

// Rows [first, first + count) of the result, `count` at most a strip.
void multiply_strip(const float* a, int64_t count, const float* b, int64_t depth, const TileTarget& target) {
  with_rows(count, [&]<int R>() HWY_ATTR { multiply_tile<R>(a, b, depth, target); });
}

int64_t strip_rows() { return kStripRows; }

}  // namespace saccade::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace saccade::kernels {
HWY_EXPORT(panel_width);
HWY_EXPORT(strip_rows);
HWY_EXPORT(pack_panel_of_b);
HWY_EXPORT(pack_strip_of_a);
HWY_EXPORT(multiply_strip);

namespace {

constexpr int64_t kDepth = 256;    // of a block: a panel of b stays in the nearest cache
constexpr int64_t kRows = 96;      // of a unit: its rows of a stay in the second
constexpr int64_t kColumns = 512;  // of a unit
constexpr int64_t kAlone = int64_t{1}
                           << 17;  // multiplications that one thread does before another has woken up

struct Work {
  const Matrix& a;
  const Matrix& b;
  const float* bias;
  bool add;
  float* out;
  int64_t stride;

  int64_t rows, columns;  // of a unit
  int64_t panel, strip;
  float* packed_b;

  int64_t column_units() const { return (b.columns + columns - 1) / columns; }
  int64_t units() const { return (a.rows + rows - 1) / rows * column_units(); }

  void pack(int64_t number, int64_t from, int64_t depth) const {
    HWY_DYNAMIC_DISPATCH(pack_panel_of_b)
    (b, number * panel, from, depth, packed_b + number * panel * depth);
  }

  void run(int64_t unit, int64_t from, int64_t depth, float* packed_a) const {
    const auto pack_strip = HWY_DYNAMIC_DISPATCH(pack_strip_of_a);
    const auto multiply_one = HWY_DYNAMIC_DISPATCH(multiply_strip);
    const int64_t first_row = unit / column_units() * rows, last_row = std::min(first_row + rows, a.rows),
                  first = unit % column_units() * columns, last = std::min(first + columns, b.columns);
    for (int64_t row = first_row; row < last_row; row += strip)
      pack_strip(a, row, std::min(strip, last_row - row), from, depth, packed_a + (row - first_row) * depth);
    for (int64_t column = first; column < last; column += panel)
      for (int64_t row = first_row; row < last_row; row += strip)
        multiply_one(packed_a + (row - first_row) * depth, std::min(strip, last_row - row),
                     packed_b + column * depth, depth,
                     {out + row * stride + column, stride, std::min(panel, b.columns - column),
                      bias ? bias + column : nullptr, add || from > 0});
  }
};

}  // namespace

void multiply(const Matrix& a, const Matrix& b, const float* bias, bool add, float* out, int64_t stride) {
  invariant(a.columns == b.rows, "multiply: the matrices do not fit together");
  invariant((a.row_stride == 1 || a.column_stride == 1) && (b.row_stride == 1 || b.column_stride == 1),
            "multiply: neither rows nor columns of a matrix are in one piece");
  if (a.rows == 0 || b.columns == 0) return;
  choose_target();
  if (a.columns == 0) {
    for (int64_t row = 0; row < a.rows && !add; ++row)
      for (int64_t column = 0; column < b.columns; ++column)
        out[row * stride + column] = bias ? bias[column] : 0.0F;
    return;
  }
  const int64_t panel = HWY_DYNAMIC_DISPATCH(panel_width)(), strip = HWY_DYNAMIC_DISPATCH(strip_rows)();
  const int64_t panels = (b.columns + panel - 1) / panel, deepest = std::min(kDepth, a.columns);
  const bool alone = a.rows * a.columns * b.columns < kAlone || omp_in_parallel();
  const int most = alone ? 1 : omp_get_max_threads();
  Work work{a, b, bias, add, out, stride, kRows / strip * strip, kColumns, panel, strip, nullptr};
  // Enough units for all threads.
  while (most > 1 && work.columns > 2 * panel && work.units() < 3 * most) work.columns /= 2;
  while (most > 1 && work.rows > strip && work.units() < 3 * most)
    work.rows = (work.rows / strip + 1) / 2 * strip;
  const int64_t a_size = work.rows * deepest + 64;
  const Workspace memory(static_cast<size_t>(panels * panel * deepest + most * a_size) * sizeof(float));
  work.packed_b = reinterpret_cast<float*>(memory.data());
  float* packed_a = work.packed_b + panels * panel * deepest;
  for (int64_t from = 0; from < a.columns; from += kDepth) {
    const int64_t depth = std::min(kDepth, a.columns - from);
    const int threads = static_cast<int>(std::min<int64_t>(most, work.units()));
    if (threads == 1) {
      for (int64_t number = 0; number < panels; ++number) work.pack(number, from, depth);
      for (int64_t unit = 0; unit < work.units(); ++unit) work.run(unit, from, depth, packed_a);
      continue;
    }
    UnitQueue queue(work.units(), threads);
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
      for (int64_t number = 0; number < panels; ++number) work.pack(number, from, depth);
      const int thread = omp_get_thread_num();
      for (int64_t unit = queue.take(thread); unit >= 0; unit = queue.take(thread))
        work.run(unit, from, depth, packed_a + thread * a_size);
    }
  }
}

}  // namespace saccade::kernels
#endif
