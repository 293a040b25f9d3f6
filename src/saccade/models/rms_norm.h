// The RMS norm in one pass over its rows, and its gradient in another. The sum of squares of a row is all
// that has to be remembered.
#pragma once

#include <ATen/core/Tensor.h>

namespace saccade {

// x / root of (mean of x squared + epsilon), times `weight`, for rows x [..., width]. Single and double
// precision on the CPU take the short way; everything else the plain one.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

}  // namespace saccade
