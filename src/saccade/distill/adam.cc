// A short memory of squares: these trainings have a few hundred steps.
#include "saccade/distill/adam.h"

#include <torch/types.h>

#include <cmath>
#include <numbers>

namespace saccade {
namespace {

constexpr double kFirst = 0.9, kSecond = 0.98, kNothing = 1e-12;

}  // namespace

void Adam::add(const at::Tensor& tensor, double size) {
  const at::Tensor zeros = torch::zeros_like(tensor.detach());
  slots_.push_back({tensor, zeros, zeros.clone(), size});
}

void Adam::step(std::span<const at::Tensor> gradients, double rate) {
  const torch::NoGradGuard no_gradient;
  ++count_;
  const double first_bias = 1 - std::pow(kFirst, count_), second_bias = 1 - std::pow(kSecond, count_);
  for (size_t index = 0; index < slots_.size(); ++index) {
    const at::Tensor& gradient = gradients[index];
    if (!gradient.defined()) continue;
    Slot& slot = slots_[index];
    slot.first.lerp_(gradient, 1 - kFirst);
    slot.second.mul_(kSecond).addcmul_(gradient, gradient, 1 - kSecond);
    slot.tensor.addcdiv_(slot.first, (slot.second / second_bias).sqrt_().add_(kNothing),
                         -rate * slot.size / first_bias);
  }
}

double rate_at(double rate, int64_t step, int64_t steps, int64_t rising) {
  const double progress = static_cast<double>(step) / static_cast<double>(steps);
  return rate * (0.5 + 0.5 * std::cos(std::numbers::pi * progress)) *
         std::min(1.0, static_cast<double>(step + 1) / static_cast<double>(rising));
}

}  // namespace saccade
