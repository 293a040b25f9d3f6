// The end of a wave: partial sums become gradients, in a fixed order.
#include <cmath>

#include "saccade/kernels/backward_wave.h"
#include "saccade/kernels/table_gradients.h"

namespace saccade::kernels {

template <class Real>
void BackwardWave<Real>::add_up() {
  const int64_t heads = pairs_ * shape_.group();
  constexpr int64_t kRows = 64;
  const auto blocks_of = [](int64_t rows) { return (rows + kRows - 1) / kRows; };
  const int64_t query_blocks = blocks_of(shape_.queries);
#pragma omp parallel for schedule(static)
  for (int64_t unit = 0; unit < heads * query_blocks; ++unit) {
    const int64_t local = unit / query_blocks, from = unit % query_blocks * kRows;
    const int64_t head = first_head_ + local;
    for (size_t index = 0; index < inputs_.queries.size(); ++index)
      if (inputs_.queries[index] && gradients_.queries[index])
        add_rows(gradients_.queries[index], head / shape_.heads, head % shape_.heads,
                 {from, std::min(from + kRows, shape_.queries)}, query_sums_[index], local, 1,
                 scale_of_query(index), nullptr);
  }
  if (gathers()) {
    const int64_t key_blocks = blocks_of(shape_.keys);
#pragma omp parallel for schedule(static)
    for (int64_t unit = 0; unit < pairs_ * key_blocks; ++unit) {
      const int64_t local = unit / key_blocks, from = unit % key_blocks * kRows, pair = first_pair_ + local;
      const Range rows{from, std::min(from + kRows, shape_.keys)};
      const int64_t batch = pair / shape_.key_heads, head = pair % shape_.key_heads;
      const Real* real = context_.real_keys(batch);
      for (size_t index = 0; index < inputs_.keys.size(); ++index)
        if (inputs_.keys[index] && gradients_.keys[index])
          add_rows(gradients_.keys[index], batch, head, rows, key_sums_[index], local * shape_.group(),
                   shape_.group(), scale_of_key(index), real);
      if (gradients_.value)
        add_rows(gradients_.value, batch, head, rows, value_sums_, local * shape_.group(), shape_.group(),
                 Real{1}, real);
    }
  }
  for (int64_t local = 0; local < heads; ++local) add_tables(local);
}

// Gradients of vectors: the sum over the parts of one or several heads.
template <class Real>
void BackwardWave<Real>::add_rows(const Array& array, int64_t batch, int64_t head, Range rows, int64_t offset,
                                  int64_t first_local, int64_t members, Real scale, const Real* real) const {
  const int64_t stride = columns(array), count = rows.size() * stride;
  Real* sum = part_memory(first_local, 0) + offset + rows.begin * stride;
  for (int64_t part = 1; part < members * chunks_; ++part)
    code_.add(part_memory(first_local + part / chunks_, part % chunks_) + offset + rows.begin * stride, count,
              sum);
  store_rows(sum, stride, scale, real, array, batch, head, rows);
}

template <class Real>
void BackwardWave<Real>::add_tables(int64_t local_head) {
  const int64_t batch = (first_head_ + local_head) / shape_.heads,
                head = (first_head_ + local_head) % shape_.heads;
  const Slots<Real>& chain = chain_slots_.at(batch, head);
  for (size_t index = 0; index < plan_.targets.size(); ++index) {
    const Target& target = plan_.targets[index];
    if (sum_length(target) == 0 || !wants(target.links, gradients_)) continue;
    std::vector<double> adjoints(static_cast<size_t>(sum_length(target)));
    for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
      const Real* part = part_memory(local_head, chunk) + target_sums_[index];
      for (size_t k = 0; k < adjoints.size(); ++k) adjoints[k] += static_cast<double>(part[k]);
    }
    add_links(target.links, chain, adjoints, inputs_, gradients_, batch, head);
  }
  for (const RowTarget& target : plan_.row_targets) {
    if (!wants(target.links, gradients_)) continue;
    add_links(target.links, chain, row_adjoints(target, local_head, batch, head), inputs_, gradients_, batch,
              head);
  }
}

// Of a row's coefficient: the output gradient times the term's output without it. Of a sink: minus its own
// weight times delta.
template <class Real>
std::vector<double> BackwardWave<Real>::row_adjoints(const RowTarget& target, int64_t local_head,
                                                     int64_t batch, int64_t head) const {
  const Real* memory = head_memory(local_head);
  const Term& term = plan_.terms[static_cast<size_t>(target.term)];
  const Slots<Real>& slots = context_.forward_slots.at(batch, head);
  std::vector<double> adjoints(static_cast<size_t>(shape_.queries));
  for (int64_t row = 0; row < shape_.queries; ++row) {
    const int64_t at = target.term * shape_.queries + row;
    double& adjoint = adjoints[static_cast<size_t>(row)];
    if (target.sink) {
      const Real log_sum = memory[log_sums_ + at];
      if (std::isinf(log_sum)) continue;
      adjoint = -static_cast<double>(std::exp(slots.scalar(term.sink, row) - log_sum) * memory[deltas_ + at]);
      continue;
    }
    adjoint = static_cast<double>(memory[dots_ + at]);
  }
  return adjoints;
}

template <class Real>
void BackwardWave<Real>::scatter_keys(const BackwardKeys<Real>& keys, int64_t local_head,
                                      int64_t chunk) const {
  Real* part = part_memory(local_head, chunk);
  for (int64_t k = 0; k < keys.count; ++k) {
    for (size_t index = 0; index < inputs_.keys.size(); ++index) {
      if (!keys.key_gradients[index]) continue;
      const int64_t stride = columns(inputs_.keys[index]);
      code_.add(keys.key_gradients[index] + k * stride, stride,
                part + key_sums_[index] + keys.picked[k] * stride);
    }
    const int64_t stride = context_.value_columns;
    if (keys.value_gradient)
      code_.add(keys.value_gradient + k * stride, stride, part + value_sums_ + keys.picked[k] * stride);
  }
}

template <class Real>
void BackwardWave<Real>::point_at_sums(BackwardKeys<Real>& keys, int64_t local_head, int64_t chunk) const {
  Real* part = part_memory(local_head, chunk);
  keys.single_gradients.assign(inputs_.keys.size(), {});
  keys.single_value_gradients.clear();
  for (size_t index = 0; index < inputs_.keys.size(); ++index)
    if (inputs_.keys[index] && gradients_.keys[index])
      for (int64_t k = 0; k < keys.count; ++k)
        keys.single_gradients[index].push_back(part + key_sums_[index] +
                                               keys.picked[k] * columns(inputs_.keys[index]));
  if (gradients_.value)
    for (int64_t k = 0; k < keys.count; ++k)
      keys.single_value_gradients.push_back(part + value_sums_ + keys.picked[k] * context_.value_columns);
}

template void BackwardWave<float>::add_up();
template void BackwardWave<double>::add_up();
template void BackwardWave<float>::point_at_sums(BackwardKeys<float>&, int64_t, int64_t) const;
template void BackwardWave<double>::point_at_sums(BackwardKeys<double>&, int64_t, int64_t) const;
template void BackwardWave<float>::scatter_keys(const BackwardKeys<float>&, int64_t, int64_t) const;
template void BackwardWave<double>::scatter_keys(const BackwardKeys<double>&, int64_t, int64_t) const;

}  // namespace saccade::kernels
