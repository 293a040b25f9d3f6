// A linear layer for few rows, as in decoding: the time it takes is the time to read the weights once, so the
// weights are streamed, all threads at it, and nothing is packed.
#pragma once

#include <cstdint>

namespace saccade::kernels {

// At most so many rows; for more, a matrix product that packs its operands wins.
inline constexpr int64_t kFewRows = 4;

// out[r][c] = bias[c] + sum over k of x[r][k] * weight[c][k]. All contiguous; bias may be null.
void multiply_few_rows(const float* x, int64_t rows, int64_t depth, const float* weight, int64_t columns,
                       const float* bias, float* out);

}  // namespace saccade::kernels
