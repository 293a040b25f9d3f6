// The fused path: a call's pairs on the kernels, in memory that grows with the length and not with its
// square. Registered as torch operators, so that autograd, Python and tracing know it: saccade::attention and
// saccade::attention_backward.
#pragma once

#include "saccade/attention/operators.h"
#include "saccade/attention/reference.h"
#include "saccade/formula/formula.h"

namespace saccade {

// Why this call cannot take the fused path; empty when it can.
std::string fused_obstacle(const PairInputs& inputs, bool need_weights);

// The call as the operator takes it, with `text` for the formula, which must mean the same.
OperatorInputs fused_operands(const Formula& formula, std::string text, const PairInputs& inputs);

AttentionResult fused_attention(const Formula& formula, const PairInputs& inputs);

}  // namespace saccade
