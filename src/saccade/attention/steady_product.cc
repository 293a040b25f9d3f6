// A block inside a parallel loop is computed by one thread in any case; one that is alone is computed while
// LibTorch is told that there is one.
#include "saccade/attention/steady_product.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/linear.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include <algorithm>

#include "saccade/attention/pooled.h"
#include "saccade/kernels/matrix_product.h"

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

// A matrix as the kernel reads it; `tensor` holds a copy where neither its rows nor its columns are in one
// piece. The stride of a single row or column may be anything.
kernels::Matrix matrix_of(Tensor& tensor) {
  const auto strides = [&] {
    return std::pair(tensor.size(0) == 1 ? tensor.size(1) : tensor.stride(0),
                     tensor.size(1) == 1 ? int64_t{1} : tensor.stride(1));
  };
  if (strides().first != 1 && strides().second != 1) tensor = tensor.contiguous();
  return {tensor.const_data_ptr<float>(), tensor.size(0), tensor.size(1), strides().first, strides().second};
}

void multiply(Tensor a, Tensor b, const float* bias, bool add, Tensor& result) {
  const kernels::Matrix left = matrix_of(a), right = matrix_of(b);
  kernels::multiply(left, right, bias, add, result.data_ptr<float>(), result.stride(0));
}

Tensor float_product(const Tensor& a, const Tensor& b) {
  const int64_t groups = a.size(0);
  Tensor result = pooled_empty({groups, a.size(1), b.size(2)}, a.options());
  const auto compute = [&](int64_t begin, int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView below;
    for (int64_t group = begin; group < end; ++group) {
      Tensor part = result.select(0, group);
      multiply(a.select(0, group), b.select(0, group), nullptr, false, part);
    }
  };
  // Many groups: one thread each; few of them: all threads for one after the other.
  if (groups < 2 * at::get_num_threads() || at::in_parallel_region())
    compute(0, groups);
  else
    at::parallel_for(0, groups, 1, compute);
  return result;
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
    if (a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat) return float_product(a, b);
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

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  Tensor result = at::empty(shape, x.options());
  Tensor rows = result.view({-1, weight.size(0)});
  const Tensor offset = bias.defined() ? bias.contiguous() : bias;
  multiply(x.reshape({-1, weight.size(1)}), weight.t(),
           offset.defined() ? offset.const_data_ptr<float>() : nullptr, false, rows);
  return result;
}

class SteadyLinear : public torch::autograd::Function<SteadyLinear> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["biased"] = bias.has_value();
    return linear(x, weight, bias.value_or(Tensor()));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const Tensor rows = gradients[0].reshape({-1, weight.size(0)});
    Tensor of_x, of_weight, of_bias;
    if (context->needs_input_grad(0))
      of_x = steady_product(rows.unsqueeze(0), weight.unsqueeze(0)).view(x.sizes());
    if (context->needs_input_grad(1))
      of_weight =
          steady_product(rows.t().unsqueeze(0), x.reshape({-1, weight.size(1)}).unsqueeze(0)).squeeze(0);
    if (context->saved_data["biased"].toBool() && context->needs_input_grad(2)) of_bias = rows.sum(0);
    return {of_x, of_weight, of_bias};
  }
};

bool is_float(const Tensor& tensor) { return tensor.scalar_type() == at::kFloat && is_plain(tensor); }

// Whether products are to be computed in another precision than their factors have.
bool is_cast() { return at::autocast::is_autocast_enabled(at::kCPU); }

}  // namespace

bool is_plain(const Tensor& tensor) {
  const c10::DispatchKeySet keys = tensor.key_set();
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && !keys.has_any(c10::python_ks) &&
         !keys.has_any(c10::functorch_batched_ks) && !keys.has(c10::DispatchKey::FuncTorchGradWrapper) &&
         !keys.has(c10::DispatchKey::Functionalize) && !keys.has(c10::DispatchKey::Negative) &&
         !keys.has(c10::DispatchKey::Conjugate);
}

Tensor steady_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (is_cast() || !is_float(x) || !is_float(weight) || (bias.defined() && !is_float(bias)) ||
      x.numel() == 0 || x.size(-1) != weight.size(1))
    return at::linear(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
  const bool learns = torch::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad() ||
                                                        (bias.defined() && bias.requires_grad()));
  if (!learns) return linear(x, weight, bias);
  return SteadyLinear::apply(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
}

void steady_product_into(Tensor& result, const Tensor& a, const Tensor& b, bool add) {
  if (!is_cast() && is_float(a) && is_float(b) && is_float(result) && result.stride(1) == 1)
    multiply(a, b, nullptr, add, result);
  else if (add)
    result.add_(a.matmul(b));
  else
    result.copy_(a.matmul(b));
}

Tensor steady_product(const Tensor& a, const Tensor& b) {
  if (!is_plain(a) || !is_plain(b) || a.numel() == 0 || b.numel() == 0) return at::bmm(a, b);
  return SteadyProduct::apply(a, b);
}

}  // namespace saccade
