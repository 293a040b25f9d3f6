// Within a block the integers are multiplied with x first and the scale comes last: d * sum(q * x) + m *
// sum(x). The sums of x over each block are made once.
#include "saccade/kernels/compact_rows.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "saccade/base/error.h"
#include "saccade/kernels/few_rows.h"
#include "saccade/kernels/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "saccade/kernels/compact_rows.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace saccade::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE float number_at(const std::byte* from) {
  float number;
  std::memcpy(&number, from, sizeof(number));
  return number;
}

// One column of the result for all rows.
template <CompactKind Kind, int Rows>
HWY_INLINE void multiply_column(const float* HWY_RESTRICT x, const float* HWY_RESTRICT sums, int64_t depth,
                                const std::byte* HWY_RESTRICT weight, float* HWY_RESTRICT results) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<int32_t, decltype(d)> wide;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  using V = hn::Vec<decltype(d)>;
  const int64_t blocks = depth / kCompactBlock;
  V totals[Rows];
  float offsets[Rows];
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) totals[r] = hn::Zero(d), offsets[r] = 0;
  for (int64_t block = 0; block < blocks; ++block, weight += compact_bytes(Kind), x += kCompactBlock) {
    const V scale = hn::Set(d, number_at(weight));
    const float offset = number_at(weight + sizeof(float));
    constexpr int64_t kHeader = 2 * sizeof(float);
    V part[Rows];
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) part[r] = hn::Zero(d);
    if constexpr (Kind == CompactKind::eight_bits) {
      const hn::Rebind<int8_t, decltype(d)> narrow;
      const auto* integers = reinterpret_cast<const int8_t*>(weight + kHeader);
      for (int64_t k = 0; k < kCompactBlock; k += lanes) {
        const V q = hn::ConvertTo(d, hn::PromoteTo(wide, hn::LoadU(narrow, integers + k)));
#pragma GCC unroll 4
        for (int r = 0; r < Rows; ++r) part[r] = hn::MulAdd(q, hn::LoadU(d, x + r * depth + k), part[r]);
      }
    } else {
      // The lower halves of 16 bytes are the first 16 weights, the upper halves the others.
      const hn::Rebind<uint8_t, decltype(d)> narrow;
      const auto* pairs = reinterpret_cast<const uint8_t*>(weight + kHeader);
      for (int64_t k = 0; k < kCompactBlock / 2; k += lanes) {
        const auto both = hn::PromoteTo(wide, hn::LoadU(narrow, pairs + k));
        const V low = hn::ConvertTo(d, hn::And(both, hn::Set(wide, 15)));
        const V high = hn::ConvertTo(d, hn::ShiftRight<4>(both));
#pragma GCC unroll 4
        for (int r = 0; r < Rows; ++r) {
          part[r] = hn::MulAdd(low, hn::LoadU(d, x + r * depth + k), part[r]);
          part[r] = hn::MulAdd(high, hn::LoadU(d, x + r * depth + k + kCompactBlock / 2), part[r]);
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      totals[r] = hn::MulAdd(scale, part[r], totals[r]);
      offsets[r] += offset * sums[r * blocks + block];
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) results[r] = hn::GetLane(hn::SumOfLanes(d, totals[r])) + offsets[r];
}

template <CompactKind Kind, int Rows>
void multiply_range(const float* x, const float* sums, int64_t depth, const std::byte* weight, int64_t begin,
                    int64_t end, const float* bias, float* out, int64_t out_stride) {
  const int64_t row_bytes = depth / kCompactBlock * compact_bytes(Kind);
  float results[Rows];
  for (int64_t column = begin; column < end; ++column) {
    multiply_column<Kind, Rows>(x, sums, depth, weight + column * row_bytes, results);
    for (int r = 0; r < Rows; ++r) out[r * out_stride + column] = results[r] + (bias ? bias[column] : 0.0F);
  }
}

template <CompactKind Kind>
void multiply_rows(const float* x, int64_t rows, const float* sums, int64_t depth, const std::byte* weight,
                   int64_t begin, int64_t end, const float* bias, float* out, int64_t out_stride) {
  switch (rows) {
    case 1:
      return multiply_range<Kind, 1>(x, sums, depth, weight, begin, end, bias, out, out_stride);
    case 2:
      return multiply_range<Kind, 2>(x, sums, depth, weight, begin, end, bias, out, out_stride);
    case 3:
      return multiply_range<Kind, 3>(x, sums, depth, weight, begin, end, bias, out, out_stride);
    default:
      return multiply_range<Kind, 4>(x, sums, depth, weight, begin, end, bias, out, out_stride);
  }
}

void multiply_any(CompactKind kind, const float* x, int64_t rows, const float* sums, int64_t depth,
                  const std::byte* weight, int64_t begin, int64_t end, const float* bias, float* out,
                  int64_t out_stride) {
  if (kind == CompactKind::four_bits)
    multiply_rows<CompactKind::four_bits>(x, rows, sums, depth, weight, begin, end, bias, out, out_stride);
  else
    multiply_rows<CompactKind::eight_bits>(x, rows, sums, depth, weight, begin, end, bias, out, out_stride);
}

}  // namespace saccade::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace saccade::kernels {
HWY_EXPORT(multiply_any);

void multiply_compact_rows(CompactKind kind, const float* x, int64_t rows, int64_t depth,
                           const std::byte* weight, int64_t columns, const float* bias, float* out,
                           int64_t out_stride) {
  invariant(rows >= 1 && rows <= kFewRows && depth % kCompactBlock == 0,
            "multiply_compact_rows: wrong sizes");
  choose_target();
  const auto run = HWY_DYNAMIC_DISPATCH(multiply_any);
  const int64_t blocks = depth / kCompactBlock;
  std::vector<float> sums(static_cast<size_t>(rows * blocks));
  for (int64_t at = 0; at < rows * blocks; ++at)
    for (int64_t k = 0; k < kCompactBlock; ++k) sums[static_cast<size_t>(at)] += x[at * kCompactBlock + k];
  constexpr int64_t kAlone = 1 << 16;  // weights that one thread reads before another has woken up
  const int threads = columns * depth < kAlone ? 1 : omp_get_max_threads();
  if (threads == 1) return run(kind, x, rows, sums.data(), depth, weight, 0, columns, bias, out, out_stride);
    // A column is summed by one thread in one order, however many there are.
#pragma omp parallel num_threads(threads)
  {
    const int64_t count = omp_get_num_threads(), share = (columns + count - 1) / count;
    const int64_t begin = std::min(omp_get_thread_num() * share, columns);
    run(kind, x, rows, sums.data(), depth, weight, begin, std::min(begin + share, columns), bias, out,
        out_stride);
  }
}

}  // namespace saccade::kernels
#endif
