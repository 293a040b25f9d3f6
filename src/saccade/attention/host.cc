// Walks the host expression; every value is [batch, heads, tokens, width] or broadcasts to it.
#include "saccade/attention/host.h"

#include <cmath>

#include "saccade/attention/pooled.h"
#include "saccade/attention/shapes.h"
#include "saccade/attention/steady_product.h"
#include "saccade/base/error.h"

namespace saccade {
namespace {

std::string numbered(std::string_view word, int ordinal) {
  return ordinal == 0 ? std::string(word) : fmt::format("{}{}", word, ordinal);
}

// A module that only holds a weight and perhaps a bias, so that the names read like those of torch's own
// layers.
class WeightsImpl : public torch::nn::Module {
 public:
  WeightsImpl(std::vector<int64_t> shape, int64_t fan_in, int64_t biases) {
    const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
    register_parameter("weight", torch::empty(shape).uniform_(-bound, bound));
    if (biases > 0) register_parameter("bias", torch::zeros({biases}));
  }
  // Takes the tensors as they are: they may be results of other tensors, which a parameter may not.
  WeightsImpl(const torch::Tensor& weight, const torch::Tensor& bias) {
    parameters_.insert("weight", weight);
    if (bias.defined()) parameters_.insert("bias", bias);
  }
};

torch::Tensor learned_tensor(const Learned& learned, const std::string& name, at::IntArrayRef shape) {
  const auto found = learned.find(name);
  require(found != learned.end() && found->second.defined(),
          "attention: the learned weights '{}' of shape {} are not given", name, fmt::join(shape, " x "));
  require(found->second.sizes() == shape, "attention: '{}' has shape {}; expected [{}]", name,
          shape_text(found->second), fmt::join(shape, ", "));
  return found->second;
}

}  // namespace

HostExpressionImpl::HostExpressionImpl(std::string name, HostPtr host, HostShape shape,
                                       const Learned* learned)
    : name_(std::move(name)), host_(std::move(host)), shape_(shape) {
  create_weights(*host_, learned);
}

void HostExpressionImpl::create_weights(const HostNode& node, const Learned* learned) {
  for (const HostPtr& argument : node.args) create_weights(*argument, learned);
  const auto create = [&](std::string_view word, const std::vector<int64_t>& shape, int64_t fan_in,
                          int64_t biases) {
    const std::string name = numbered(word, node.ordinal), path = name_ + "." + name;
    if (!learned) {
      register_module(name, std::make_shared<WeightsImpl>(shape, fan_in, biases));
      return;
    }
    const torch::Tensor weight = learned_tensor(*learned, path + ".weight", shape);
    const torch::Tensor bias =
        biases > 0 ? learned_tensor(*learned, path + ".bias", {biases}) : torch::Tensor();
    register_module(name, std::make_shared<WeightsImpl>(weight, bias));
  };
  if (node.op == HostOp::project) {
    require(shape_.model_dim > 0, "attention: '{}' projects the layer's input x, so model_dim must be given",
            name_);
    const int64_t width = node.vector ? shape_.head_dim : 1;
    create("project", {shape_.heads * width, shape_.model_dim}, shape_.model_dim,
           node.vector ? 0 : shape_.heads);
  }
  if (node.op == HostOp::linear)
    create("linear", {shape_.heads, shape_.head_dim, shape_.head_dim}, shape_.head_dim, 0);
}

at::Tensor HostExpressionImpl::forward(const HostInputs& inputs) { return evaluate(*host_, inputs); }

at::Tensor HostExpressionImpl::evaluate(const HostNode& node, const HostInputs& inputs) {
  const auto argument = [&](size_t index) { return evaluate(*node.args[index], inputs); };
  switch (node.op) {
    case HostOp::query:
    case HostOp::key:
      return inputs.heads;
    case HostOp::number:
      return torch::full({1, 1, 1, 1}, node.number, inputs.heads.options().requires_grad(false));
    case HostOp::param:
      return inputs.tables[static_cast<size_t>(node.table)].unsqueeze(-1).unsqueeze(-1).to(
          inputs.heads.scalar_type());
    case HostOp::project:
      return project(node, inputs);
    case HostOp::linear: {
      const at::Tensor weight = named_parameters()[numbered("linear", node.ordinal) + ".weight"];
      const at::Tensor vectors = argument(0);  // heads may be a number that all share
      const int64_t batch = vectors.size(0), tokens = vectors.size(2);
      const at::Tensor rows =
          vectors.expand({batch, shape_.heads, tokens, shape_.head_dim}).transpose(0, 1).flatten(1, 2);
      return steady_product(rows, weight.transpose(-2, -1).to(rows.scalar_type()))
          .view({shape_.heads, batch, tokens, shape_.head_dim})
          .transpose(0, 1);
    }
    case HostOp::relu:
      return pooled_relu(argument(0));
    case HostOp::norm: {
      const auto vector = argument(0);
      return vector * torch::rsqrt(vector.square().mean(-1, true) + 1e-6);
    }
    case HostOp::logsigmoid:
      return torch::log_sigmoid(argument(0));
    case HostOp::cumsum:
      return running_sum(node, argument(0), inputs);
    case HostOp::add:
      return argument(0) + argument(1);
    case HostOp::subtract:
      return argument(0) - argument(1);
    case HostOp::multiply:
      return argument(0) * argument(1);
    case HostOp::negate:
      return -argument(0);
  }
  return {};
}

at::Tensor HostExpressionImpl::project(const HostNode& node, const HostInputs& inputs) {
  require(inputs.layer_input.defined(),
          "attention: '{}' is computed from the layer's input x, which this call does not give", name_);
  const auto& x = inputs.layer_input;
  const int64_t batch = x.size(0), tokens = x.size(1);
  require(x.size(2) == shape_.model_dim,
          "attention: the layer's input x has width {}; '{}' expects model_dim {}", x.size(2), name_,
          shape_.model_dim);
  const std::string prefix = numbered("project", node.ordinal);
  const auto parameters = named_parameters();
  const auto dtype = inputs.heads.scalar_type();
  const auto bias = node.vector ? torch::Tensor() : parameters[prefix + ".bias"].to(dtype);
  auto projected = steady_product(x.to(dtype).reshape({1, batch * tokens, -1}),
                                  parameters[prefix + ".weight"].to(dtype).t().unsqueeze(0));
  if (bias.defined()) projected = projected + bias;
  return projected.view({batch, tokens, shape_.heads, -1}).transpose(1, 2);
}

at::Tensor HostExpressionImpl::running_sum(const HostNode& node, const at::Tensor& values,
                                           const HostInputs& inputs) {
  // Sums of many terms need the longer dtype, in the cache too.
  auto sums = values.to(compute_dtype(values)).cumsum(2);
  if (!inputs.cache) return sums;
  const std::string track = fmt::format("sum {} {}", name_, node.ordinal);
  if (const auto carried = inputs.cache->last(track); carried.defined()) sums = sums + carried;
  inputs.cache->append(track, sums);
  return sums;
}

}  // namespace saccade
