#include "saccade/models/gates.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "saccade/base/error.h"
#include "saccade/kernels/row_passes.h"
#include "saccade/models/layers.h"

namespace saccade {

using at::Tensor;
using kernels::Gate;
using kernels::row_passes;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

std::optional<Gate> gate_of(Activation activation) {
  switch (activation) {
    case Activation::silu:
      return Gate::silu;
    case Activation::gelu_tanh:
      return Gate::gelu_tanh;
    case Activation::relu:
      return Gate::relu;
    case Activation::gelu:
      break;
  }
  return std::nullopt;
}

int64_t grain(int64_t inner) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, inner)); }

Tensor opened(Gate gate, const Tensor& wide) {
  const int64_t inner = wide.size(-1) / 2;
  std::vector<int64_t> shape = wide.sizes().vec();
  shape.back() = inner;
  Tensor out = torch::empty(shape, wide.options());
  AT_DISPATCH_FLOATING_TYPES(wide.scalar_type(), "open_gates", [&] {
    const scalar_t* from = wide.const_data_ptr<scalar_t>();
    scalar_t* to = out.data_ptr<scalar_t>();
    at::parallel_for(0, wide.numel() / (2 * inner), grain(inner), [&](int64_t begin, int64_t end) {
      row_passes<scalar_t>().open_gates(gate, from + begin * 2 * inner, end - begin, inner,
                                        to + begin * inner);
    });
  });
  return out;
}

struct OpenGates : torch::autograd::Function<OpenGates> {
  static Tensor forward(AutogradContext* context, const Tensor& wide, int64_t gate) {
    context->save_for_backward({wide});
    context->saved_data["gate"] = gate;
    return opened(static_cast<Gate>(gate), wide);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require(!torch::GradMode::is_enabled(), "model: a gated MLP can be differentiated only once");
    const Tensor wide = context->get_saved_variables()[0], gradient = gradients[0].contiguous();
    const auto gate = static_cast<Gate>(context->saved_data["gate"].toInt());
    const int64_t inner = gradient.size(-1);
    Tensor result = torch::empty_like(wide);
    AT_DISPATCH_FLOATING_TYPES(wide.scalar_type(), "open_gates", [&] {
      const scalar_t* from = wide.const_data_ptr<scalar_t>();
      const scalar_t* back = gradient.const_data_ptr<scalar_t>();
      scalar_t* to = result.data_ptr<scalar_t>();
      at::parallel_for(0, gradient.numel() / inner, grain(inner), [&](int64_t begin, int64_t end) {
        row_passes<scalar_t>().open_gates_backward(gate, from + begin * 2 * inner, back + begin * inner,
                                                   end - begin, inner, to + begin * 2 * inner);
      });
    });
    return {result, Tensor()};
  }
};

}  // namespace

Tensor open_gates(Activation activation, const Tensor& wide) {
  const at::ScalarType type = wide.scalar_type();
  const std::optional<Gate> gate = gate_of(activation);
  const bool learns = torch::GradMode::is_enabled() && wide.requires_grad();
  if (!gate || (type != torch::kFloat && type != torch::kDouble) || !wide.device().is_cpu() ||
      !wide.is_contiguous() || wide.numel() == 0) {
    const std::vector<Tensor> halves = wide.split(wide.size(-1) / 2, -1);
    const Tensor open = activate(activation, halves[0]);
    return learns ? open * halves[1] : open.mul_(halves[1]);
  }
  return learns ? OpenGates::apply(wide, static_cast<int64_t>(*gate)) : opened(*gate, wide);
}

}  // namespace saccade
