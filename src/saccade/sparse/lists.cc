// Starts count over all batches and heads: each head's begin where the last one's end.
#include "saccade/sparse/lists.h"

#include <algorithm>

namespace saccade {

using at::Tensor;

Tensor int_tensor(const std::vector<int32_t>& numbers, at::IntArrayRef shape) {
  Tensor result = torch::empty(shape, torch::kInt);
  std::ranges::copy(numbers, result.data_ptr<int32_t>());
  return result;
}

KeyLists lists_of(const kernels::SelectionTask& task, const kernels::SelectedKeys& selected) {
  return {.query_tile = task.query_tile,
          .key_tile = task.key_tile,
          .starts = int_tensor(selected.starts, {task.shape.batch, task.shape.heads, task.tiles() + 1}),
          .keys = int_tensor(selected.keys, {std::ssize(selected.keys)})};
}

KeyLists lists_of(const Tensor& keep, int64_t query_tile) {
  const int64_t batch = keep.size(0), heads = keep.size(1), tiles = keep.size(2);
  const Tensor counts = keep.sum(-1).flatten().cumsum(0);
  Tensor starts = torch::zeros({batch, heads, tiles + 1}, torch::kInt);
  const Tensor ends = counts.view({batch, heads, tiles}).to(torch::kInt);
  starts.narrow(2, 1, tiles).copy_(ends);
  const Tensor before = torch::cat(
      {torch::zeros({1}, torch::kInt), ends.select(2, tiles - 1).flatten().narrow(0, 0, batch * heads - 1)});
  starts.select(2, 0).copy_(before.view({batch, heads}));
  return {.query_tile = query_tile,
          .key_tile = 1,
          .starts = starts,
          .keys = keep.nonzero().select(1, 3).to(torch::kInt).contiguous()};
}

}  // namespace saccade
