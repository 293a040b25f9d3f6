// The gated middle of an MLP in one pass, and its gradient in another: what goes in is all that has to be
// remembered.
#pragma once

#include <ATen/core/Tensor.h>

#include "saccade/models/architecture.h"

namespace saccade {

// activation(first half) * second half, for rows wide [..., 2 * inner]. Single and double precision on the
// CPU take the short way; everything else, and the exact GELU, the plain one.
at::Tensor open_gates(Activation activation, const at::Tensor& wide);

}  // namespace saccade
