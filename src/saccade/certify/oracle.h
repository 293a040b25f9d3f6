// A second, independent evaluation of attention, in double and plain loops: the scalar evaluator gives mask,
// norm arguments and coefficients for each pair, and the sums are written out. It shares no tensor operation
// with the paths it judges.
#pragma once

#include "saccade/attention/reference.h"

namespace saccade {

// On the CPU; gradients are not recorded. Weights are always returned.
AttentionResult oracle_attention(const Plan& plan, const PairInputs& inputs);

}  // namespace saccade
