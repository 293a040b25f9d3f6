// The pieces of a block that are no attention: linear layers and norms, as modules whose names in a
// checkpoint are ours. In training they are plain torch operations; without gradients they take shorter ways.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "saccade/models/architecture.h"
#include "saccade/models/compact_weight.h"
#include "saccade/models/rms_norm.h"

namespace saccade {

class ProjectionImpl : public torch::nn::Module {
 public:
  ProjectionImpl(int64_t inputs, int64_t outputs, bool has_bias);
  at::Tensor forward(const at::Tensor& x) const;  // [..., inputs] to [..., outputs]

  at::Tensor weight, bias;  // [outputs, inputs], [outputs] or undefined
  // The same weights as small integers, when the file had them so.
  std::shared_ptr<const CompactWeight> compact;
};
TORCH_MODULE(Projection);

// x times a matrix that is stored by outputs, plus a bias if there is one. `compact` may be null.
at::Tensor project(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                   const CompactWeight* compact = nullptr);

class NormImpl : public torch::nn::Module {
 public:
  NormImpl(NormKind kind, int64_t width, double epsilon);
  at::Tensor forward(const at::Tensor& x) const;
  // x + change, or x when `change` is undefined, and the norm of that; `change` may be overwritten.
  Branch branch(const at::Tensor& x, at::Tensor change = {}) const;

  at::Tensor weight, bias;  // an RMS norm has no bias

 private:
  NormKind kind_;
  double epsilon_;
};
TORCH_MODULE(Norm);

class MlpImpl : public torch::nn::Module {
 public:
  explicit MlpImpl(const Architecture& architecture);
  at::Tensor forward(const at::Tensor& x);

  Projection up{nullptr},
      down{nullptr};  // of a gated MLP, `up` gives the gates and then what they let through

 private:
  Activation activation_;
  bool gated_;
};
TORCH_MODULE(Mlp);

at::Tensor activate(Activation activation, const at::Tensor& x);

}  // namespace saccade
