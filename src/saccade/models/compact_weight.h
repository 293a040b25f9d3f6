// A matrix of weights kept as small integers beside its numbers in single precision, for decoding: see
// kernels/compact_rows.h. It holds the same numbers, so it is used only as long as nobody has changed them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "saccade/kernels/compact_rows.h"
#include "saccade/weights/tensor_view.h"

namespace saccade {

class CompactWeight {
 public:
  // Whether rows of this type can be kept.
  static bool can_hold(ElementType type);

  // Appends the rows of a tensor. `interleaved_heads`: its rows are neighbouring pairs in so many heads, and
  // become two halves of each; 0: as they are.
  void append(const TensorView& view, int64_t interleaved_heads);
  // From now on it stands for this parameter, [rows, depth].
  void stand_for(const at::Tensor& parameter);
  // Whether the parameter is still what it was.
  bool stands_for(const at::Tensor& parameter) const;

  // x [rows, depth] of at most kernels::kFewRows rows, contiguous floats.
  void multiply(const float* x, int64_t rows, const float* bias, float* out) const;

 private:
  struct Part {
    kernels::CompactKind kind;
    int64_t rows;
    std::vector<std::byte> data;
  };
  std::vector<Part> parts_;
  int64_t depth_ = 0, rows_ = 0;
  const void* place_ = nullptr;
  int64_t version_ = -1;
};

}  // namespace saccade
