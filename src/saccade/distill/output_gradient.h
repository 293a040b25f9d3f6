// The gradient of the divergence from a teacher with respect to hidden states, without ever holding all
// logits: what training by output starts its backward pass from.
#pragma once

#include "saccade/models/transformer.h"

namespace saccade {

// Of the mean over tokens; `teacher` and `hidden` are [tokens, width]. A head that learns gets no gradient.
at::Tensor divergence_gradient(Transformer model, const at::Tensor& teacher, const at::Tensor& hidden);

}  // namespace saccade
