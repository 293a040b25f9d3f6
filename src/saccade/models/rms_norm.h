// The RMS norm in one pass over its rows, and its gradient in another. The sum of squares of a row is all
// that has to be remembered.
#pragma once

#include <ATen/core/Tensor.h>

namespace saccade {

// x / root of (mean of x squared + epsilon), times `weight`, for rows x [..., width]. Single and double
// precision on the CPU take the short way; everything else the plain one.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

// Where a branch leaves a residual stream: what goes on, and its norm.
struct Branch {
  at::Tensor stream, normed;
};

// The stream is x + change, or x when `change` is undefined; its norm is taken in the same pass, and so are
// their gradients, which meet there. Without gradients the sum takes the memory of `change`.
Branch rms_norm_branch(const at::Tensor& x, at::Tensor change, const at::Tensor& weight, double epsilon);

// The sum, in the memory of `change` where no gradient needs it: that is one pass and one allocation less.
at::Tensor add_to_stream(const at::Tensor& x, at::Tensor change);

}  // namespace saccade
