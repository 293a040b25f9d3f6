// The scalar operations of the formula language on vectors, and the exponential of the norms. Included once
// per instruction set. Values follow `apply` of the operation table; where the vector routine does not cover
// an argument, the scalar definition is asked lane by lane.
#if defined(SACCADE_VECTOR_MATH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SACCADE_VECTOR_MATH_INL
#undef SACCADE_VECTOR_MATH_INL
#else
#define SACCADE_VECTOR_MATH_INL
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <limits>

#include "saccade/formula/operations.h"

HWY_BEFORE_NAMESPACE();
namespace saccade::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using Scalar = hn::TFromD<D>;

inline constexpr float kLog2OfE = 1.44269504088896341f;
// Below this exp(x) is no normal number.
inline constexpr float kLowestExponent = -87.33654f;

#if HWY_TARGET <= HWY_AVX3
// exp(x) = 2^floor(y) * 2^(i/16) * 2^f, where y is x * log2(e) rounded to sixteenths, i / 16 its fraction and
// f the rest: three operations less than without the table. Spelled in intrinsics: Highway has no scaling by
// powers of two.
HWY_INLINE __m512 exponential_by_roots(__m512 x) {
  const __m512 roots = _mm512_setr_ps(1.0f, 1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f,
                                      1.29683959f, 1.35425556f, 1.41421354f, 1.47682619f, 1.54221082f,
                                      1.61049032f, 1.68179286f, 1.75625217f, 1.8340081f, 1.91520655f);
  const __m512 log2e = _mm512_set1_ps(kLog2OfE), magic = _mm512_set1_ps(786432.0f);  // 1.5 * 2^19
  const __m512 shifted = _mm512_fmadd_ps(x, log2e, magic);  // the sixteenths, in the low bits
  const __m512 y = _mm512_sub_ps(shifted, magic), f = _mm512_fmsub_ps(x, log2e, y);
  const __m512 root = _mm512_permutexvar_ps(_mm512_castps_si512(shifted), roots);
  // 2^f - 1 on [-1/32, 1/32] within 2e-9.
  __m512 p = _mm512_fmadd_ps(f, _mm512_set1_ps(0.055500314f), _mm512_set1_ps(0.24023433f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.6931472f));
  const __m512 power = _mm512_fmadd_ps(_mm512_mul_ps(p, f), root, root);
  // A NaN is not less, and stays one.
  const __mmask16 normal = _mm512_cmp_ps_mask(x, _mm512_set1_ps(kLowestExponent), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(normal, power, y);
}
#endif

// exp(x) for x <= 0 and somewhat above; exactly 0 below the smallest normal number, also for -inf.
template <class D>
HWY_INLINE hn::Vec<D> exponential(D d, hn::Vec<D> x) {
#if HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(Scalar<D>) == 4 && hn::MaxLanes(D()) == 16)
    return hn::Vec<D>{exponential_by_roots(x.raw)};
#endif
  if constexpr (sizeof(Scalar<D>) == 8) {
    const auto low = hn::Set(d, -708.0);
    const auto result = hn::Exp(d, hn::Max(x, low));
    return hn::IfThenZeroElse(hn::Lt(x, low), hn::IfThenElse(hn::IsNaN(x), x, result));
  } else {
    const auto log2e = hn::Set(d, kLog2OfE);
    // 2^f on [-1/2, 1/2] within 3e-9, and exactly 1 at 0.
    const auto power_of_two = [&](hn::Vec<D> f) HWY_ATTR {
      auto p = hn::Set(d, 0.0001546144469856913f);
      p = hn::MulAdd(p, f, hn::Set(d, 0.0013400428177615838f));
      p = hn::MulAdd(p, f, hn::Set(d, 0.009618056678524637f));
      p = hn::MulAdd(p, f, hn::Set(d, 0.05550327226670302f));
      p = hn::MulAdd(p, f, hn::Set(d, 0.24022650922288757f));
      p = hn::MulAdd(p, f, hn::Set(d, 0.6931472067028326f));
      return hn::MulAdd(p, f, hn::Set(d, 1.0f));
    };
    const auto magic = hn::Set(d, 12582912.0f), low = hn::Set(d, kLowestExponent);  // 1.5 * 2^23
    const auto shifted = hn::MulAdd(x, log2e, magic);  // the power of two, in the low bits
    const auto p = power_of_two(hn::MulSub(x, log2e, hn::Sub(shifted, magic)));
    const hn::RebindToSigned<D> di;
    const auto result =
        hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
    return hn::IfThenZeroElse(hn::Lt(x, low), result);  // NaN is not less, and its bits survive the sum
  }
}

// The operation lane by lane, by its scalar definition.
template <Op op, class D>
HWY_NOINLINE hn::Vec<D> lane_by_lane(D d, hn::Vec<D> x, hn::Vec<D> y, hn::Vec<D> z) {
  HWY_ALIGN Scalar<D> a[hn::MaxLanes(d)], b[hn::MaxLanes(d)], c[hn::MaxLanes(d)];
  hn::Store(x, d, a);
  hn::Store(y, d, b);
  hn::Store(z, d, c);
  for (size_t lane = 0; lane < hn::Lanes(d); ++lane)
    a[lane] = static_cast<Scalar<D>>(saccade::apply<op, Scalar<D>>(a[lane], b[lane], c[lane]));
  return hn::Load(d, a);
}

template <class D>
HWY_INLINE bool all_within(D d, hn::Vec<D> x, Scalar<D> low, Scalar<D> high) {
  return hn::AllTrue(d, hn::And(hn::Ge(x, hn::Set(d, low)), hn::Le(x, hn::Set(d, high))));
}

// x ^ y for positive x, through double: the logarithm's error is multiplied by the exponent.
template <class D>
HWY_INLINE hn::Vec<D> positive_power(D d, hn::Vec<D> x, hn::Vec<D> y) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return lane_by_lane<Op::power>(d, x, y, y);
#else
  const hn::Repartition<double, D> dd;
  const hn::Half<D> half;
  const auto part = [&](hn::Vec<hn::Half<D>> base, hn::Vec<hn::Half<D>> exponent) HWY_ATTR {
    const auto power = hn::Mul(hn::PromoteTo(dd, exponent), hn::Log(dd, hn::PromoteTo(dd, base)));
    // Outside of float's range the result is 0 or infinite, whatever the excess.
    const auto bounded = hn::Min(hn::Max(power, hn::Set(dd, -120.0)), hn::Set(dd, 120.0));
    return hn::DemoteTo(half, hn::Exp(dd, bounded));
  };
  return hn::Combine(d, part(hn::UpperHalf(half, x), hn::UpperHalf(half, y)),
                     part(hn::LowerHalf(half, x), hn::LowerHalf(half, y)));
#endif
}

