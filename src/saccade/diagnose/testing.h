// Small models for the tests of this rung.
#pragma once

#include <torch/types.h>

#include "saccade/models/transformer.h"

namespace saccade {

inline Architecture small_architecture() {
  Architecture a;
  a.family = "llama";
  a.vocabulary = 50;
  a.width = 24;
  a.layers = 2;
  a.heads = 4;
  a.kv_heads = 2;
  a.head_dim = 6;
  a.inner = 40;
  a.context = 128;
  a.rotary = RotaryOptions{};
  return a;
}

inline Transformer random_model(const Architecture& architecture, const char* formula = nullptr) {
  torch::manual_seed(1);
  Transformer model(architecture);
  if (formula) model->set_attention(Formula::load(formula));
  const torch::NoGradGuard no_gradient;
  for (at::Tensor parameter : model->parameters())
    if (parameter.dim() > 1 || parameter.size(0) != architecture.heads) parameter.normal_(0, 0.3);
  return model;
}

inline at::Tensor some_ids(int64_t batch, int64_t tokens) {
  torch::manual_seed(2);
  return torch::randint(50, {batch, tokens}, torch::kLong);
}

}  // namespace saccade
