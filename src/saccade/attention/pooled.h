// Tensors for what a call computes on its way and nobody keeps: their memory comes from the kernels' pool.
// What malloc frees at the end of its heap goes back to the system, and fetching a few megabytes of fresh
// pages in every call takes longer than what is computed in them.
#pragma once

#include <ATen/core/Tensor.h>

namespace saccade {

// Not filled; small ones are torch's own. Like any tensor it may live on, but it cannot be resized.
at::Tensor pooled_empty(at::IntArrayRef sizes, const at::TensorOptions& options);

// max(x, 0)
at::Tensor pooled_relu(const at::Tensor& x);

}  // namespace saccade
