// The scalar operations of the formula language on tensors, with broadcasting, differentiable by the
// language's own derivative rules. In the chain rule a zero always wins: where no gradient arrives none
// leaves, even if the derivative there is infinite.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "saccade/formula/operations.h"

namespace saccade {

// Booleans are Boolean tensors, numbers are of one floating dtype.
at::Tensor apply_pointwise(Op op, const std::vector<at::Tensor>& args);

}  // namespace saccade
