// Which keys stand in the columns of a tile, and how ranges of keys become ranges of columns.
#pragma once

#include <algorithm>

#include "saccade/kernels/primitives.h"

namespace saccade::kernels {

// Keys in the columns of a tile: neighbours, or picked ones in rising order.
struct Columns {
  int64_t first = 0, count = 0;
  const int32_t* picked = nullptr;  // the number of each key, where they are no neighbours

  // A range of keys that holds those of some columns; for neighbours no others.
  Range keys(int64_t begin, int64_t end) const {
    return picked ? Range{picked[begin], picked[end - 1] + 1} : Range{first + begin, first + end};
  }
  Range keys() const { return count > 0 ? keys(0, count) : Range{}; }
  // The columns of the keys in a range.
  Range of(Range range) const {
    const auto column = [&](int64_t key) {
      return picked ? std::lower_bound(picked, picked + count, key) - picked
                    : std::clamp<int64_t>(key - first, 0, count);
    };
    const int64_t begin = column(range.begin);
    return {begin, std::max<int64_t>(begin, column(range.end))};
  }
  // The panels that these columns are in.
  Range panels_of(Range range, int64_t panel) const {
    const Range columns = of(range);
    return {columns.begin / panel,
            columns.empty() ? columns.begin / panel : (columns.end + panel - 1) / panel};
  }
  // `fill` in those of the columns whose keys are not in the range.
  template <class Real>
  void fill_outside(Range range, Range columns, Real fill, Real* row) const {
    const Range inside = of(range);
    const int64_t begin = std::clamp(inside.begin, columns.begin, columns.end),
                  end = std::clamp(inside.end, begin, columns.end);
    std::fill(row + columns.begin, row + begin, fill);
    std::fill(row + end, row + columns.end, fill);
  }
};

}  // namespace saccade::kernels
