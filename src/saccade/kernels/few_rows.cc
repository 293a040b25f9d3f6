// Four rows of weights at a time, so that the numbers of x are loaded once for four.
#include "saccade/kernels/few_rows.h"

#include <omp.h>

#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/kernels/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "saccade/kernels/few_rows.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace saccade::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Columns [column, column + Columns) of all rows.
template <int Rows, int Columns>
HWY_INLINE void multiply_block(const float* HWY_RESTRICT x, int64_t depth, const float* HWY_RESTRICT weight,
                               int64_t column, int64_t columns, const float* bias, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  using V = hn::Vec<decltype(d)>;
  V sums[Rows][Columns];
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < Columns; ++c) sums[r][c] = hn::Zero(d);
  const float* rows[Columns];
#pragma GCC unroll 4
  for (int c = 0; c < Columns; ++c) rows[c] = weight + (column + c) * depth;
  int64_t k = 0;
  for (; k + lanes <= depth; k += lanes) {
    V factors[Rows];
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) factors[r] = hn::LoadU(d, x + r * depth + k);
#pragma GCC unroll 4
    for (int c = 0; c < Columns; ++c) {
      const V w = hn::LoadU(d, rows[c] + k);
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) sums[r][c] = hn::MulAdd(factors[r], w, sums[r][c]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < Columns; ++c) {
      float sum = hn::GetLane(hn::SumOfLanes(d, sums[r][c]));
      for (int64_t rest = k; rest < depth; ++rest) sum += x[r * depth + rest] * rows[c][rest];
      out[r * columns + column + c] = sum + (bias ? bias[column + c] : 0.0F);
    }
}

template <int Rows>
HWY_INLINE void multiply_range(const float* x, int64_t depth, const float* weight, int64_t begin, int64_t end,
                               int64_t columns, const float* bias, float* out) {
  int64_t column = begin;
  for (; column + 4 <= end; column += 4)
    multiply_block<Rows, 4>(x, depth, weight, column, columns, bias, out);
  for (; column < end; ++column) multiply_block<Rows, 1>(x, depth, weight, column, columns, bias, out);
}

void multiply(const float* x, int64_t rows, int64_t depth, const float* weight, int64_t begin, int64_t end,
              int64_t columns, const float* bias, float* out) {
  switch (rows) {
    case 1:
      return multiply_range<1>(x, depth, weight, begin, end, columns, bias, out);
    case 2:
      return multiply_range<2>(x, depth, weight, begin, end, columns, bias, out);
    case 3:
      return multiply_range<3>(x, depth, weight, begin, end, columns, bias, out);
    default:
      return multiply_range<4>(x, depth, weight, begin, end, columns, bias, out);
  }
}

}  // namespace saccade::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace saccade::kernels {
HWY_EXPORT(multiply);

void multiply_few_rows(const float* x, int64_t rows, int64_t depth, const float* weight, int64_t columns,
                       const float* bias, float* out) {
  invariant(rows >= 1 && rows <= kFewRows, "multiply_few_rows: too many rows");
  choose_target();
  const auto run = HWY_DYNAMIC_DISPATCH(multiply);
  constexpr int64_t kAlone = 1 << 16;  // weights that one thread reads before another has woken up
  const int threads = columns * depth < kAlone ? 1 : omp_get_max_threads();
  if (threads == 1) return run(x, rows, depth, weight, 0, columns, columns, bias, out);
    // A column is summed by one thread in one order, however many there are.
#pragma omp parallel num_threads(threads)
  {
    const int64_t count = omp_get_num_threads(), share = (columns / 4 + count) / count * 4;
    const int64_t begin = std::min(omp_get_thread_num() * share, columns);
    run(x, rows, depth, weight, begin, std::min(begin + share, columns), columns, bias, out);
  }
}

}  // namespace saccade::kernels
#endif
