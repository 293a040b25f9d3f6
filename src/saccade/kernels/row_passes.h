// What a model's layers do to rows beside products and attention, each in one pass: gates, RMS norms and
// rotations, and what goes back through them. Rows are independent, and the caller shares them among threads.
#pragma once

#include <cstdint>

namespace saccade::kernels {

enum class Gate { silu, gelu_tanh, relu };

// For the best instruction set of this machine.
template <class Real>
struct RowPasses {
  // Of rows `wide` [rows, 2 * inner] the first halves are the gates: out = activation(gate) * other half.
  void (*open_gates)(Gate gate, const Real* wide, int64_t rows, int64_t inner, Real* out);
  // The gradient of `wide`, both halves as they stand there.
  void (*open_gates_backward)(Gate gate, const Real* wide, const Real* out_gradient, int64_t rows,
                              int64_t inner, Real* wide_gradient);

  // sum = x + change and out = sum * scale * gains, where scale = 1 / root of (mean of squares + epsilon),
  // one per row. Without a change, which is then null, `sum` is not written. `scales` may be null.
  void (*norm)(const Real* x, const Real* change, const Real* gains, double epsilon, int64_t rows,
               int64_t width, Real* sum, Real* out, Real* scales);
  // The gradient of the rows that were normed, to which `beside` is added unless it is null; that of the
  // gains is added to `gain_sums`.
  void (*norm_backward)(const Real* x, const Real* gains, const Real* scales, const Real* out_gradient,
                        const Real* beside, int64_t rows, int64_t width, Real* x_gradient, Real* gain_sums);

  // Turns pair k of each head, numbers k and k + pairs, by its angle, or back when `direction` is -1. Heads
  // stand `stride` apart in x and side by side in `out`; what is wider than the pairs is copied.
  void (*turn_heads)(const Real* x, int64_t stride, int64_t heads, int64_t width, const Real* cosines,
                     const Real* sines, int64_t pairs, Real direction, Real* out);
};

template <class Real>
const RowPasses<Real>& row_passes();

}  // namespace saccade::kernels
