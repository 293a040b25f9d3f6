// Key lists as a mask: which keys of a tile each of its queries may look at. Where lists are long, hiding
// what is not listed costs less than gathering what is; and heads that read the same keys together have lists
// of their own.
#pragma once

#include <algorithm>
#include <vector>

#include "saccade/formula/bounds.h"
#include "saccade/kernels/arrays.h"
#include "saccade/kernels/columns.h"

namespace saccade::kernels {

template <class Real>
class ListMask {
 public:
  explicit ListMask(const Lists& lists) : lists_(lists) {}

  // Looks up the lists of some heads' queries among the keys of some columns, at most kTileKeys of them.
  // Empty and full are said of the lists alone.
  TileState find(int64_t batch, Range heads, Range queries, const Columns& columns) {
    first_list_ = queries.begin / lists_.query_tile;
    lists_of_head_ = (queries.end - 1) / lists_.query_tile - first_list_ + 1;
    const int64_t rows = heads.size() * lists_of_head_;
    allowed_.assign(static_cast<size_t>(rows * kTileStride), Real{0});
    int64_t allowed = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const int32_t* starts = lists_.starts + batch * lists_.batch_stride +
                              (heads.begin + row / lists_of_head_) * lists_.head_stride + first_list_ +
                              row % lists_of_head_;
      allowed += mark(starts[0], starts[1], columns, allowed_.data() + row * kTileStride);
    }
    if (allowed == 0) return TileState::empty;
    return allowed == rows * columns.count ? TileState::full : TileState::mixed;
  }

  // Per column 1 or 0, for one of the queries of the head with this number among those looked up.
  const Real* row(int64_t head, int64_t query) const {
    return allowed_.data() + (head * lists_of_head_ + query / lists_.query_tile - first_list_) * kTileStride;
  }

 private:
  // Puts 1 where the entries name a column's key; their number.
  int64_t mark(int64_t first, int64_t last, const Columns& columns, Real* row) const {
    const Range keys = columns.keys();
    const int32_t* end = lists_.keys + last;
    int64_t marked = 0, reached = 0;
    // Lists rise, as columns do: a search goes on where the one before it ended.
    const auto column = [&](int64_t key) {
      if (!columns.picked) return std::clamp<int64_t>(key - columns.first, 0, columns.count);
      while (reached < columns.count && columns.picked[reached] < key) ++reached;
      return reached;
    };
    for (const int32_t* entry = std::lower_bound(lists_.keys + first, end, keys.begin / lists_.key_tile);
         entry < end && *entry * lists_.key_tile < keys.end; ++entry) {
      const int64_t from = column(*entry * lists_.key_tile), to = column((*entry + 1) * lists_.key_tile);
      std::fill(row + from, row + to, Real{1});
      marked += to - from;
    }
    return marked;
  }

  const Lists& lists_;
  int64_t first_list_ = 0, lists_of_head_ = 1;
  std::vector<Real> allowed_;
};

}  // namespace saccade::kernels
