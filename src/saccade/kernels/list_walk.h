// The keys of a list, a block of single keys at a time.
#pragma once

#include <algorithm>

#include "saccade/kernels/arrays.h"

namespace saccade::kernels {

// Calls use(count) for every `most` keys of the list of a query tile, and for those that are left; their
// numbers are then in `picked`. Key tiles are picked key by key. Places past the last key, up to a multiple
// of `panel`, name one that exists, since programs run over whole panels.
template <class Use>
void for_picked(const Lists& lists, int64_t batch, int64_t head, int64_t query_tile, int64_t keys,
                int64_t most, int64_t panel, int32_t* picked, const Use& use) {
  const int32_t* starts = lists.starts + batch * lists.batch_stride + head * lists.head_stride;
  int64_t count = 0;
  const auto flush = [&] {
    if (count == 0) return;
    std::fill(picked + count, picked + (count + panel - 1) / panel * panel, picked[count - 1]);
    use(count);
    count = 0;
  };
  const int64_t first = starts[query_tile], last = starts[query_tile + 1];
  if (lists.key_tile == 1) {
    for (int64_t entry = first; entry < last; entry += most) {
      count = std::min(most, last - entry);
      std::copy_n(lists.keys + entry, count, picked);
      flush();
    }
    return;
  }
  for (int64_t entry = first; entry < last; ++entry) {
    const int64_t begin = lists.keys[entry] * lists.key_tile, end = std::min(begin + lists.key_tile, keys);
    for (int64_t key = begin; key < end; ++key) {
      picked[count++] = static_cast<int32_t>(key);
      if (count == most) flush();
    }
  }
  flush();
}

}  // namespace saccade::kernels
