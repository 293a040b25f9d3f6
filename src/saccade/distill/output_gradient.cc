// Some rows at a time: their logits, their loss, and at once its gradient.
#include "saccade/distill/output_gradient.h"

#include <torch/autograd.h>

#include "saccade/evaluate/divergence.h"

namespace saccade {

using at::Tensor;

namespace {
constexpr int64_t kRowsAtOnce = 256;
}

Tensor divergence_gradient(Transformer model, const Tensor& teacher, const Tensor& hidden) {
  torch::AutoGradMode with_gradient(true);
  std::vector<Tensor> parts;
  for (int64_t begin = 0; begin < hidden.size(0); begin += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, hidden.size(0) - begin);
    Tensor rows = hidden.narrow(0, begin, count).detach().clone().requires_grad_(true);
    Tensor loss;
    if (predicts_tokens(model->architecture())) {
      const Tensor p = model->logits(teacher.narrow(0, begin, count)).log_softmax(-1);
      loss = (p.exp() * (p - model->logits(rows).log_softmax(-1))).sum();
    } else {
      const Tensor goal = teacher.narrow(0, begin, count);
      loss = (1 - (rows * goal).sum(-1) / (rows.norm(2, -1) * goal.norm(2, -1))).sum();
    }
    parts.push_back(torch::autograd::grad({loss / static_cast<double>(hidden.size(0))}, {rows})[0]);
  }
  return torch::cat(parts);
}

}  // namespace saccade