template <Op op, class D>
HWY_INLINE hn::Vec<D> vector_apply(D d, hn::Vec<D> x, hn::Vec<D> y, hn::Vec<D> z) {
  using Real = Scalar<D>;
  constexpr bool single = sizeof(Real) == 4;
  const auto one = hn::Set(d, Real{1}), zero = hn::Zero(d);
  const auto truth = [&](auto condition) HWY_ATTR { return hn::IfThenElseZero(condition, one); };
  // A NaN differs from everything; Ne does not say so on every machine.
  const auto differ = [](hn::Vec<D> a, hn::Vec<D> b) HWY_ATTR { return hn::Not(hn::Eq(a, b)); };
  if constexpr (op == Op::add)
    return hn::Add(x, y);
  else if constexpr (op == Op::subtract)
    return hn::Sub(x, y);
  else if constexpr (op == Op::multiply)
    return hn::Mul(x, y);
  else if constexpr (op == Op::divide)
    return hn::Div(x, y);
  else if constexpr (op == Op::floor_divide)
    return hn::Floor(hn::Div(x, y));
  else if constexpr (op == Op::modulo)
    return hn::Sub(x, hn::Mul(y, hn::Floor(hn::Div(x, y))));
  else if constexpr (op == Op::negate)
    return hn::Neg(x);
  else if constexpr (op == Op::less)
    return truth(hn::Lt(x, y));
  else if constexpr (op == Op::less_equal)
    return truth(hn::Le(x, y));
  else if constexpr (op == Op::greater)
    return truth(hn::Gt(x, y));
  else if constexpr (op == Op::greater_equal)
    return truth(hn::Ge(x, y));
  else if constexpr (op == Op::equal)
    return truth(hn::Eq(x, y));
  else if constexpr (op == Op::not_equal)
    return truth(differ(x, y));
  else if constexpr (op == Op::logical_and)
    return truth(hn::And(differ(x, zero), differ(y, zero)));
  else if constexpr (op == Op::logical_or)
    return truth(hn::Or(differ(x, zero), differ(y, zero)));
  else if constexpr (op == Op::logical_not)
    return truth(hn::Eq(x, zero));
  else if constexpr (op == Op::abs)
    return hn::Abs(x);
  else if constexpr (op == Op::sign)
    return hn::IfThenElse(hn::Gt(x, zero), one, hn::IfThenElse(hn::Lt(x, zero), hn::Neg(one), x));
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSE4
  // The instructions give their second operand where either is NaN.
  else if constexpr (op == Op::min)
    return hn::IfThenElse(hn::IsNaN(y), y, hn::Min(y, x));
  else if constexpr (op == Op::max)
    return hn::IfThenElse(hn::IsNaN(y), y, hn::Max(y, x));
#else
  else if constexpr (op == Op::min)
    return hn::IfThenElse(hn::Or(hn::Lt(y, x), hn::IsNaN(y)), y, x);
  else if constexpr (op == Op::max)
    return hn::IfThenElse(hn::Or(hn::Gt(y, x), hn::IsNaN(y)), y, x);
#endif
  else if constexpr (op == Op::clamp)
    return vector_apply<Op::min>(d, vector_apply<Op::max>(d, x, y, z), z, z);
  else if constexpr (op == Op::floor)
    return hn::Floor(x);
  else if constexpr (op == Op::sqrt)
    return hn::Sqrt(x);
  else if constexpr (op == Op::relu)
    return hn::IfThenElse(hn::Or(hn::Gt(x, zero), hn::IsNaN(x)), x, zero);
  else if constexpr (op == Op::where)
    return hn::IfThenElse(hn::Eq(x, zero), z, y);
  // Double is for checking gradients: the scalar library is exact, and fast enough.
  else if constexpr (!single)
    return lane_by_lane<op>(d, x, y, z);
  else if constexpr (op == Op::power) {
    if (hn::AllTrue(d, hn::Eq(y, hn::Set(d, Real{2})))) return hn::Mul(x, x);
    const bool tame = all_within(d, x, std::numeric_limits<Real>::min(), std::numeric_limits<Real>::max()) &&
                      all_within(d, hn::Abs(y), 0, Real{1e6});
    return tame ? positive_power(d, x, y) : lane_by_lane<op>(d, x, y, z);
  } else if constexpr (op == Op::exp) {
    return all_within(d, x, -87, 88) ? hn::Exp(d, x) : lane_by_lane<op>(d, x, y, z);
  } else if constexpr (op == Op::log) {
    return all_within(d, x, std::numeric_limits<Real>::min(), std::numeric_limits<Real>::max())
               ? hn::Log(d, x)
               : lane_by_lane<op>(d, x, y, z);
  } else if constexpr (op == Op::log1p) {
    return all_within(d, x, 0, Real{1e30}) ? hn::Log1p(d, x) : lane_by_lane<op>(d, x, y, z);
  } else if constexpr (op == Op::tanh) {
    return all_within(d, x, -40, 40) ? hn::Tanh(d, x) : lane_by_lane<op>(d, x, y, z);
  } else if constexpr (op == Op::sigmoid) {
    if (!all_within(d, x, -80, 80)) return lane_by_lane<op>(d, x, y, z);
    const auto e = hn::Exp(d, hn::Neg(hn::Abs(x)));
    const auto r = hn::Div(one, hn::Add(one, e));
    return hn::IfThenElse(hn::Ge(x, zero), r, hn::Mul(e, r));
  } else if constexpr (op == Op::sin || op == Op::cos) {
    if (!all_within(d, x, -1000, 1000)) return lane_by_lane<op>(d, x, y, z);
    if constexpr (op == Op::sin)
      return hn::Sin(d, x);
    else
      return hn::Cos(d, x);
  } else {
    static_assert(op == Op::add, "no vector code for this operation");
  }
}

}  // namespace saccade::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
