// How everything that distillation learns is moved: Adam, with steps relative to a size of each tensor's own,
// and a rate that rises for a few steps and then falls along a half cosine.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

namespace saccade {

class Adam {
 public:
  // Its steps are `size` times the rate.
  void add(const at::Tensor& tensor, double size = 1);
  // One gradient for each tensor, in the order of adding; tensors without one stay as they are.
  void step(std::span<const at::Tensor> gradients, double rate);

 private:
  struct Slot {
    at::Tensor tensor, first, second;
    double size;
  };
  std::vector<Slot> slots_;
  double count_ = 0;
};

// The rate of a step, of which there are `steps`; `rising` of them come up to it.
double rate_at(double rate, int64_t step, int64_t steps, int64_t rising);

}  // namespace saccade
