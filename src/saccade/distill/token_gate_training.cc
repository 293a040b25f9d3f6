// Features differ in size by orders of magnitude, so the network learns on standardised ones; what that does
// is folded into its first layer at the end.
#include "saccade/distill/token_gate_training.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/autograd.h>

#include <cmath>

#include "saccade/base/error.h"
#include "saccade/base/random.h"
#include "saccade/distill/adam.h"

namespace saccade {

using at::Tensor;

namespace {

constexpr int64_t kRowsOfMap = 256;
constexpr double kFloor = 3e-4;      // weights below this are all the same: nobody would keep them
constexpr int64_t kGateRising = 10;  // steps
constexpr int64_t kEnough = 4;       // a token is known when this part of the text's groups comes later

// What the lessons have to say, end to end: known tokens only.
struct Material {
  Tensor key, value, target;  // [key heads, tokens, width], the same, [heads, tokens]: logarithms
};

Material collect(std::span<const GateLesson> lessons) {
  require(!lessons.empty(), "distill: no lessons to learn from");
  std::vector<Tensor> keys, values, targets;
  for (const GateLesson& lesson : lessons) {
    const Tensor known = lesson.known.nonzero().squeeze(1);
    keys.push_back(lesson.key.index_select(1, known));
    values.push_back(lesson.value.index_select(1, known));
    targets.push_back(lesson.target.index_select(1, known).clamp_min(kFloor).log_());
  }
  Material result{torch::cat(keys, 1), torch::cat(values, 1), torch::cat(targets, 1)};
  require(result.target.size(1) > 0,
          "distill: texts too short for a token gate; no token has enough queries that it is far from");
  return result;
}

// Of so many tokens' features, [heads, tokens, features].
Tensor features_of(const Material& material, const Tensor& tokens) {
  const Tensor features =
      TokenGate::features_of(material.key.index_select(1, tokens), material.value.index_select(1, tokens));
  const int64_t group = material.target.size(0) / features.size(0);
  return group == 1 ? features : features.repeat_interleave(group, 0);
}

Tensor loss_of(const Tensor& estimate, const Tensor& target) { return at::huber_loss(estimate, target); }

// The network as in TokenGate, for features by head.
Tensor forward(const TokenGate& gate, const Tensor& features) {
  const Tensor inner = at::silu(torch::bmm(features, gate.input_map) + gate.input_bias.unsqueeze(1));
  return (torch::bmm(inner, gate.output_map.unsqueeze(-1)) + torch::bmm(features, gate.direct.unsqueeze(-1)))
             .squeeze(-1) +
         gate.constant.unsqueeze(1);
}

// Features x that were (x - mean) / size in training, [heads, features] each.
void fold(TokenGate& gate, const Tensor& mean, const Tensor& size) {
  gate.input_map = (gate.input_map / size.unsqueeze(-1)).contiguous();
  gate.input_bias = gate.input_bias - torch::bmm(mean.unsqueeze(1), gate.input_map).squeeze(1);
  gate.direct = (gate.direct / size).contiguous();
  gate.constant = gate.constant - (mean * gate.direct).sum(-1);
}

}  // namespace

GateLesson make_gate_lesson(const Formula& formula, const PairInputs& inputs, const LessonOptions& options) {
  torch::NoGradGuard no_gradient;
  const Tensor key = inputs.keys[0][0].detach(), value = inputs.value[0].detach();
  const int64_t heads = inputs.queries[0].size(1), n = key.size(1), pool = options.pool;
  require(n % options.selection.query_tile == 0 && options.selection.query_tile % pool == 0,
          "distill: a text of {} tokens; expected a multiple of the query tile of {}", n,
          options.selection.query_tile);
  GateLesson lesson{.key = key.to(torch::kFloat).contiguous(),
                    .value = value.to(torch::kFloat).contiguous(),
                    .target = torch::zeros({heads, n})};
  Tensor later = torch::zeros({n}, torch::kLong);
  const int64_t rows = std::max(pool, kRowsOfMap / pool * pool);
  for (int64_t begin = 0; begin < n; begin += rows) {
    const int64_t end = std::min(n, begin + rows);
    const Tensor weights = weights_of_rows(formula, inputs, begin, end).weights;
    const int64_t seen = weights.size(2);
    for (int64_t row = begin; row < end; row += pool) {
      const Tensor far = far_keys(options, {row / pool}, n)[0];
      const Tensor weight = weights.narrow(1, row - begin, pool).square().sum(1).sqrt_();  // [heads, seen]
      Tensor most = lesson.target.narrow(1, 0, seen);
      most.copy_(torch::maximum(most, weight * far.narrow(0, 0, seen)));
      later += far;
    }
  }
  lesson.known = later.ge(std::max<int64_t>(1, n / pool / kEnough));
  return lesson;
}

double gate_loss(const TokenGate& gate, std::span<const GateLesson> lessons) {
  torch::NoGradGuard no_gradient;
  const Material material = collect(lessons);
  const Tensor estimate = gate.estimate(material.key.unsqueeze(0), material.value.unsqueeze(0))[0];
  return loss_of(estimate, material.target).item<double>();
}

TrainedGate train_gate(std::span<const GateLesson> lessons, const GateTraining& options) {
  torch::NoGradGuard no_gradient;
  require(options.hidden >= 1 && options.steps >= 0 && options.tokens_at_once >= 1,
          "distill: a gate of {} hidden numbers, {} steps of {} tokens; expected at least 1, 0 and 1",
          options.hidden, options.steps, options.tokens_at_once);
  const Material material = collect(lessons);
  const int64_t heads = material.target.size(0), tokens = material.target.size(1);
  const int64_t width = TokenGate::features(material.key.size(2), material.value.size(2));
  at::Generator random = at::detail::createCPUGenerator(RandomStream(options.seed, "gate training").next());
  const auto draw = [&] {
    return at::randint(tokens, {std::min(tokens, options.tokens_at_once)}, random, torch::kLong);
  };
  const Tensor sample = features_of(
      material, tokens <= 4096 ? torch::arange(tokens) : at::randint(tokens, {4096}, random, torch::kLong));
  const Tensor mean = sample.mean(1), size = sample.var(1, /*unbiased=*/false).sqrt().clamp_min(1e-6);

  TrainedGate result;
  TokenGate& gate = result.gate;
  gate.input_map = at::randn({heads, width, options.hidden}, random, torch::kFloat) /
                   std::sqrt(static_cast<double>(width));
  gate.input_bias = torch::zeros({heads, options.hidden});
  gate.output_map = at::randn({heads, options.hidden}, random, torch::kFloat) /
                    std::sqrt(static_cast<double>(options.hidden));
  gate.direct = torch::zeros({heads, width});
  gate.constant = material.target.mean(1);
  Adam adam;
  std::vector<Tensor> learning;
  for (const auto& [name, tensor] : gate.named()) {
    if (name == "thresholds") continue;
    learning.push_back(tensor->requires_grad_(true));
    adam.add(*tensor);
  }
  const int64_t tenth = std::max<int64_t>(1, options.steps / 10);
  for (int64_t step = 0; step < options.steps; ++step) {
    const Tensor chosen = draw();
    const Tensor features = (features_of(material, chosen) - mean.unsqueeze(1)) / size.unsqueeze(1);
    std::vector<Tensor> gradients;
    {
      torch::AutoGradMode with_gradient(true);
      const Tensor loss = loss_of(forward(gate, features), material.target.index_select(1, chosen));
      // Heads learn by themselves: their losses are added up.
      gradients = torch::autograd::grad({loss * static_cast<double>(heads)}, learning);
      const double part = loss.item<double>() / static_cast<double>(tenth);
      if (step < tenth) result.first_loss += part;
      if (step >= options.steps - tenth) result.last_loss += part;
    }
    adam.step(gradients, rate_at(options.rate, step, options.steps, kGateRising));
  }
  for (const auto& [name, tensor] : gate.named())
    if (name != "thresholds") *tensor = tensor->detach();
  fold(gate, mean, size);
  gate.thresholds = torch::full({heads}, 0.01);
  return result;
}

}  // namespace saccade
