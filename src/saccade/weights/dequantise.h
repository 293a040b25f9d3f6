// The elements of a tensor as floats, whatever the file stores: floats of all widths, and ggml's quantised
// blocks, to the bit as ggml defines them.
#pragma once

#include <cstdint>

#include "saccade/weights/tensor_view.h"

namespace saccade {

/// Writes all elements in row-major order to `out`, which has room for tensor.elements(). F64 is rounded.
/// Integers are an Error that names the tensor: they are no weights.
void to_floats(const TensorView& tensor, float* out);

/// Writes the elements [first, first + count) to out[0 ...]. Both must be multiples of the type's block,
/// which whole rows always are: a caller may split a tensor by rows between threads.
void to_floats(const TensorView& tensor, std::int64_t first, std::int64_t count, float* out);

}  // namespace saccade
