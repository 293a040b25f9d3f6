// torch::autograd::grad hands the gradients out instead of adding them to the parameters, so that training
// may look at them between two steps.
#include "saccade/diagnose/gradients.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <unordered_map>

#include "saccade/base/error.h"

namespace saccade {

using at::Tensor;

AskForGradients::AskForGradients(const std::vector<Tensor>& parameters) {
  for (const Tensor& parameter : parameters)
    if (!parameter.requires_grad()) switched_.push_back(parameter.set_requires_grad(true));
}

AskForGradients::~AskForGradients() {
  for (const Tensor& parameter : switched_) parameter.set_requires_grad(false);
}

namespace {

class Norms {
 public:
  void add(const Tensor& of, const Tensor& gradient) {
    gradients_.emplace(of.unsafeGetTensorImpl(), gradient);
  }

  // Of a tensor that the loss does not depend on the gradient is 0.
  double of(const Tensor& tensor) const {
    const Tensor found = gradient(tensor);
    return found.defined() ? found.to(torch::kDouble).norm().item<double>() : 0;
  }
  double of(const std::vector<Tensor>& tensors) const {
    double squares = 0;
    for (const Tensor& tensor : tensors) squares += std::pow(of(tensor), 2);
    return std::sqrt(squares);
  }
  // Of `count` slices of as many rows (dimension 0) or columns (dimension 1) each, from `first` on.
  std::vector<double> slices(const Tensor& tensor, int64_t dimension, int64_t first, int64_t count,
                             int64_t size) const {
    std::vector<double> norms(static_cast<size_t>(count), 0);
    const Tensor found = gradient(tensor);
    for (int64_t index = 0; found.defined() && index < count; ++index)
      norms[static_cast<size_t>(index)] =
          found.narrow(dimension, first + index * size, size).to(torch::kDouble).norm().item<double>();
    return norms;
  }

 private:
  Tensor gradient(const Tensor& tensor) const {
    const auto found = gradients_.find(tensor.unsafeGetTensorImpl());
    invariant(found != gradients_.end(), "diagnose: a gradient that was not asked for");
    return found->second;
  }

  std::unordered_map<const c10::TensorImpl*, Tensor> gradients_;
};

double whole(const std::vector<double>& parts) {
  double squares = 0;
  for (const double part : parts) squares += part * part;
  return std::sqrt(squares);
}

LayerGradients layer_of(const Norms& norms, const Architecture& a, const Block& block,
                        const Tensor& entering) {
  // Looked up by the token, queries, keys and values are columns instead of rows.
  const bool looked_up = block->token_projection.defined();
  const Tensor& projection = looked_up ? block->token_projection : block->projection->weight;
  const int64_t along = looked_up ? 1 : 0;
  LayerGradients layer;
  layer.entering = norms.of(entering);
  layer.block = norms.of(block->parameters());
  layer.query_heads = norms.slices(projection, along, 0, a.heads, a.head_dim);
  layer.key_heads = norms.slices(projection, along, a.heads * a.head_dim, a.kv_heads, a.head_dim);
  layer.value_heads =
      norms.slices(projection, along, (a.heads + a.kv_heads) * a.head_dim, a.kv_heads, a.head_dim);
  layer.output_heads = norms.slices(block->output->weight, 1, 0, a.heads, a.head_dim);
  layer.query = whole(layer.query_heads);
  layer.key = whole(layer.key_heads);
  layer.value = whole(layer.value_heads);
  layer.output = whole(layer.output_heads);
  layer.mlp = norms.of(block->mlp->parameters());
  for (const auto& parameter : block->attention->named_parameters())
    layer.formula[parameter.key()] = norms.of(parameter.value());
  return layer;
}

}  // namespace

Gradients measure_gradients(Transformer& model, const Tensor& ids) {
  const Architecture& a = model->architecture();
  const bool next = a.head == HeadKind::language_model;
  require(next || a.head == HeadKind::masked_model, "diagnose: the model has no head for tokens, so no loss");
  require(ids.dim() == 2 && ids.size(0) > 0 && ids.size(1) > (next ? 1 : 0),
          "diagnose: {} tokens; the loss needs at least {}", ids.dim() == 2 ? ids.size(1) : 0, next ? 2 : 1);
  const std::vector<Tensor> parameters = model->parameters();
  const AskForGradients asking(parameters);
  const torch::AutoGradMode with_gradients(true);
  std::vector<Tensor> hidden;
  Tensor last = model->forward({.ids = ids, .hidden_states = &hidden});
  if (next) last = last.narrow(1, 0, ids.size(1) - 1);
  const Tensor targets = next ? ids.narrow(1, 1, ids.size(1) - 1) : ids;
  const Tensor logits = model->logits(last).flatten(0, 1);
  const Tensor loss = at::cross_entropy_loss(
      logits.scalar_type() == torch::kDouble ? logits : logits.to(torch::kFloat), targets.flatten());
  std::vector<Tensor> inputs = parameters;
  hidden.resize(static_cast<size_t>(a.layers));  // what enters the blocks, without the last output
  inputs.insert(inputs.end(), hidden.begin(), hidden.end());
  const std::vector<Tensor> gradients =
      torch::autograd::grad({loss}, inputs, {}, /*retain_graph=*/false, /*create_graph=*/false,
                            /*allow_unused=*/true);
  Norms norms;
  for (size_t index = 0; index < inputs.size(); ++index) norms.add(inputs[index], gradients[index]);
  Gradients result{.loss = loss.item<double>(),
                   .total = norms.of(parameters),
                   .embedding = norms.of(model->named_parameters(false)["tokens"]),
                   .layers = {}};
  for (int64_t layer = 0; layer < a.layers; ++layer)
    result.layers.push_back(layer_of(norms, a, model->block(layer), hidden[static_cast<size_t>(layer)]));
  return result;
}

}  // namespace saccade
