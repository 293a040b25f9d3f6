// Which keys each tile of queries looks at: what a selector of sparse attention produces.
#pragma once

#include <ATen/core/Tensor.h>

namespace saccade {

struct KeyLists {
  int64_t query_tile = 64;  // queries that share a list
  int64_t key_tile = 1;     // keys that are listed together
  at::Tensor starts;        // int32 [batch or 1, heads or 1, query tiles + 1]: places in `keys`
  at::Tensor keys;          // int32 [entries]: key tile numbers, ascending within each list
};

}  // namespace saccade
