// Key lists from what selections come in: the kernels' vectors, or a map of what is kept.
#pragma once

#include "saccade/attention/key_lists.h"
#include "saccade/kernels/key_selection.h"

namespace saccade {

KeyLists lists_of(const kernels::SelectionTask& task, const kernels::SelectedKeys& selected);

// `keep` [batch, heads, tiles, keys] says for each tile of queries which keys it keeps.
KeyLists lists_of(const at::Tensor& keep, int64_t query_tile);

// int32 numbers as a tensor of their own.
at::Tensor int_tensor(const std::vector<int32_t>& numbers, at::IntArrayRef shape);

}  // namespace saccade
