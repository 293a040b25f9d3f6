// Norms are kept per vector; a tile takes the largest of its rows.
#include "saccade/kernels/score_bound.h"

#include <cmath>

namespace saccade::kernels {

template <class Real>
ScoreBound<Real>::ScoreBound(const CallContext<Real>& context, double epsilon) : context_(context) {
  enabled_ = epsilon > 0;
  for (const Term& term : context.plan.terms) enabled_ &= term.norm == Op::softmax && !term.inside;
  if (!enabled_) return;
  const Shape& shape = context.inputs.shape;
  depth_ = std::log(static_cast<double>(std::max<int64_t>(shape.keys, 1)) / epsilon);
  find_norms(context.inputs.queries, shape.heads, shape.queries, query_norms_);
  find_norms(context.inputs.keys, shape.key_heads, shape.keys, key_norms_);
}

template <class Real>
void ScoreBound<Real>::find_norms(const std::vector<Array>& arrays, int64_t heads, int64_t tokens,
                                  std::vector<std::vector<Real>>& norms) {
  const int64_t batches = context_.inputs.shape.batch;
  for (const Array& array : arrays) {
    std::vector<Real>& found = norms.emplace_back();
    if (!array) continue;
    found.resize(static_cast<size_t>(batches * heads * tokens));
#pragma omp parallel
    {
      std::vector<Real> row(static_cast<size_t>(round_up(array.width, 16)));
#pragma omp for schedule(static)
      for (int64_t unit = 0; unit < batches * heads * tokens; ++unit) {
        const int64_t token = unit % tokens, head = unit / tokens % heads, batch = unit / tokens / heads;
        load_rows<Real>(array, batch, head, {token, token + 1}, nullptr, row.data(), 0);
        const Real square =
            context_.code.dot(row.data(), row.data(), round_up(array.width, context_.code.lanes));
        // A little more than the norm, for the rounding of sums.
        found[static_cast<size_t>(unit)] = std::sqrt(square) * Real(1.0001);
      }
    }
  }
}

template <class Real>
bool ScoreBound<Real>::negligible(int64_t batch, int64_t head, Range queries, Range keys,
                                  const std::vector<Real>& floors) const {
  if (!enabled_) return false;
  for (Real floor : floors)
    if (!std::isfinite(floor)) return false;
  const KernelPlan& plan = context_.plan;
  const Shape& shape = context_.inputs.shape;
  const Slots<Real>& slots = context_.forward_slots.at(batch, head);
  const auto largest = [](const std::vector<Real>& norms, int64_t first, Range range) {
    Real result = 0;
    for (int64_t k = range.begin; k < range.end; ++k) {
      const Real norm = norms[static_cast<size_t>(first + k)];
      if (!(norm <= result)) result = norm;  // also NaN
    }
    return static_cast<double>(result);
  };
  std::vector<Interval> streams;
  for (size_t index = 0; index < plan.products.size(); ++index) {
    const Product& product = plan.products[index];
    const double q = largest(query_norms_[static_cast<size_t>(product.query_vector)],
                             (batch * shape.heads + head) * shape.queries, queries);
    const double k = largest(key_norms_[static_cast<size_t>(product.key_vector)],
                             (batch * shape.key_heads + head / shape.group()) * shape.keys, keys);
    const double most = q * k * std::fabs(static_cast<double>(context_.scale(index, slots)));
    if (!std::isfinite(most)) return false;
    Interval range{-most, most};
    if (product.addend.kind == Operand::Kind::slot) {
      const Interval addend = slots.range(product.addend.index, queries, keys);
      if (addend.nan) return false;
      range = {range.low + addend.low, range.high + addend.high};
    }
    streams.push_back(range);
  }
  IntervalMachine<Real> machine(plan.plan.graph, plan.forward);
  machine.run(slots, queries, keys, streams);
  for (size_t term = 0; term < plan.terms.size(); ++term) {
    const Interval argument = machine.value(plan.terms[term].argument);
    if (argument.nan || !(argument.high < static_cast<double>(floors[term]) - depth_)) return false;
  }
  return true;
}

template class ScoreBound<float>;
template class ScoreBound<double>;

}  // namespace saccade::kernels
