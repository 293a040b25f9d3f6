// A block inside a parallel loop is computed by one thread in any case; one that is alone is computed while
// LibTorch is told that there is one.
#include "saccade/attention/steady_product.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include <algorithm>

namespace saccade {

using at::Tensor;

namespace {

constexpr int64_t kRows = 64;
constexpr int64_t kLeastWork = int64_t{1} << 18;  // multiplications for which a second thread is called

class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) {
    if (before_ > 1) at::set_num_threads(1);
  }
  ~OneThread() {
    if (before_ > 1) at::set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// Whether the numbers themselves can be read: not while somebody traces, batches or pretends.
bool is_plain(const Tensor& tensor) {
  const c10::DispatchKeySet keys = tensor.key_set();
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && !keys.has_any(c10::python_ks) &&
         !keys.has_any(c10::functorch_batched_ks) && !keys.has(c10::DispatchKey::FuncTorchGradWrapper) &&
         !keys.has(c10::DispatchKey::Functionalize) && !keys.has(c10::DispatchKey::Negative) &&
         !keys.has(c10::DispatchKey::Conjugate);
}

Tensor product_of_blocks(const Tensor& a, const Tensor& b) {
  const int64_t groups = a.size(0), rows = a.size(1), depth = a.size(2), columns = b.size(2);
  Tensor result = at::empty({groups, rows, columns}, a.options());
  const int64_t blocks = (rows + kRows - 1) / kRows;
  const auto compute = [&](int64_t begin, int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView
        below;  // other threads do not know what autograd is doing here
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t group = unit / blocks, first = unit % blocks * kRows,
                    count = std::min(kRows, rows - first);
      Tensor part = result.select(0, group).narrow(0, first, count);
      at::mm_out(part, a.select(0, group).narrow(0, first, count), b.select(0, group));
    }
  };
  const int64_t units = groups * blocks;
  if (units < 2 || groups * rows * depth * columns < kLeastWork || at::in_parallel_region()) {
    const OneThread one;
    compute(0, units);
  } else {
    at::parallel_for(0, units, 1, compute);
  }
  return result;
}

class SteadyProduct : public torch::autograd::Function<SteadyProduct> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& a, const Tensor& b) {
    context->save_for_backward({a, b});
    return product_of_blocks(a.contiguous(), b.contiguous());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &a = saved[0], &b = saved[1];
    Tensor of_a, of_b;
    if (context->needs_input_grad(0)) of_a = steady_product(gradients[0], b.transpose(1, 2));
    if (context->needs_input_grad(1)) of_b = steady_product(a.transpose(1, 2), gradients[0]);
    return {of_a, of_b};
  }
};

}  // namespace

Tensor steady_product(const Tensor& a, const Tensor& b) {
  if (!is_plain(a) || !is_plain(b) || a.numel() == 0 || b.numel() == 0) return at::bmm(a, b);
  return SteadyProduct::apply(a, b);
}

}  // namespace saccade
