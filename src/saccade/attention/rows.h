// A part of a call: some of its queries, with the same keys. Rows of attention do not depend on each other,
// so whoever wants to see weights need not hold the whole n x n map.
#pragma once

#include "saccade/attention/reference.h"

namespace saccade {

// The rows from `first` on. With lists, both ends must lie where a list's tile begins or the rows end.
PairInputs rows_of(const Plan& plan, const PairInputs& inputs, int64_t first, int64_t count);

}  // namespace saccade
