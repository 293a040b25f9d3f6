// The loss of a language model without its logits: they are made for some tokens at a time, and their
// gradient is taken at once, so that a large vocabulary costs no memory beyond the gradient of its matrix.
#pragma once

#include "saccade/models/transformer.h"

namespace saccade {

constexpr int64_t kNoTarget = -1;

// The sum, over the tokens that have a target, of minus the natural logarithm of its probability.
// hidden [batch, tokens, width], targets [batch, tokens]. `smoothing` gives that share of each target to all
// tokens evenly. Differentiable with respect to hidden states and the model's output matrix.
at::Tensor token_loss(const Transformer& model, const at::Tensor& hidden, const at::Tensor& targets,
                      double smoothing = 0);

}  // namespace saccade
