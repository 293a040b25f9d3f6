// Attention over raw memory: forward and backward of any formula, in memory that grows with the length and
// not with its square. No result depends on the number of threads.
#pragma once

#include "saccade/kernels/kernel_plan.h"
#include "saccade/kernels/primitives.h"

namespace saccade::kernels {

struct ForwardOptions {
  // Leave out tiles that the mask empties. Off, they are computed and masked: the result is the same to the
  // last bit, which a check can verify.
  bool skip = true;
  // Leave out tiles whose whole weight is provably below this share of their rows; 0: none.
  double epsilon = 0;
};

struct ForwardOutputs {
  Array output;              // [batch, head, query, value width]
  void* log_sums = nullptr;  // [norm, batch, head, query], contiguous, compute type
  void* partials = nullptr;  // [term, batch, head, query, value width] of each term before its coefficient
};

// What a forward pass left out.
struct ForwardReport {
  int64_t tiles = 0;       // of 96 x 256 pairs, or parts of them
  int64_t empty = 0;       // left out because the mask allows nothing in them
  int64_t negligible = 0;  // left out by epsilon
};

template <class Real>
ForwardReport forward(const KernelPlan& plan, const Inputs& inputs, const ForwardOptions& options,
                      const ForwardOutputs& outputs);

struct BackwardInputs {
  Array output, output_gradient;
  const void* log_sums = nullptr;
  const void* log_sum_gradients = nullptr;  // null: the log-sums are not used
  const void* partials = nullptr;
};

// Where gradients go; an empty array or a null pointer is not wanted. Arrays are overwritten, tables are
// added to: [batch or 1, head or 1, elements] by the strides of the input table, in double.
struct Gradients {
  std::vector<Array> queries, keys;
  Array value;
  struct TableGradient {
    double* data = nullptr;
    int64_t batch_stride = 0, head_stride = 0;
    std::array<int64_t, 3> stride = {0, 0, 0};
  };
  std::vector<TableGradient> tables;
};

template <class Real>
void backward(const KernelPlan& plan, const Inputs& inputs, const ForwardOptions& options,
              const BackwardInputs& saved, const Gradients& gradients);

}  // namespace saccade::kernels
