// Compiles the vector code once for every instruction set and chooses among them at first use: the best one,
// or the one that the environment variable SACCADE_TARGET names.
#include "saccade/kernels/primitives.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "saccade/base/error.h"
#include "saccade/kernels/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "saccade/kernels/primitives.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "saccade/kernels/vector_math-inl.h"
// After the headers that they use.
#include "saccade/kernels/chain-inl.h"
#include "saccade/kernels/products-inl.h"
#include "saccade/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace saccade::kernels::HWY_NAMESPACE {

template <Op op, class Real>
void apply_strip(const ApplyTask<Real>& task) {
  const Tag<Real> d;
  const int64_t lanes = lanes_of<Real>();
  // An operand that the operation does not have is x again, and walks as x does.
  const int64_t y_step = task.y.rows ? task.y.step : task.x.step,
                z_step = task.z.rows ? task.z.step : task.x.step;
  for (int64_t r = 0; r < task.rows; ++r) {
    const Real* x = task.x.rows[r];
    const Real* y = task.y.rows ? task.y.rows[r] : x;
    const Real* z = task.z.rows ? task.z.rows[r] : x;
    Real* out = task.out + r * task.out_stride;
    for (int64_t c = task.begin; c < task.end; c += lanes)
      hn::StoreU(vector_apply<op>(d, hn::LoadU(d, x + c * task.x.step), hn::LoadU(d, y + c * y_step),
                                  hn::LoadU(d, z + c * z_step)),
                 d, out + c);
  }
}

template <class Real>
Primitives<Real> make() {
  Primitives<Real> table;
  table.target = hwy::TargetName(HWY_TARGET);
  table.lanes = lanes_of<Real>();
  table.rows = kStripRows;
  table.panel = 2 * table.lanes;
  table.few_rows = table.lanes == 1 ? 0 : std::min<int64_t>(kFewVectors * table.lanes, 24);
  table.widen = widen<Real>;
  table.narrow = narrow<Real>;
  table.transpose = transpose<Real>;
  table.copy = copy<Real>;
  table.scores = scores<Real>;
  table.row_scores = row_scores<Real>;
#if SACCADE_BFLOAT_PAIRS
  if constexpr (sizeof(Real) == 4)
    if (__builtin_cpu_supports("avx512bf16")) {
      table.pair_scores = scores<Real, BfloatPairs>;
      table.pair_row_scores = row_scores<Real, BfloatPairs>;
    }
#endif
  table.accumulate = accumulate<Real>;
  table.softmax = softmax<Real>;
  table.l1 = l1<Real>;
  table.softpick = softpick<Real>;
  table.mask = mask<Real>;
  table.weigh = weigh<Real>;
  table.combine = combine<Real>;
  table.scale_rows = scale_rows<Real>;
  table.softmax_backward = softmax_backward<Real>;
  table.l1_backward = l1_backward<Real>;
  table.softpick_backward = softpick_backward<Real>;
  table.plain_backward = plain_backward<Real>;
  table.row_sums = row_sums<Real>;
  table.column_sums = column_sums<Real>;
  table.diagonal_sums = diagonal_sums<Real>;
  table.dot = dot<Real>;
  table.add = add<Real>;
  table.chain = chain<Real>;
  table.apply.resize(static_cast<size_t>(Op::where) + 1);
  for (const Operation& row : operations())
    dispatch(row.op, [&]<Op op>() { table.apply[static_cast<size_t>(op)] = apply_strip<op, Real>; });
  return table;
}

Primitives<float> make_float() { return make<float>(); }
Primitives<double> make_double() { return make<double>(); }

}  // namespace saccade::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace saccade::kernels {

HWY_EXPORT(make_float);
HWY_EXPORT(make_double);

namespace {

// Before the first dispatch, which remembers its choice.
bool heed_environment() {
  const char* wanted = std::getenv("SACCADE_TARGET");
  if (!wanted || !*wanted) return true;
  std::string choices;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const std::string name = target & (HWY_SCALAR | HWY_EMU128) ? "scalar" : hwy::TargetName(target);
    if (name == wanted) {
      hwy::DisableTargets(~target);
      return true;
    }
    choices += choices.empty() ? name : ", " + name;
  }
  fail("SACCADE_TARGET is '{}'; expected one of this machine's instruction sets: {}", wanted, choices);
}

}  // namespace

std::optional<int> chain_code_of(Op op, int held) {
  switch (op) {
    case Op::negate:
    case Op::logical_not:
    case Op::abs:
    case Op::sign:
    case Op::relu:
      return held == 0 ? std::optional(chain_code(op, 0)) : std::nullopt;
    case Op::add:
    case Op::multiply:
    case Op::min:
    case Op::max:
    case Op::equal:
    case Op::not_equal:
    case Op::logical_and:
    case Op::logical_or:
      return chain_code(op, 0);
    case Op::less:
      return chain_code(held == 0 ? Op::less : Op::greater, 0);
    case Op::less_equal:
      return chain_code(held == 0 ? Op::less_equal : Op::greater_equal, 0);
    case Op::greater:
      return chain_code(held == 0 ? Op::greater : Op::less, 0);
    case Op::greater_equal:
      return chain_code(held == 0 ? Op::greater_equal : Op::less_equal, 0);
    case Op::subtract:
    case Op::divide:
    case Op::where:
      return chain_code(op, held);
    default:
      return std::nullopt;
  }
}

void choose_target() {
  static const bool chosen = heed_environment();
  (void)chosen;
}

template <>
const Primitives<float>& primitives<float>() {
  static const Primitives<float> table = (choose_target(), HWY_DYNAMIC_DISPATCH(make_float)());
  return table;
}

template <>
const Primitives<double>& primitives<double>() {
  static const Primitives<double> table = (choose_target(), HWY_DYNAMIC_DISPATCH(make_double)());
  return table;
}

std::string target_name() {
  const Primitives<float>& code = primitives<float>();
  return std::string(code.target) + (code.pair_scores ? " with pairs of bfloat16" : "");
}

}  // namespace saccade::kernels
#endif
