// Products with learned weights whose bits do not depend on the number of threads. LibTorch's own divide the
// work by that number, and on some machines the last digits show it. Single precision goes through our own
// kernel, which is also the faster one; for others the rows of a result are cut into blocks of a fixed size,
// each of which one thread computes alone.
#pragma once

#include <ATen/core/Tensor.h>

namespace saccade {

// a . b for [groups, m, k] and [groups, k, n], differentiable as often as one likes. Where there are no plain
// numbers in this machine's memory (other devices, tracing, vmap) it is LibTorch's product.
at::Tensor steady_product(const at::Tensor& a, const at::Tensor& b);

// x times a matrix that is stored by outputs, plus a bias unless it is undefined: [..., inputs] to [...,
// outputs].
at::Tensor steady_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Whether the numbers themselves can be read: not on other devices, nor while somebody traces, batches or
// pretends.
bool is_plain(const at::Tensor& tensor);

// result = a . b, or result += a . b, for matrices and without gradients.
void steady_product_into(at::Tensor& result, const at::Tensor& a, const at::Tensor& b, bool add);

}  // namespace saccade
