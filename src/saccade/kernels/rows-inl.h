// What happens to a strip between two products: loading and packing, norms and their adjoints, sums. Included
// once per instruction set.
#if defined(SACCADE_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SACCADE_ROWS_INL
#undef SACCADE_ROWS_INL
#else
#define SACCADE_ROWS_INL
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "saccade/kernels/primitives.h"
#include "saccade/kernels/storage.h"
#include "saccade/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace saccade::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Real>
using Tag = hn::ScalableTag<Real>;

template <class Real>
HWY_INLINE int64_t lanes_of() {
  return static_cast<int64_t>(hn::Lanes(Tag<Real>()));
}

// --- moving ---

template <class Real>
void widen(const void* source, Storage storage, int64_t stride, int64_t width, Real* out) {
  const Tag<Real> d;
  const int64_t lanes = lanes_of<Real>();
  int64_t k = 0;
  if constexpr (sizeof(Real) == 4) {
    if (stride == 1 && storage == Storage::float32) {
      const auto* row = static_cast<const float*>(source);
      for (; k + lanes <= width; k += lanes) hn::StoreU(hn::LoadU(d, row + k), d, out + k);
    }
    if (stride == 1 && storage == Storage::bfloat16) {
      const hn::Rebind<uint16_t, decltype(d)> narrow;
      const hn::RebindToUnsigned<decltype(d)> bits;
      const auto* row = static_cast<const uint16_t*>(source);
      for (; k + lanes <= width; k += lanes)
        hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, hn::LoadU(narrow, row + k)))), d,
                   out + k);
    }
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128  // there infinity and NaN would become numbers
    if (stride == 1 && storage == Storage::float16) {
      const hn::Rebind<hwy::float16_t, decltype(d)> narrow;
      const auto* row = static_cast<const hwy::float16_t*>(source);
      for (; k + lanes <= width; k += lanes)
        hn::StoreU(hn::PromoteTo(d, hn::LoadU(narrow, row + k)), d, out + k);
    }
#endif
  }
  for (; k < width; ++k) out[k] = load_number<Real>(source, storage, k * stride);
  for (; k % lanes != 0; ++k) out[k] = 0;
}

template <class Real>
void narrow(const Real* source, Storage storage, int64_t stride, int64_t width, void* out) {
  const Tag<Real> d;
  const int64_t lanes = lanes_of<Real>();
  int64_t k = 0;
  if (stride == 1 && (storage == Storage::float32 || storage == Storage::float64))
    for (; k + lanes <= width; k += lanes)
      hn::StoreU(hn::LoadU(d, source + k), d, static_cast<Real*>(out) + k);
  if constexpr (sizeof(Real) == 4) {
    if (stride == 1 && storage == Storage::bfloat16) {
      // To nearest, ties to even; NaN stays NaN.
      const hn::RebindToUnsigned<decltype(d)> bits;
      const hn::Rebind<uint16_t, decltype(d)> half;
      for (; k + lanes <= width; k += lanes) {
        const auto value = hn::LoadU(d, source + k);
        const auto all = hn::BitCast(bits, value);
        const auto odd = hn::And(hn::ShiftRight<16>(all), hn::Set(bits, 1u));
        const auto rounded = hn::Add(all, hn::Add(odd, hn::Set(bits, 0x7fffu)));
        const auto quiet = hn::Or(all, hn::Set(bits, 0x400000u));
        const auto chosen = hn::IfThenElse(hn::RebindMask(bits, hn::IsNaN(value)), quiet, rounded);
        const hn::RebindToSigned<decltype(d)> whole;
        hn::StoreU(hn::DemoteTo(half, hn::BitCast(whole, hn::ShiftRight<16>(chosen))), half,
                   static_cast<uint16_t*>(out) + k);
      }
    }
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128  // there it would round towards 0
    if (stride == 1 && storage == Storage::float16) {
      const hn::Rebind<hwy::float16_t, decltype(d)> half;
      for (; k + lanes <= width; k += lanes)
        hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, source + k)), half, static_cast<hwy::float16_t*>(out) + k);
    }
#endif
  }
  for (; k < width; ++k) store_number(source[k], out, storage, k * stride);
}

