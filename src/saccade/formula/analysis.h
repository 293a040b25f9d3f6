// What follows from a checked plan: its terms, its derivatives, and whether it can decode with a KV cache.
#pragma once

#include "saccade/formula/plan.h"

namespace saccade {

// Fills norms, terms, derivatives, decoding and the warnings about subscripts.
void analyse(Plan& plan);

}  // namespace saccade
