// Several softmax terms in one pass over the values. Their divisors must be known before the weights can be
// summed, so the numerators of a few rows are kept for all keys: memory for rows times keys of one tile, not
// of the map. Those of a block are divided by about the largest argument so far; what is missing to the
// largest of all is made up for when the weights are summed.
#include <cmath>

#include "saccade/kernels/forward_tile.h"

namespace saccade::kernels {

template <class Real>
bool ForwardTile<Real>::merges(const KernelPlan& plan, const ForwardOutputs& outputs) {
  bool all = plan.terms.size() > 1 && !outputs.partials;
  for (const Term& term : plan.terms) all &= term.norm == Op::softmax && !term.inside;
  return all;
}

template <class Real>
int64_t ForwardTile<Real>::merged_size(int64_t blocks) const {
  // Beside those of all blocks a tile of summed weights.
  return (blocks * static_cast<int64_t>(plan_.products.size() + plan_.terms.size()) + 1) * kSubRows *
         kTileStride;
}

template <class Real>
void ForwardTile<Real>::run_merged(const std::vector<KeyBlock<Real>>& blocks,
                                   const std::vector<TileState>& block_states, bool clip_band, Real* memory,
                                   const ForwardOutputs& outputs) {
  constexpr int64_t kTileSize = kSubRows * kTileStride;
  const std::vector<Real*> scores = scores_, weights = weights_;
  const size_t terms = plan_.terms.size();
  // After the summed weights come the tiles of each block; the members point to those of the block at hand.
  Real* const summed = memory + kTileMargin;
  const auto use_block = [&](size_t number) {
    Real* next = summed + static_cast<int64_t>(number * (scores_.size() + terms) + 1) * kTileSize;
    for (Real*& tile : scores_) tile = next, next += kTileSize;
    for (Real*& tile : weights_) tile = next, next += kTileSize;
  };
  const int64_t places =
      context_.inputs.shape.batch * context_.inputs.shape.heads * context_.inputs.shape.queries;
  std::vector<SubTile> subs(blocks.size());
  std::vector<Range> allowed;
  for (size_t number = 0; number < blocks.size(); ++number)
    allowed.push_back(trim(blocks[number], block_states[number], clip_band));
  std::vector<Real> divisors(terms * kSubRows);
  std::vector<Real> shifts(blocks.size() * terms * kSubRows);  // [block][term][row]: the maximum at that time
  const auto shifts_of = [&](size_t number, size_t term) {
    return &shifts[(number * terms + term) * static_cast<size_t>(kSubRows)];
  };
  for (int64_t first = 0; first < static_cast<int64_t>(rows_.size()); first += kSubRows) {
    // Every strip of every block that is not empty: strip, its rows and columns.
    const auto each_strip = [&](size_t number, const auto& work) {
      const SubTile& sub = subs[number];
      for (int64_t strip = 0; strip < sub.strips; ++strip) {
        const Range columns = sub.columns(strip, code_.panel);
        const int64_t row = strip * code_.rows;
        if (!columns.empty()) work(sub, strip, row, std::min(code_.rows, sub.rows - row), columns);
      }
    };
    for (size_t number = 0; number < blocks.size(); ++number) {
      subs[number] = sub_tile(blocks[number], block_states[number], clip_band, allowed[number], first);
      if (!subs[number].any) continue;
      use_block(number);
      for (const Turn& turn : turns_) {
        score(blocks[number], subs[number], turn.products);
        each_strip(number, [&](const SubTile& sub, int64_t strip, int64_t row, int64_t rows, Range columns) {
          argue_strip(blocks[number], sub.states[static_cast<size_t>(strip)], turn.terms, first + row, row,
                      rows, columns);
          for (auto term = static_cast<size_t>(turn.terms.begin); term < static_cast<size_t>(turn.terms.end);
               ++term) {
            const int64_t at = static_cast<int64_t>(term) * kTileRows + first + row;
            code_.softmax({tile_of(term) + row * kTileStride, rows, columns.begin, columns.end, maxima_ + at,
                           sums_ + at, factors_ + row, context_.headroom});
            std::copy_n(maxima_ + at, rows, shifts_of(number, term) + row);
          }
        });
      }
    }
    const int64_t count = std::min(kSubRows, static_cast<int64_t>(rows_.size()) - first);
    for (size_t term = 0; term < terms; ++term)
      for (int64_t row = 0; row < count; ++row) {
        const TileRow& at = rows_[static_cast<size_t>(first + row)];
        Real* log_sum =
            static_cast<Real*>(outputs.log_sums) + static_cast<int64_t>(term) * places + place_of(at);
        divisors[term * kSubRows + static_cast<size_t>(row)] =
            divide(term, first + row, log_sum) *
            forward_slots_[static_cast<size_t>(at.head)]->scalar(plan_.terms[term].coefficient, at.query);
      }
    for (size_t number = 0; number < blocks.size(); ++number) {
      if (!subs[number].any) continue;
      use_block(number);
      each_strip(number, [&](const SubTile&, int64_t, int64_t row, int64_t rows, Range columns) {
        std::array<Real, kMostRows> factors, others;
        const auto find_factors = [&](size_t term, std::array<Real, kMostRows>& result) {
          for (int64_t r = 0; r < rows; ++r) {
            const Real shift = shifts_of(number, term)[row + r],
                       maximum = maxima_[static_cast<int64_t>(term) * kTileRows + first + row + r];
            const Real missing = shift == maximum                ? Real{1}
                                 : shift == kMinusInfinity<Real> ? Real{0}
                                                                 : std::exp(shift - maximum);
            result[static_cast<size_t>(r)] =
                missing * divisors[term * kSubRows + static_cast<size_t>(row + r)];
          }
        };
        // Into a tile of their own, which stays in the nearest cache for the product.
        find_factors(0, factors);
        const Real* sum = tile_of(0) + row * kTileStride;
        for (size_t term = 1; term < terms; ++term) {
          find_factors(term, others);
          code_.combine(sum, tile_of(term) + row * kTileStride, rows, columns.begin, columns.end,
                        factors.data(), others.data(), summed + row * kTileStride);
          sum = summed + row * kTileStride;
          factors.fill(Real{1});
        }
      });
      sum_values(blocks[number], subs[number], clip_band, summed, accumulator(0));
    }
  }
  store_rows(outputs);
  scores_ = scores;
  weights_ = weights;
}

template bool ForwardTile<float>::merges(const KernelPlan&, const ForwardOutputs&);
template bool ForwardTile<double>::merges(const KernelPlan&, const ForwardOutputs&);
template int64_t ForwardTile<float>::merged_size(int64_t) const;
template int64_t ForwardTile<double>::merged_size(int64_t) const;
template void ForwardTile<float>::run_merged(const std::vector<KeyBlock<float>>&,
                                             const std::vector<TileState>&, bool, float*,
                                             const ForwardOutputs&);
template void ForwardTile<double>::run_merged(const std::vector<KeyBlock<double>>&,
                                              const std::vector<TileState>&, bool, double*,
                                              const ForwardOutputs&);

}  // namespace saccade::kernels