#if HWY_TARGET != HWY_SCALAR
// A square of vectors transposed in registers: neighbours interleaved by one number, then by two, and with
// long vectors halves exchanged.
template <class D>
HWY_INLINE void transpose_square(D d, const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  constexpr int kSide = hn::MaxLanes(D());
  static_assert(kSide == 4 || kSide == 8);
  const hn::RepartitionToWide<D> pairs;
  hn::Vec<D> row[kSide], mixed[kSide];
#pragma GCC unroll 8
  for (int r = 0; r < kSide; ++r) row[r] = hn::LoadU(d, from + r * from_stride);
#pragma GCC unroll 8
  for (int r = 0; r < kSide; r += 4) {
    const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, row[r], row[r + 1]));
    const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, row[r], row[r + 1]));
    const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, row[r + 2], row[r + 3]));
    const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, row[r + 2], row[r + 3]));
    mixed[r] = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
    mixed[r + 1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
    mixed[r + 2] = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
    mixed[r + 3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
  }
#pragma GCC unroll 8
  for (int r = 0; r < 4; ++r) {
    if constexpr (kSide == 4) {
      hn::StoreU(mixed[r], d, to + r * to_stride);
    } else {
      hn::StoreU(hn::ConcatLowerLower(d, mixed[r + 4], mixed[r]), d, to + r * to_stride);
      hn::StoreU(hn::ConcatUpperUpper(d, mixed[r + 4], mixed[r]), d, to + (r + 4) * to_stride);
    }
  }
}
#endif

template <class Real>
void transpose(const Real* source, int64_t source_stride, int64_t count, int64_t depth, Real* out,
               int64_t out_stride, int64_t filled) {
  int64_t row = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(Real) == 4) {
    const auto squares = [&](auto d) HWY_ATTR {
      constexpr int64_t kSide = hn::MaxLanes(decltype(d)());
      for (; row + kSide <= count; row += kSide) {
        const Real* from = source + row * source_stride;
        int64_t k = 0;
        for (; k + kSide <= depth; k += kSide)
          transpose_square(d, from + k, source_stride, out + k * out_stride + row, out_stride);
        for (; k < depth; ++k)
          for (int64_t r = 0; r < kSide; ++r) out[k * out_stride + row + r] = from[r * source_stride + k];
      }
    };
#if HWY_TARGET <= HWY_AVX2
    squares(hn::FixedTag<float, 8>());
#endif
    squares(hn::FixedTag<float, 4>());
  }
#endif
  for (; row < count; ++row)
    for (int64_t k = 0; k < depth; ++k) out[k * out_stride + row] = source[row * source_stride + k];
  for (; row < filled; ++row)
    for (int64_t k = 0; k < depth; ++k) out[k * out_stride + row] = 0;
}

template <class Real>
void copy(View<Real> source, int64_t rows, int64_t begin, int64_t end, Real* tile) {
  const Tag<Real> d;
  const int64_t lanes = lanes_of<Real>();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = begin; c < end; c += lanes)
      hn::StoreU(hn::LoadU(d, source.rows[r] + c * source.step), d, tile + r * kTileStride + c);
}

// --- norms ---

// Two loops, so that the maxima of all rows are on their way before the first is waited for.
template <class Real>
void softmax(const NormTask<Real>& task) {
  const Tag<Real> d;
  const int64_t lanes = lanes_of<Real>();
  for (int64_t r = 0; r < task.rows; ++r) {
    const Real* x = task.x + r * kTileStride;
    auto high = hn::Set(d, kMinusInfinity<Real>), high2 = high;
    int64_t c = task.begin;
    for (; c + 2 * lanes <= task.end; c += 2 * lanes) {
      high = hn::Max(high, hn::LoadU(d, x + c));
      high2 = hn::Max(high2, hn::LoadU(d, x + c + lanes));
    }
    for (; c < task.end; c += lanes) high = hn::Max(high, hn::LoadU(d, x + c));
    const Real seen = hn::GetLane(hn::MaxOfLanes(d, hn::Max(high, high2)));
    const Real before = task.maximum[r];
    task.factor[r] = 1;
    if (seen > before + task.headroom) {
      task.factor[r] = before == kMinusInfinity<Real> ? Real{0} : std::exp(before - seen);
      task.maximum[r] = seen;
    }
  }
  for (int64_t r = 0; r < task.rows; ++r) {
    Real* x = task.x + r * kTileStride;
    // A row without an allowed key so far: nothing to subtract, and every numerator is 0. A NaN is not
    // hidden.
    const Real maximum = task.maximum[r];
    const auto shift = hn::Set(d, maximum == kMinusInfinity<Real> ? Real{0} : maximum);
    auto sum = hn::Zero(d), sum2 = sum;
    int64_t c = task.begin;
    for (; c + 2 * lanes <= task.end; c += 2 * lanes) {
      const auto p = exponential(d, hn::Sub(hn::LoadU(d, x + c), shift));
      const auto q = exponential(d, hn::Sub(hn::LoadU(d, x + c + lanes), shift));
      hn::StoreU(p, d, x + c);
      hn::StoreU(q, d, x + c + lanes);
      sum = hn::Add(sum, p);
      sum2 = hn::Add(sum2, q);
    }
    for (; c < task.end; c += lanes) {
      const auto p = exponential(d, hn::Sub(hn::LoadU(d, x + c), shift));
      hn::StoreU(p, d, x + c);
      sum = hn::Add(sum, p);
    }
    task.sum[r] = task.sum[r] * task.factor[r] + hn::GetLane(hn::SumOfLanes(d, hn::Add(sum, sum2)));
  }
}

