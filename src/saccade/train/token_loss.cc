// With probabilities p, target y and smoothing e over V tokens the gradient of a row's logits is
// p - (1 - e) [y] - e / V, whatever came before: so it is taken in the forward pass, where the logits still
// are.
#include "saccade/train/token_loss.h"

#include <ATen/ops/_log_softmax.h>
#include <torch/csrc/autograd/custom_function.h>

#include "saccade/attention/shapes.h"
#include "saccade/attention/steady_product.h"
#include "saccade/base/error.h"

namespace saccade {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

// Numbers of logits that are alive at once: a few megabytes stay in the cache.
constexpr int64_t kLogits = int64_t{1} << 20;

struct TokenLoss : torch::autograd::Function<TokenLoss> {
  static Tensor forward(AutogradContext* context, const Tensor& hidden, const Tensor& weight,
                        const Tensor& targets, double smoothing, bool learns) {
    const int64_t rows = hidden.size(0), vocabulary = weight.size(0);
    const int64_t chunk = std::max<int64_t>(16, kLogits / vocabulary);
    Tensor hidden_gradient, weight_gradient;
    if (learns) {
      hidden_gradient = torch::empty_like(hidden);
      weight_gradient = torch::zeros_like(weight);
    }
    double sum = 0;
    for (int64_t first = 0; first < rows; first += chunk) {
      const int64_t count = std::min(chunk, rows - first);
      const Tensor x = hidden.narrow(0, first, count), target = targets.narrow(0, first, count).unsqueeze(1);
      Tensor logits = torch::empty({count, vocabulary}, x.options());
      steady_product_into(logits, x, weight.t(), false);
      // In double only where numbers are added up: a row's own sum is what any softmax does.
      Tensor log_p = at::_log_softmax(
          logits.scalar_type() == torch::kDouble ? logits : logits.to(torch::kFloat), 1, false);
      double part = -(1 - smoothing) * log_p.gather(1, target).sum(torch::kDouble).item<double>();
      if (smoothing > 0)
        part -= smoothing / static_cast<double>(vocabulary) * log_p.sum(torch::kDouble).item<double>();
      sum += part;
      if (!learns) continue;
      Tensor gradient = log_p.exp_();
      gradient.scatter_add_(1, target, torch::full_like(target, smoothing - 1, gradient.options()));
      if (smoothing > 0) gradient.sub_(smoothing / static_cast<double>(vocabulary));
      gradient = gradient.to(hidden.scalar_type());
      Tensor of_x = hidden_gradient.narrow(0, first, count);
      steady_product_into(of_x, gradient, weight, false);
      steady_product_into(weight_gradient, gradient.t(), x, true);
    }
    if (learns) context->save_for_backward({hidden_gradient, weight_gradient});
    return torch::full({}, sum, hidden.options().dtype(torch::kDouble));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require(!torch::GradMode::is_enabled(), "training: the loss can be differentiated only once");
    const variable_list saved = context->get_saved_variables();
    const double factor = gradients[0].item<double>();
    return {saved[0] * factor, saved[1] * factor, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor token_loss(const Transformer& model, const Tensor& hidden, const Tensor& targets, double smoothing) {
  const Architecture& a = model->architecture();
  require(a.head == HeadKind::language_model && a.logit_cap == 0,
          "training: only a language model without a cap on its logits can be trained");
  const Tensor& weight = model->output_weight();
  const Tensor flat_targets = targets.reshape({-1});
  Tensor flat = hidden.reshape({-1, a.width});
  const Tensor places = (flat_targets != kNoTarget).nonzero().squeeze(1);
  const bool all = places.numel() == flat_targets.numel();
  if (!all) flat = flat.index_select(0, places);
  const bool learns = torch::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad());
  return TokenLoss::apply(flat.to(weight.scalar_type()).contiguous(), weight,
                          all ? flat_targets : flat_targets.index_select(0, places), smoothing, learns);
}

}  // namespace saccade
