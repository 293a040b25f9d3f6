// An activation is written as x * sigmoid(z(x)), so that its derivative is s + x s (1 - s) z'. With
// r = 1 / root(mean(x^2) + epsilon) the gradient of a normed row is r (g dy) - x r^3 mean(g dy x).
#include "saccade/kernels/row_passes.h"

#include <algorithm>
#include <cmath>

#include "saccade/kernels/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "saccade/kernels/row_passes.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "saccade/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace saccade::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Whole vectors, then what is left one by one: the body is told which by its tag.
template <class Real, class Body>
HWY_INLINE void for_row(int64_t count, const Body& body) {
  const hn::ScalableTag<Real> vector;
  const hn::CappedTag<Real, 1> single;
  const auto lanes = static_cast<int64_t>(hn::Lanes(vector));
  int64_t k = 0;
  for (; k + lanes <= count; k += lanes) body(vector, k);
  for (; k < count; ++k) body(single, k);
}

template <class D>
struct Opened {
  hn::Vec<D> value, derivative;
};

template <Gate gate, class D>
HWY_INLINE Opened<D> activation(D d, hn::Vec<D> x) {
  using Real = Scalar<D>;
  const auto zero = hn::Zero(d), one = hn::Set(d, Real{1});
  if constexpr (gate == Gate::relu) {
    const auto positive = hn::Gt(x, zero);
    return {hn::IfThenElse(hn::Or(positive, hn::IsNaN(x)), x, zero), hn::IfThenElseZero(positive, one)};
  } else {
    auto z = x, slope = one;
    if constexpr (gate == Gate::gelu_tanh) {                          // (1 + tanh(z / 2)) / 2 is sigmoid(z)
      constexpr Real kTwice = static_cast<Real>(1.5957691216057308);  // 2 root(2 / pi)
      constexpr Real kCubic = static_cast<Real>(0.044715 * 1.5957691216057308);
      const auto square = hn::Mul(x, x);
      z = hn::Mul(x, hn::MulAdd(square, hn::Set(d, kCubic), hn::Set(d, kTwice)));
      slope = hn::MulAdd(square, hn::Set(d, 3 * kCubic), hn::Set(d, kTwice));
    }
    const auto e = exponential(d, hn::Neg(hn::Abs(z)));
    const auto large = hn::Div(one, hn::Add(one, e));
    const auto s = hn::IfThenElse(hn::Lt(z, zero), hn::Mul(e, large), large);
    const auto value = hn::Mul(x, s);
    return {value, hn::MulAdd(hn::Mul(value, hn::Sub(one, s)), slope, s)};
  }
}

template <class Real, Gate gate>
void open_gates_as(const Real* HWY_RESTRICT wide, int64_t rows, int64_t inner, Real* HWY_RESTRICT out) {
  for (int64_t row = 0; row < rows; ++row, wide += 2 * inner, out += inner)
    for_row<Real>(inner, [&](auto d, int64_t k) HWY_ATTR {
      const auto opened = activation<gate>(d, hn::LoadU(d, wide + k));
      hn::StoreU(hn::Mul(opened.value, hn::LoadU(d, wide + inner + k)), d, out + k);
    });
}

template <class Real, Gate gate>
void open_gates_backward_as(const Real* HWY_RESTRICT wide, const Real* HWY_RESTRICT out_gradient,
                            int64_t rows, int64_t inner, Real* HWY_RESTRICT wide_gradient) {
  for (int64_t row = 0; row < rows; ++row) {
    for_row<Real>(inner, [&](auto d, int64_t k) HWY_ATTR {
      const auto opened = activation<gate>(d, hn::LoadU(d, wide + k));
      const auto gradient = hn::LoadU(d, out_gradient + k);
      const auto of_gate = hn::Mul(hn::Mul(gradient, hn::LoadU(d, wide + inner + k)), opened.derivative);
      hn::StoreU(of_gate, d, wide_gradient + k);
      hn::StoreU(hn::Mul(gradient, opened.value), d, wide_gradient + inner + k);
    });
    wide += 2 * inner;
    out_gradient += inner;
    wide_gradient += 2 * inner;
  }
}

template <class Real>
void open_gates(Gate gate, const Real* wide, int64_t rows, int64_t inner, Real* out) {
  switch (gate) {
    case Gate::silu:
      return open_gates_as<Real, Gate::silu>(wide, rows, inner, out);
    case Gate::gelu_tanh:
      return open_gates_as<Real, Gate::gelu_tanh>(wide, rows, inner, out);
    case Gate::relu:
      return open_gates_as<Real, Gate::relu>(wide, rows, inner, out);
  }
}

template <class Real>
void open_gates_backward(Gate gate, const Real* wide, const Real* out_gradient, int64_t rows, int64_t inner,
                         Real* wide_gradient) {
  switch (gate) {
    case Gate::silu:
      return open_gates_backward_as<Real, Gate::silu>(wide, out_gradient, rows, inner, wide_gradient);
    case Gate::gelu_tanh:
      return open_gates_backward_as<Real, Gate::gelu_tanh>(wide, out_gradient, rows, inner, wide_gradient);
    case Gate::relu:
      return open_gates_backward_as<Real, Gate::relu>(wide, out_gradient, rows, inner, wide_gradient);
  }
}

