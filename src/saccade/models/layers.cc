// Few rows go through a product that streams the weights (kernels/few_rows.h), others through one that packs
// them (kernels/matrix_product.h).
#include "saccade/models/layers.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>

#include "saccade/attention/steady_product.h"
#include "saccade/kernels/few_rows.h"
#include "saccade/models/gates.h"

namespace saccade {

using at::Tensor;

namespace {

bool wants_gradient(const Tensor& a, const Tensor& b) {
  return torch::GradMode::is_enabled() && (a.requires_grad() || b.requires_grad());
}

bool plain_float(const Tensor& tensor) {
  return tensor.scalar_type() == torch::kFloat && tensor.device().is_cpu() && tensor.is_contiguous();
}

}  // namespace

ProjectionImpl::ProjectionImpl(int64_t inputs, int64_t outputs, bool has_bias) {
  weight = register_parameter("weight", torch::empty({outputs, inputs}));
  if (has_bias) bias = register_parameter("bias", torch::empty({outputs}));
}

Tensor ProjectionImpl::forward(const Tensor& x) const { return project(x, weight, bias, compact.get()); }

Tensor project(const Tensor& x, const Tensor& weight, const Tensor& bias, const CompactWeight* compact) {
  const int64_t depth = weight.size(1), rows = x.numel() / std::max<int64_t>(depth, 1);
  if (rows < 1 || rows > kernels::kFewRows || wants_gradient(x, weight) || !plain_float(x) ||
      !plain_float(weight) || (bias.defined() && !plain_float(bias)))
    return steady_linear(x, weight, bias);
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  Tensor result = torch::empty(shape, x.options());
  const float* offset = bias.defined() ? bias.data_ptr<float>() : nullptr;
  if (compact && compact->stands_for(weight))
    compact->multiply(x.data_ptr<float>(), rows, offset, result.data_ptr<float>());
  else
    kernels::multiply_few_rows(x.data_ptr<float>(), rows, depth, weight.data_ptr<float>(), weight.size(0),
                               offset, result.data_ptr<float>());
  return result;
}

NormImpl::NormImpl(NormKind kind, int64_t width, double epsilon) : kind_(kind), epsilon_(epsilon) {
  weight = register_parameter("weight", torch::ones({width}));
  if (kind == NormKind::layer) bias = register_parameter("bias", torch::zeros({width}));
}

Tensor NormImpl::forward(const Tensor& x) const {
  if (kind_ == NormKind::layer) return at::layer_norm(x, {x.size(-1)}, weight, bias, epsilon_);
  return rms_norm(x, weight, epsilon_);
}

Branch NormImpl::branch(const Tensor& x, Tensor change) const {
  if (kind_ == NormKind::rms) return rms_norm_branch(x, std::move(change), weight, epsilon_);
  const Tensor stream = change.defined() ? add_to_stream(x, std::move(change)) : x;
  return {stream, forward(stream)};
}

Tensor activate(Activation activation, const Tensor& x) {
  switch (activation) {
    case Activation::gelu:
      return at::gelu(x);
    case Activation::gelu_tanh:
      return at::gelu(x, "tanh");
    case Activation::silu:
      return at::silu(x);
    case Activation::relu:
      return at::relu(x);
  }
  return x;
}

MlpImpl::MlpImpl(const Architecture& architecture)
    : activation_(architecture.activation), gated_(architecture.gated) {
  const int64_t inner = architecture.inner;
  up = register_module("up", Projection(architecture.width, inner * (gated_ ? 2 : 1), architecture.mlp_bias));
  down = register_module("down", Projection(inner, architecture.width, architecture.mlp_bias));
}

Tensor MlpImpl::forward(const Tensor& x) {
  const Tensor wide = up->forward(x);
  return down->forward(gated_ ? open_gates(activation_, wide) : activate(activation_, wide));
}

}  // namespace saccade
