// A linear layer for few rows whose weights stay as a file of 4 or 8 bits holds them. Decoding takes as long
// as reading the weights takes, so reading a quarter or an eighth of the bytes makes it that much faster; the
// numbers are the same, since they are widened as they are used and all sums are in single precision.
#pragma once

#include <cstddef>
#include <cstdint>

namespace saccade::kernels {

// Blocks of 32 weights scale * integer + offset. Integers of 4 bits are 0 to 15, the first 16 in the lower
// halves of the bytes; those of 8 bits have a sign.
enum class CompactKind { four_bits, eight_bits };

inline constexpr int64_t kCompactBlock = 32;
constexpr int64_t compact_bytes(CompactKind kind) {
  return 2 * static_cast<int64_t>(sizeof(float)) + (kind == CompactKind::four_bits ? 16 : 32);
}

// out[r * out_stride + c] = bias[c] + sum over k of x[r][k] * weight[c][k], for at most kFewRows rows;
// `depth` is a multiple of the block.
void multiply_compact_rows(CompactKind kind, const float* x, int64_t rows, int64_t depth,
                           const std::byte* weight, int64_t columns, const float* bias, float* out,
                           int64_t out_stride);

}  // namespace saccade::kernels