// The sum of term(d, k) over a row, four sums side by side: additions wait for each other.
template <class Real, class Term>
HWY_INLINE Real sum_of_row(int64_t count, const Term& term) {
  const hn::ScalableTag<Real> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  int64_t k = 0;
  for (; k + 4 * lanes <= count; k += 4 * lanes) {
    a = hn::Add(a, term(d, k));
    b = hn::Add(b, term(d, k + lanes));
    c = hn::Add(c, term(d, k + 2 * lanes));
    e = hn::Add(e, term(d, k + 3 * lanes));
  }
  for (; k + lanes <= count; k += lanes) a = hn::Add(a, term(d, k));
  Real sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  const hn::CappedTag<Real, 1> single;
  for (; k < count; ++k) sum += hn::GetLane(term(single, k));
  return sum;
}

template <class Real>
void norm(const Real* x, const Real* change, const Real* gains, double epsilon, int64_t rows, int64_t width,
          Real* sum, Real* out, Real* scales) {
  for (int64_t row = 0; row < rows; ++row) {
    const Real* of = x + row * width;
    if (change) {
      const Real* other = change + row * width;
      Real* added = sum + row * width;
      for_row<Real>(width, [&](auto d, int64_t k) HWY_ATTR {
        hn::StoreU(hn::Add(hn::LoadU(d, of + k), hn::LoadU(d, other + k)), d, added + k);
      });
      of = added;
    }
    const Real squares = sum_of_row<Real>(width, [&](auto d, int64_t k) HWY_ATTR {
      const auto value = hn::LoadU(d, of + k);
      return hn::Mul(value, value);
    });
    const Real scale = 1 / std::sqrt(squares / static_cast<Real>(width) + static_cast<Real>(epsilon));
    Real* to = out + row * width;
    for_row<Real>(width, [&](auto d, int64_t k) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, of + k), hn::Set(d, scale)), hn::LoadU(d, gains + k)), d,
                 to + k);
    });
    if (scales) scales[row] = scale;
  }
}

template <class Real, bool has_beside>
void norm_backward_as(const Real* x, const Real* gains, const Real* scales, const Real* out_gradient,
                      const Real* beside, int64_t rows, int64_t width, Real* HWY_RESTRICT x_gradient,
                      Real* HWY_RESTRICT gain_sums) {
  for (int64_t row = 0; row < rows; ++row) {
    const Real* of = x + row * width;
    const Real* from = out_gradient + row * width;
    const Real* other = has_beside ? beside + row * width : nullptr;
    Real* to = x_gradient + row * width;
    const Real scale = scales[row];
    const Real products = sum_of_row<Real>(width, [&](auto d, int64_t k) HWY_ATTR {
      return hn::Mul(hn::Mul(hn::LoadU(d, from + k), hn::LoadU(d, gains + k)), hn::LoadU(d, of + k));
    });
    const Real along = products * scale * scale * scale / static_cast<Real>(width);
    for_row<Real>(width, [&](auto d, int64_t k) HWY_ATTR {
      const auto value = hn::LoadU(d, of + k), scaled = hn::Mul(hn::LoadU(d, from + k), hn::Set(d, scale));
      auto gradient = hn::Sub(hn::Mul(scaled, hn::LoadU(d, gains + k)), hn::Mul(value, hn::Set(d, along)));
      if constexpr (has_beside) gradient = hn::Add(gradient, hn::LoadU(d, other + k));
      hn::StoreU(gradient, d, to + k);
      hn::StoreU(hn::MulAdd(scaled, value, hn::LoadU(d, gain_sums + k)), d, gain_sums + k);
    });
  }
}

template <class Real>
void norm_backward(const Real* x, const Real* gains, const Real* scales, const Real* out_gradient,
                   const Real* beside, int64_t rows, int64_t width, Real* x_gradient, Real* gain_sums) {
  const auto run = beside ? norm_backward_as<Real, true> : norm_backward_as<Real, false>;
  run(x, gains, scales, out_gradient, beside, rows, width, x_gradient, gain_sums);
}

template <class Real>
void turn_heads(const Real* x, int64_t stride, int64_t heads, int64_t width, const Real* cosines,
                const Real* sines, int64_t pairs, Real direction, Real* HWY_RESTRICT out) {
  for (int64_t head = 0; head < heads; ++head, x += stride, out += width) {
    for_row<Real>(pairs, [&](auto d, int64_t k) HWY_ATTR {
      const auto first = hn::LoadU(d, x + k), second = hn::LoadU(d, x + pairs + k);
      const auto cosine = hn::LoadU(d, cosines + k),
                 sine = hn::Mul(hn::LoadU(d, sines + k), hn::Set(d, direction));
      hn::StoreU(hn::Sub(hn::Mul(first, cosine), hn::Mul(second, sine)), d, out + k);
      hn::StoreU(hn::Add(hn::Mul(second, cosine), hn::Mul(first, sine)), d, out + pairs + k);
    });
    std::copy(x + 2 * pairs, x + width, out + 2 * pairs);
  }
}

template <class Real>
RowPasses<Real> row_passes_of() {
  return {open_gates<Real>, open_gates_backward<Real>, norm<Real>, norm_backward<Real>, turn_heads<Real>};
}
RowPasses<float> row_passes_float() { return row_passes_of<float>(); }
RowPasses<double> row_passes_double() { return row_passes_of<double>(); }

}  // namespace saccade::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace saccade::kernels {
HWY_EXPORT(row_passes_float);
HWY_EXPORT(row_passes_double);

template <>
const RowPasses<float>& row_passes<float>() {
  static const RowPasses<float> table = (choose_target(), HWY_DYNAMIC_DISPATCH(row_passes_float)());
  return table;
}

template <>
const RowPasses<double>& row_passes<double>() {
  static const RowPasses<double> table = (choose_target(), HWY_DYNAMIC_DISPATCH(row_passes_double)());
  return table;
}

}  // namespace saccade::kernels
#endif
