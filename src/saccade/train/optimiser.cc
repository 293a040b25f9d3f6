// The arithmetic is LibTorch's fused AdamW, one pass over each parameter.
#include "saccade/train/optimiser.h"

#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>

#include <cmath>

#include "saccade/base/error.h"
#include "saccade/models/parameter_names.h"

namespace saccade {

using at::Tensor;

Optimiser::Optimiser(const Transformer& model, const TrainOptions& options)
    : model_(model), options_(options) {
  Group matrices{options.weight_decay, 1, {}}, others{0, 1, {}}, formulas{0, options.formula_lr, {}};
  for (const auto& item : model->named_parameters()) {
    const bool of_formula = learned_by_formula(item.key());
    Tensor value = item.value();
    if (of_formula && options.formula_lr == 0) {
      value.requires_grad_(false);
      continue;
    }
    value.requires_grad_(true);
    const bool decays = value.dim() >= 2 && item.key() != "positions";
    Group& group = of_formula ? formulas : decays ? matrices : others;
    group.parameters.push_back({item.key(), value, torch::zeros_like(value), torch::zeros_like(value),
                                torch::zeros({}, torch::kFloat)});
  }
  for (Group* group : {&matrices, &others, &formulas})
    if (!group->parameters.empty()) groups_.push_back(std::move(*group));
}

void Optimiser::step(double rate) {
  const torch::NoGradGuard no_gradient;
  for (Group& group : groups_) {
    std::vector<Tensor> values, gradients, first, second, counts;
    for (Parameter& parameter : group.parameters) {
      // Whatever did not take part in the loss, such as a table row that no token needed, has no gradient.
      if (!parameter.value.grad().defined())
        parameter.value.mutable_grad() = torch::zeros_like(parameter.value);
      parameter.count.add_(1);
      values.push_back(parameter.value);
      gradients.push_back(parameter.value.grad().contiguous());
      first.push_back(parameter.first);
      second.push_back(parameter.second);
      counts.push_back(parameter.count);
    }
    at::_fused_adamw_(values, gradients, first, second, {}, counts, rate * group.rate, options_.beta1,
                      options_.beta2, group.decay, options_.epsilon, false, false);
  }
  model_->clamp_formulas();
}

void Optimiser::clear_gradients() {
  for (Group& group : groups_)
    for (Parameter& parameter : group.parameters)
      parameter.value.mutable_grad() = Tensor();  // the next one then need not be added to zeros
}

double Optimiser::clip_gradients(double longest) {
  const torch::NoGradGuard no_gradient;
  std::vector<Tensor> gradients;
  for (const Group& group : groups_)
    for (const Parameter& parameter : group.parameters)
      if (parameter.value.grad().defined()) gradients.push_back(parameter.value.grad());
  double square = 0;
  for (const Tensor& norm : at::_foreach_norm(gradients)) square += std::pow(norm.item<double>(), 2);
  const double length = std::sqrt(square);
  if (longest > 0 && std::isfinite(length) && length > longest)
    at::_foreach_mul_(gradients, longest / (length + 1e-6));
  return length;
}

std::string Optimiser::find_unhealthy() const {
  const auto healthy = [](const Tensor& tensor) { return torch::isfinite(tensor).all().item<bool>(); };
  for (const bool gradients : {false, true})
    for (const Group& group : groups_)
      for (const Parameter& parameter : group.parameters) {
        const Tensor& looked_at = gradients ? parameter.value.grad() : parameter.value;
        if (looked_at.defined() && !healthy(looked_at))
          return fmt::format("{} '{}'", gradients ? "the gradient of" : "the parameter", parameter.name);
      }
  return "";
}

std::map<std::string, Tensor> Optimiser::state() const {
  std::map<std::string, Tensor> result;
  for (const Group& group : groups_)
    for (const Parameter& parameter : group.parameters) {
      result["first." + parameter.name] = parameter.first;
      result["second." + parameter.name] = parameter.second;
    }
  return result;
}

void Optimiser::set_steps(int64_t steps) {
  for (Group& group : groups_)
    for (Parameter& parameter : group.parameters) parameter.count.fill_(static_cast<float>(steps));
}

}  // namespace saccade
