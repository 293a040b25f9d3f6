// What a tile of queries has come to: its state between blocks, and in the end its outputs and log-sums.
#include <cmath>

#include "saccade/kernels/forward_tile.h"

namespace saccade::kernels {
template <class Real>
std::vector<Real> ForwardTile<Real>::lowest_maxima() const {
  std::vector<Real> lowest;
  for (size_t term = 0; term < plan_.terms.size(); ++term)
    lowest.push_back(
        *std::min_element(maxima_ + term * kTileRows, maxima_ + term * kTileRows + rows_.size()));
  return lowest;
}

template <class Real>
int64_t ForwardTile<Real>::state_size() const {
  return static_cast<int64_t>(plan_.terms.size()) * kTileRows * (context_.value_columns + 2);
}

template <class Real>
void ForwardTile<Real>::save(Real* memory) const {
  const auto count = static_cast<int64_t>(plan_.terms.size()) * kTileRows;
  std::copy_n(maxima_, count, memory);
  std::copy_n(sums_, count, memory + count);
  std::copy_n(accumulators_, count * context_.value_columns, memory + 2 * count);
}

template <class Real>
void ForwardTile<Real>::absorb(const Real* memory) {
  const auto count = static_cast<int64_t>(plan_.terms.size()) * kTileRows;
  const Real* maxima = memory;
  const Real* sums = memory + count;
  const Real* accumulators = memory + 2 * count;
  for (size_t index = 0; index < plan_.terms.size(); ++index) {
    const Term& term = plan_.terms[index];
    for (size_t row = 0; row < rows_.size(); ++row) {
      const int64_t at = static_cast<int64_t>(index) * kTileRows + static_cast<int64_t>(row);
      Real mine = 1, theirs = 1;
      if (term.norm && *term.norm != Op::l1) {
        const Real high = std::max(maxima_[at], maxima[at]);
        mine = maxima_[at] == kMinusInfinity<Real> ? Real{0} : std::exp(maxima_[at] - high);
        theirs = maxima[at] == kMinusInfinity<Real> ? Real{0} : std::exp(maxima[at] - high);
        maxima_[at] = high;
      }
      sums_[at] = sums_[at] * mine + sums[at] * theirs;
      for (int64_t c = 0; c < context_.value_columns; ++c) {
        Real& sum = accumulators_[at * context_.value_columns + c];
        sum = sum * mine + accumulators[at * context_.value_columns + c] * theirs;
      }
    }
  }
}

template <class Real>
void ForwardTile<Real>::finish(const ForwardOutputs& outputs) {
  const Shape& shape = context_.inputs.shape;
  const int64_t width = context_.inputs.value.width, columns = context_.value_columns;
  const int64_t places = shape.batch * shape.heads * shape.queries;
  const auto rows = static_cast<int64_t>(rows_.size());
  auto* log_sums = static_cast<Real*>(outputs.log_sums);
  auto* partials = static_cast<Real*>(outputs.partials);
  int64_t norm = 0;
  for (size_t index = 0; index < plan_.terms.size(); ++index) {
    const Term& term = plan_.terms[index];
    Real* sums = accumulator(index);
    if (term.norm) {
      for (int64_t row = 0; row < rows; ++row) {
        const TileRow& at = rows_[static_cast<size_t>(row)];
        factors_[row] = divide(index, row, log_sums + norm * places + place_of(at));
      }
      ++norm;
      code_.scale_rows(sums, columns, rows, columns, factors_);
    }
    // The rows of one head are neighbours there, too.
    if (partials && forward_slots_.size() == 1 && width == columns)
      code_.narrow(sums, storage_of<Real>(), 1, rows * width,
                   partials + (static_cast<int64_t>(index) * places + place_of(rows_[0])) * width);
    else if (partials)
      for (int64_t row = 0; row < rows; ++row)
        code_.narrow(
            sums + row * columns, storage_of<Real>(), 1, width,
            partials +
                (static_cast<int64_t>(index) * places + place_of(rows_[static_cast<size_t>(row)])) * width);
    if (term.norm && !term.inside && !term.unit) {
      for (int64_t row = 0; row < rows; ++row) {
        const TileRow& at = rows_[static_cast<size_t>(row)];
        factors_[row] = forward_slots_[static_cast<size_t>(at.head)]->scalar(term.coefficient, at.query);
      }
      code_.scale_rows(sums, columns, rows, columns, factors_);
    }
    if (index > 0) code_.add(sums, rows * columns, accumulator(0));
  }
  store_rows(outputs);
}

template <class Real>
int64_t ForwardTile<Real>::place_of(const TileRow& at) const {
  const Shape& shape = context_.inputs.shape;
  return (batch_ * shape.heads + first_head_ + at.head) * shape.queries + at.query;
}

template <class Real>
void ForwardTile<Real>::store_rows(const ForwardOutputs& outputs) const {
  // The rows of a head are neighbours.
  const int64_t each = std::ssize(rows_) / std::ssize(forward_slots_), columns = context_.value_columns;
  for (int64_t head = 0; head < std::ssize(forward_slots_); ++head) {
    const int64_t first = rows_[static_cast<size_t>(head * each)].query;
    kernels::store_rows(accumulators_ + head * each * columns, columns, Real{1},
                        static_cast<const Real*>(nullptr), outputs.output, batch_, first_head_ + head,
                        {first, first + each});
  }
}

// What a row's numerators are multiplied with in the end; notes the logarithm of the divisor.
template <class Real>
Real ForwardTile<Real>::divide(size_t index, int64_t row, Real* log_sum) const {
  const Term& term = plan_.terms[index];
  const TileRow& at = rows_[static_cast<size_t>(row)];
  const int64_t state = static_cast<int64_t>(index) * kTileRows + row;
  Real maximum = maxima_[state], sum = sums_[state], factor = 1;
  if (term.sink.kind != Operand::Kind::none) {
    const Real sink = forward_slots_[static_cast<size_t>(at.head)]->scalar(term.sink, at.query);
    const Real high = std::max(maximum, sink);
    factor = maximum == kMinusInfinity<Real> ? Real{0} : std::exp(maximum - high);
    sum = high == kMinusInfinity<Real> ? Real{0} : sum * factor + std::exp(sink - high);
    maximum = high;
  }
  const Real shift = *term.norm == Op::l1 ? Real{0} : maximum;
  *log_sum = sum == 0 ? kMinusInfinity<Real> : std::log(sum) + shift;
  return sum == 0 ? Real{0} : factor / sum;
}

template std::vector<float> ForwardTile<float>::lowest_maxima() const;
template std::vector<double> ForwardTile<double>::lowest_maxima() const;
template int64_t ForwardTile<float>::state_size() const;
template int64_t ForwardTile<double>::state_size() const;
template void ForwardTile<float>::save(float*) const;
template void ForwardTile<double>::save(double*) const;
template void ForwardTile<float>::absorb(const float*);
template void ForwardTile<double>::absorb(const double*);
template void ForwardTile<float>::finish(const ForwardOutputs&);
template void ForwardTile<double>::finish(const ForwardOutputs&);
template int64_t ForwardTile<float>::place_of(const TileRow&) const;
template int64_t ForwardTile<double>::place_of(const TileRow&) const;
template void ForwardTile<float>::store_rows(const ForwardOutputs&) const;
template void ForwardTile<double>::store_rows(const ForwardOutputs&) const;
template float ForwardTile<float>::divide(size_t, int64_t, float*) const;
template double ForwardTile<double>::divide(size_t, int64_t, double*) const;

}  // namespace saccade::kernels
