// Key lists as a mask, for tiles of neighbouring keys: which keys of a tile each of its queries may look at.
// Where lists are long, hiding what is not listed costs less than gathering what is.
#pragma once

#include <algorithm>
#include <vector>

#include "saccade/formula/bounds.h"
#include "saccade/kernels/arrays.h"
#include "saccade/kernels/primitives.h"

namespace saccade::kernels {

template <class Real>
class ListMask {
 public:
  explicit ListMask(const Lists& lists) : lists_(lists) {}

  // Looks up the lists of these queries among these keys, at most kTileKeys of them. Empty and full are said
  // of the lists alone.
  TileState find(int64_t batch, int64_t head, Range queries, Range keys) {
    first_list_ = queries.begin / lists_.query_tile;
    const int64_t count = (queries.end - 1) / lists_.query_tile - first_list_ + 1;
    allowed_.assign(static_cast<size_t>(count * kTileStride), Real{0});
    const int32_t* starts = lists_.starts + batch * lists_.batch_stride + head * lists_.head_stride;
    int64_t allowed = 0;
    for (int64_t list = 0; list < count; ++list) {
      const int32_t* end = lists_.keys + starts[first_list_ + list + 1];
      const auto first = static_cast<int32_t>(keys.begin / lists_.key_tile);
      Real* row = allowed_.data() + list * kTileStride;
      for (const int32_t* entry = std::lower_bound(lists_.keys + starts[first_list_ + list], end, first);
           entry < end && *entry * lists_.key_tile < keys.end; ++entry) {
        const int64_t from = std::max(*entry * lists_.key_tile, keys.begin) - keys.begin,
                      to = std::min((*entry + 1) * lists_.key_tile, keys.end) - keys.begin;
        std::fill(row + from, row + to, Real{1});
        allowed += to - from;
      }
    }
    if (allowed == 0) return TileState::empty;
    return allowed == count * keys.size() ? TileState::full : TileState::mixed;
  }

  // Per key of the tile 1 or 0, for one of the queries.
  const Real* row(int64_t query) const {
    return allowed_.data() + (query / lists_.query_tile - first_list_) * kTileStride;
  }

 private:
  const Lists& lists_;
  int64_t first_list_ = 0;
  std::vector<Real> allowed_;
};

}  // namespace saccade::kernels