template <class Real>
void l1(const NormTask<Real>& task) {
  const Tag<Real> d;
  const int64_t lanes = lanes_of<Real>();
  for (int64_t r = 0; r < task.rows; ++r) {
    const Real* x = task.x + r * kTileStride;
    auto sum = hn::Zero(d);
    for (int64_t c = task.begin; c < task.end; c += lanes) sum = hn::Add(sum, hn::Abs(hn::LoadU(d, x + c)));
    task.factor[r] = 1;
    task.sum[r] += hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

// exp(x) - 1, divided by exp(shift), in the form that loses no digits next to 0.
template <class D>
HWY_INLINE hn::Vec<D> shifted_expm1(D d, hn::Vec<D> x, hn::Vec<D> shift) {
  const auto zero = hn::Zero(d);
  const auto positive = hn::Max(x, zero), negative = hn::Min(x, zero);
  const auto above = hn::Mul(exponential(d, hn::Sub(positive, shift)),
                             hn::Neg(hn::Expm1(d, hn::Max(hn::Neg(positive), hn::Set(d, Scalar<D>{-80})))));
  const auto below =
      hn::Mul(exponential(d, hn::Neg(shift)), hn::Expm1(d, hn::Max(negative, hn::Set(d, Scalar<D>{-80}))));
  // Min and Max lose a NaN; it is not to be hidden.
  return hn::IfThenElse(hn::Gt(x, zero), above, hn::IfThenElse(hn::IsNaN(x), x, below));
}

template <class Real>
void softpick(const NormTask<Real>& task) {
  const Tag<Real> d;
  const int64_t lanes = lanes_of<Real>();
  for (int64_t r = 0; r < task.rows; ++r) {
    Real* x = task.x + r * kTileStride;
    Real now = std::max(task.maximum[r], Real{0});
    for (int64_t c = task.begin; c < task.end; ++c) now = std::max(now, x[c]);
    task.factor[r] = std::exp(std::max(task.maximum[r], Real{0}) - now);
    task.maximum[r] = now;
    const auto shift = hn::Set(d, now);
    auto sum = hn::Zero(d);
    for (int64_t c = task.begin; c < task.end; c += lanes) {
      const auto e = shifted_expm1(d, hn::LoadU(d, x + c), shift);
      sum = hn::Add(sum, hn::Abs(e));
      hn::StoreU(hn::IfThenElse(hn::Lt(e, hn::Zero(d)), hn::Zero(d), e), d, x + c);
    }
    task.sum[r] = task.sum[r] * task.factor[r] + hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

template <class Real>
void mask(View<Real> allowed, Real fill, int64_t rows, int64_t begin, int64_t end, Real* tile) {
  const Tag<Real> d;
  const int64_t lanes = lanes_of<Real>();
  const auto other = hn::Set(d, fill);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = begin; c < end; c += lanes) {
      Real* x = tile + r * kTileStride + c;
      const auto allow = hn::LoadU(d, allowed.rows[r] + c * allowed.step);
      hn::StoreU(hn::IfThenElse(hn::Ne(allow, hn::Zero(d)), hn::LoadU(d, x), other), d, x);
    }
}

template <class Real>
void weigh(View<Real> coefficient, int64_t rows, int64_t begin, int64_t end, Real* tile) {
  const Tag<Real> d;
  const int64_t lanes = lanes_of<Real>();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = begin; c < end; c += lanes) {
      Real* x = tile + r * kTileStride + c;
      const auto value = hn::LoadU(d, x);
      const auto product = hn::Mul(value, hn::LoadU(d, coefficient.rows[r] + c * coefficient.step));
      hn::StoreU(hn::IfThenZeroElse(hn::Eq(value, hn::Zero(d)), product), d, x);
    }
}

template <class Real>
void combine(const Real* x, const Real* y, int64_t rows, int64_t begin, int64_t end, const Real* x_factors,
             const Real* y_factors, Real* out) {
  const Tag<Real> d;
  const int64_t lanes = lanes_of<Real>();
  for (int64_t r = 0; r < rows; ++r) {
    const auto a = hn::Set(d, x_factors[r]), b = hn::Set(d, y_factors[r]);
    for (int64_t c = begin; c < end; c += lanes) {
      const int64_t at = r * kTileStride + c;
      hn::StoreU(hn::MulAdd(hn::LoadU(d, y + at), b, hn::Mul(hn::LoadU(d, x + at), a)), d, out + at);
    }
  }
}

template <class Real>
void scale_rows(Real* data, int64_t stride, int64_t rows, int64_t columns, const Real* factors) {
  const Tag<Real> d;
  const int64_t lanes = lanes_of<Real>();
  for (int64_t r = 0; r < rows; ++r) {
    if (factors[r] == 1) continue;
    const auto factor = hn::Set(d, factors[r]);
    for (int64_t c = 0; c < columns; c += lanes) {
      Real* x = data + r * stride + c;
      hn::StoreU(hn::Mul(hn::LoadU(d, x), factor), d, x);
    }
  }
}

// --- adjoints ---

// Walks a strip; f(row, argument, weight gradient, coefficient) gives P and the adjoint of the argument.
// Where P and the incoming gradient are 0, so is what leaves, whatever the coefficient; `Tame` ones cannot
// make a 0 anything else.
template <bool Tame, class Real, class F>
HWY_INLINE void term_backward_of(const TermBackwardTask<Real>& task, const F& f) {
  const Tag<Real> d;
  const int64_t lanes = lanes_of<Real>();
  const auto zero = hn::Zero(d);
  for (int64_t r = 0; r < task.rows; ++r) {
    const int64_t row = r * kTileStride;
    for (int64_t c = task.begin; c < task.end; c += lanes) {
      const auto gradient = hn::LoadU(d, task.weight_gradient + row + c);
      const auto argument = task.argument ? hn::LoadU(d, task.argument + row + c) : zero;
      auto p = zero, of_argument = zero, weight = zero, weighted = gradient;
      if (task.coefficient.rows) {
        const auto coefficient = hn::LoadU(d, task.coefficient.rows[r] + c * task.coefficient.step);
        const auto times = [&](auto x) HWY_ATTR {
          const auto product = hn::Mul(x, coefficient);
          return Tame ? product : hn::IfThenZeroElse(hn::Eq(x, zero), product);
        };
        weighted = times(gradient);
        f(d, r, argument, weighted, p, of_argument);
        weight = times(p);
      } else {
        f(d, r, argument, weighted, p, of_argument);
        weight = p;
      }
      if (task.coefficient_gradient) hn::StoreU(hn::Mul(p, gradient), d, task.coefficient_gradient + row + c);
      if (task.argument_gradient) hn::StoreU(of_argument, d, task.argument_gradient + row + c);
      if (task.add_weight) weight = hn::Add(weight, hn::LoadU(d, task.weight + row + c));
      hn::StoreU(weight, d, task.weight + row + c);
    }
  }
}

template <class Real, class F>
HWY_INLINE void term_backward(const TermBackwardTask<Real>& task, const F& f) {
  bool tame = task.coefficient.step == 0;  // otherwise it would take as long to look
  for (int64_t r = 0; tame && task.coefficient.rows && r < task.rows; ++r)
    tame = std::isfinite(*task.coefficient.rows[r]);
  tame ? term_backward_of<true>(task, f) : term_backward_of<false>(task, f);
}

// exp(x - log-sum). A row without keys has the log-sum -inf: all its weights are 0.
template <class D>
HWY_INLINE hn::Vec<D> normalised(D d, hn::Vec<D> x, Scalar<D> log_sum) {
  if (log_sum == kMinusInfinity<Scalar<D>>) return hn::Zero(d);
  return exponential(d, hn::Sub(x, hn::Set(d, log_sum)));
}

template <class Real>
void softmax_backward(const TermBackwardTask<Real>& task) {
  term_backward(task, [&](auto d, int64_t r, auto x, auto weighted, auto& p, auto& of_argument) HWY_ATTR {
    p = normalised(d, x, task.log_sums[r]);
    of_argument = hn::Mul(p, hn::Sub(weighted, hn::Set(d, task.deltas[r])));
    // A masked pair has p = 0; its weight gradient may be anything, also infinite.
    of_argument = hn::IfThenZeroElse(hn::Eq(p, hn::Zero(d)), of_argument);
  });
}

template <class Real>
void l1_backward(const TermBackwardTask<Real>& task) {
  term_backward(task, [&](auto d, int64_t r, auto x, auto weighted, auto& p, auto& of_argument) HWY_ATTR {
    const auto inverse =
        hn::Set(d, task.log_sums[r] == kMinusInfinity<Real> ? Real{0} : std::exp(-task.log_sums[r]));
    p = hn::Mul(x, inverse);
    const auto sign = vector_apply<Op::sign>(d, x, x, x);
    of_argument = hn::Mul(hn::NegMulAdd(sign, hn::Set(d, task.deltas[r]), weighted), inverse);
  });
}

template <class Real>
void softpick_backward(const TermBackwardTask<Real>& task) {
  term_backward(task, [&](auto d, int64_t r, auto x, auto weighted, auto& p, auto& of_argument) HWY_ATTR {
    const auto zero = hn::Zero(d);
    if (task.log_sums[r] == kMinusInfinity<Real>) {
      p = of_argument = zero;
      return;
    }
    const auto e = shifted_expm1(d, x, hn::Set(d, task.log_sums[r]));
    const auto positive = hn::Gt(x, zero);
    p = hn::IfThenElseZero(positive, e);
    const auto sign = vector_apply<Op::sign>(d, x, x, x);
    const auto inner =
        hn::NegMulAdd(sign, hn::Set(d, task.deltas[r]), hn::IfThenElseZero(positive, weighted));
    of_argument = hn::Mul(exponential(d, hn::Sub(x, hn::Set(d, task.log_sums[r]))), inner);
  });
}

template <class Real>
void plain_backward(const TermBackwardTask<Real>& task) {
  term_backward(task, [](auto d, int64_t, auto, auto, auto& p, auto&) HWY_ATTR { p = hn::Set(d, Real{1}); });
}

// --- sums ---

template <class Real>
void row_sums(const Real* tile, int64_t rows, int64_t begin, int64_t end, Real* sums) {
  const Tag<Real> d;
  const int64_t lanes = lanes_of<Real>();
  for (int64_t r = 0; r < rows; ++r) {
    auto sum = hn::Zero(d);
    for (int64_t c = begin; c < end; c += lanes) sum = hn::Add(sum, hn::LoadU(d, tile + r * kTileStride + c));
    sums[r] += hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

template <class Real>
void column_sums(const Real* tile, int64_t rows, int64_t begin, int64_t end, Real* sums) {
  const Tag<Real> d;
  const int64_t lanes = lanes_of<Real>();
  for (int64_t c = begin; c < end; c += lanes) {
    auto sum = hn::Zero(d);
    for (int64_t r = 0; r < rows; ++r) sum = hn::Add(sum, hn::LoadU(d, tile + r * kTileStride + c));
    hn::StoreU(hn::Add(sum, hn::LoadU(d, sums + c)), d, sums + c);
  }
}

// Column c of the result gathers tile[r][c + r]: read askew, every row gives whole vectors, and nothing is
// stored that the next row reads back.
template <class Real>
void diagonal_sums(Real* tile, int64_t rows, int64_t begin, int64_t end, Real* sums) {
  const Tag<Real> d;
  const int64_t lanes = lanes_of<Real>();
  for (int64_t r = 0; r < rows; ++r) {
    std::fill_n(tile + r * kTileStride + begin - kTileMargin, kTileMargin, Real{0});
    std::fill_n(tile + r * kTileStride + end, kTileMargin, Real{0});
  }
  const int64_t from = begin - (rows - 1);  // the leftmost column reached, askew
  for (int64_t c = from; c < end; c += lanes) {
    // Beyond the range the rows read margins, which are 0; beyond those is another row, so stop in time.
    auto sum = hn::Zero(d);
    for (int64_t r = 0; r < rows; ++r)
      if (c + r < end) sum = hn::Add(sum, hn::LoadU(d, tile + r * kTileStride + c + r));
    hn::StoreU(hn::Add(sum, hn::LoadU(d, sums + c)), d, sums + c);
  }
}

template <class Real>
Real dot(const Real* a, const Real* b, int64_t width) {
  const Tag<Real> d;
  auto sum = hn::Zero(d);
  for (int64_t k = 0; k < width; k += lanes_of<Real>())
    sum = hn::MulAdd(hn::LoadU(d, a + k), hn::LoadU(d, b + k), sum);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

template <class Real>
void add(const Real* source, int64_t count, Real* sum) {
  const Tag<Real> d;
  const int64_t lanes = lanes_of<Real>();
  int64_t k = 0;
  for (; k + lanes <= count; k += lanes)
    hn::StoreU(hn::Add(hn::LoadU(d, source + k), hn::LoadU(d, sum + k)), d, sum + k);
  for (; k < count; ++k) sum[k] += source[k];
}

}  // namespace saccade::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
