// Less memory for more work: a piece of a model forgets what it computed, and computes it again when the
// backward pass comes to it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace saccade {

// piece(x), which must be the same whenever it is called. Gradients go to x and straight into the .grad of
// the parameters that the piece uses, so this is for backward(), not for grad() of chosen tensors; x must
// need a gradient.
at::Tensor recomputed(std::function<at::Tensor(const at::Tensor&)> piece, const at::Tensor& x);

}  // namespace saccade
