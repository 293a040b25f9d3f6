// The last step of a backward pass: from the sums along rows, columns and diagonals to the tables that the
// formula reads. The chain rule runs once per element of a sum.
#pragma once

#include "saccade/kernels/kernels.h"
#include "saccade/kernels/slot_table.h"

namespace saccade::kernels {

// Adds adjoint[k] * derivative[k] to the element of each linked table that element k reads, for k < length.
// With `whole`, the adjoints belong to rows but the value may be one of the head.
template <class Real>
void add_links(const std::vector<Link>& links, const Slots<Real>& chain, const std::vector<double>& adjoints,
               const Inputs& inputs, const Gradients& gradients, int64_t batch, int64_t head);

// Whether a gradient of any of the links' tables is wanted.
bool wants(const std::vector<Link>& links, const Gradients& gradients);

}  // namespace saccade::kernels
