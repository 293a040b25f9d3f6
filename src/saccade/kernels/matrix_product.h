// Products of float matrices of any size and layout, on all threads. A number of the result is summed by one
// thread in one order, so that no bit depends on how many there are.
#pragma once

#include <cstdint>

namespace saccade::kernels {

// Element [r, c] is data[r * row_stride + c * column_stride]; one of the strides must be 1.
struct Matrix {
  const float* data = nullptr;
  int64_t rows = 0, columns = 0;
  int64_t row_stride = 0, column_stride = 1;
  Matrix transposed() const { return {data, columns, rows, column_stride, row_stride}; }
};

// out = a . b, plus `bias` for each column unless it is null, or out += a . b. The rows of `out` are `stride`
// apart.
void multiply(const Matrix& a, const Matrix& b, const float* bias, bool add, float* out, int64_t stride);

}  // namespace saccade::kernels
