// Which pairs a formula looks at, whatever weight it then gives them. Evaluated as the reference does.
#pragma once

#include "saccade/attention/reference.h"

namespace saccade {

// The pairs that the formula's mask, the padding and the lists let through, [batch, heads, queries, keys] of
// booleans.
at::Tensor allowed_pairs(const Plan& plan, const PairInputs& inputs);

}  // namespace saccade
