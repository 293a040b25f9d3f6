// Floats to the types that are written: the other direction of dequantise.h.
#pragma once

#include <cstddef>
#include <span>

#include "saccade/weights/tensor_view.h"

namespace saccade {

/// Whether from_floats knows the type: F32, F16, BF16 and Q8_0.
bool can_quantise(ElementType type);

/// Converts whole blocks of floats; `bytes` has exactly the room they take. Each value becomes the nearest
/// that the type has, and Q8_0 is to the bit what ggml makes of it. An Error when the type is none of the
/// above.
void from_floats(ElementType type, std::span<const float> floats, std::span<std::byte> bytes);

}  // namespace saccade
