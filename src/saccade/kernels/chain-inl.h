// Chains of short operations over a strip. A few vectors of a row go through all steps before the next ones,
// and what a step hands to the one after it never leaves the registers. Included once per instruction set.
#if defined(SACCADE_CHAIN_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SACCADE_CHAIN_INL
#undef SACCADE_CHAIN_INL
#else
#define SACCADE_CHAIN_INL
#endif

#include <hwy/highway.h>

#include "saccade/kernels/primitives.h"
#include "saccade/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace saccade::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// `Count` vectors of each of `Rows` rows from r on, from column c on. Which step comes next is known by heart
// after a few turns, so that choosing it costs little beside even a few vectors.
template <int Rows, int Count, class D>
HWY_INLINE void chain_vectors(D d, const ChainTask<Scalar<D>>& task, int64_t r, int64_t c) {
  using Real = Scalar<D>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> held[Rows][Count];
#pragma GCC unroll 16
  for (int u = 0; u < Rows; ++u)
#pragma GCC unroll 16
    for (int v = 0; v < Count; ++v) held[u][v] = hn::Zero(d);
  for (const ChainStep<Real>*step = task.steps, *end = step + task.count; step != end; ++step) {
    const View<Real> first = step->other[0], second = step->other[1];
    const Real* a[Rows];
    const Real* b[Rows];
#pragma GCC unroll 16
    for (int u = 0; u < Rows; ++u) {
      a[u] = first.rows ? first.rows[r + u] + c * first.step : nullptr;
      b[u] = second.rows ? second.rows[r + u] + c * second.step : nullptr;
    }
    const int64_t a_step = first.step * lanes, b_step = second.step * lanes;
#define SACCADE_EACH_VECTOR(expression)                            \
  {                                                                \
    _Pragma("GCC unroll 16") for (int u = 0; u < Rows; ++u)        \
        _Pragma("GCC unroll 16") for (int v = 0; v < Count; ++v) { \
      const auto x = held[u][v];                                   \
      held[u][v] = expression;                                     \
    }                                                              \
    break;                                                         \
  }
#define SACCADE_A hn::LoadU(d, a[u] + v * a_step)
#define SACCADE_B hn::LoadU(d, b[u] + v * b_step)
#define SACCADE_UNARY(op) \
  case chain_code(op, 0): \
    SACCADE_EACH_VECTOR(vector_apply<op>(d, x, x, x))
#define SACCADE_BINARY(op) \
  case chain_code(op, 0):  \
    SACCADE_EACH_VECTOR(vector_apply<op>(d, x, SACCADE_A, x))
#define SACCADE_BINARY_SECOND(op) \
  case chain_code(op, 1):         \
    SACCADE_EACH_VECTOR(vector_apply<op>(d, SACCADE_A, x, x))
    if (const View<Real> start = step->start; start.rows) {
#pragma GCC unroll 16
      for (int u = 0; u < Rows; ++u) {
        const Real* from = start.rows[r + u] + c * start.step;
#pragma GCC unroll 16
        for (int v = 0; v < Count; ++v) held[u][v] = hn::LoadU(d, from + v * start.step * lanes);
      }
    }
    switch (step->code) {
      case kChainMultiplyAdd:
        SACCADE_EACH_VECTOR(hn::MulAdd(x, SACCADE_A, SACCADE_B))
        SACCADE_UNARY(Op::negate)
        SACCADE_UNARY(Op::logical_not)
        SACCADE_UNARY(Op::abs)
        SACCADE_UNARY(Op::sign)
        SACCADE_UNARY(Op::relu)
        SACCADE_BINARY(Op::add)
        SACCADE_BINARY(Op::multiply)
        SACCADE_BINARY(Op::subtract)
        SACCADE_BINARY_SECOND(Op::subtract)
        SACCADE_BINARY(Op::divide)
        SACCADE_BINARY_SECOND(Op::divide)
        SACCADE_BINARY(Op::min)
        SACCADE_BINARY(Op::max)
        SACCADE_BINARY(Op::less)
        SACCADE_BINARY(Op::less_equal)
        SACCADE_BINARY(Op::greater)
        SACCADE_BINARY(Op::greater_equal)
        SACCADE_BINARY(Op::equal)
        SACCADE_BINARY(Op::not_equal)
        SACCADE_BINARY(Op::logical_and)
        SACCADE_BINARY(Op::logical_or)
      case chain_code(Op::where, 0):
        SACCADE_EACH_VECTOR(vector_apply<Op::where>(d, x, SACCADE_A, SACCADE_B))
      case chain_code(Op::where, 1):
        SACCADE_EACH_VECTOR(vector_apply<Op::where>(d, SACCADE_A, x, SACCADE_B))
      case chain_code(Op::where, 2):
        SACCADE_EACH_VECTOR(vector_apply<Op::where>(d, SACCADE_A, SACCADE_B, x))
      default:
        __builtin_unreachable();
    }
#undef SACCADE_EACH_VECTOR
#undef SACCADE_A
#undef SACCADE_B
#undef SACCADE_UNARY
#undef SACCADE_BINARY
#undef SACCADE_BINARY_SECOND
    if (step->out) {
#pragma GCC unroll 16
      for (int u = 0; u < Rows; ++u) {
        Real* out = *step->out + (r + u) * kTileStride + c;
#pragma GCC unroll 16
        for (int v = 0; v < Count; ++v) hn::StoreU(held[u][v], d, out + v * lanes);
      }
    }
  }
}

template <class Real>
void chain(const ChainTask<Real>& given) {
  const hn::ScalableTag<Real> d;
  const ChainTask<Real> task = given;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t r = 0;
#if HWY_TARGET <= HWY_AVX3
  // Several rows at once, where there are registers for them.
  if (task.end - task.begin == 6 * lanes)
    for (; r + 4 <= task.rows; r += 4) chain_vectors<4, 6>(d, task, r, task.begin);
  if ((task.end - task.begin) % (8 * lanes) == 0)
    for (; r + 3 <= task.rows; r += 3)
      for (int64_t c = task.begin; c < task.end; c += 8 * lanes) chain_vectors<3, 8>(d, task, r, c);
#endif
  for (; r < task.rows; ++r) {
    int64_t c = task.begin;
    for (; c + 8 * lanes <= task.end; c += 8 * lanes) chain_vectors<1, 8>(d, task, r, c);
    // What is left of 8, in one piece where tiles usually end.
    if (c + 6 * lanes <= task.end) {
      chain_vectors<1, 6>(d, task, r, c);
      c += 6 * lanes;
    }
    for (; c + 2 * lanes <= task.end; c += 2 * lanes) chain_vectors<1, 2>(d, task, r, c);
    if (c < task.end) chain_vectors<1, 1>(d, task, r, c);
  }
}

}  // namespace saccade::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
