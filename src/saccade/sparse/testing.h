// A small transformer and random selectors, for tests of this rung and those above.
#pragma once

#include <gtest/gtest.h>

#include "saccade/sparse/low_rank.h"
#include "saccade/sparse/sparse_model.h"
#include "saccade/sparse/token_gate.h"

namespace saccade {

inline Transformer tiny_transformer(bool causal = true, uint64_t seed = 1) {
  at::NoGradGuard no_gradients;
  torch::manual_seed(seed);
  Architecture architecture{.family = "test",
                            .vocabulary = 60,
                            .width = 32,
                            .layers = 2,
                            .heads = 4,
                            .kv_heads = 2,
                            .head_dim = 8,
                            .inner = 48,
                            .context = 512,
                            .rotary = RotaryOptions{}};
  architecture.causal = causal;
  Transformer model(architecture);
  for (auto& item : model->named_parameters())
    if (item.value().dim() > 1)
      item.value().normal_(0, 0.3);
    else
      item.value().fill_(1);
  model->eval();
  for (at::Tensor& parameter : model->parameters()) parameter.requires_grad_(false);
  return model;
}

inline LowRankScorer random_scorer(int64_t pool, float threshold, int64_t ranges = 1) {
  const int64_t features = LowRankScorer::features(pool, 8);
  return {.pool = pool,
          .samples = pool == 1 ? 1 : 4,
          .query_map = torch::randn({4, features, 3}),
          .query_bias = torch::randn({4, features}),
          .key_map = torch::randn({4, 8, 3}),
          .key_bias = torch::randn({4, 8}),
          .constant = torch::randn({4}),
          .log_factor = torch::zeros({4}),
          .thresholds = torch::full({4, ranges}, threshold)};
}

inline Selectors random_selectors(float threshold, bool causal = true,
                                  SelectionOptions options = {.query_tile = 16, .near = 8}) {
  torch::manual_seed(7);
  Selectors result;
  for (int layer = 0; layer < 2; ++layer)
    result.push_back(std::make_shared<LowRankSelector>(
        options, causal, random_scorer(std::min<int64_t>(16, options.query_tile), threshold),
        causal ? std::optional(random_scorer(1, threshold)) : std::nullopt));
  return result;
}

// Four heads of eight numbers; estimates lie about 0.
inline TokenGate random_gate(double threshold) {
  const int64_t features = TokenGate::features(8, 8);
  return {.input_map = torch::randn({4, features, 5}) / 4,
          .input_bias = torch::randn({4, 5}),
          .output_map = torch::randn({4, 5}),
          .direct = torch::randn({4, features}) / 16,
          .constant = torch::randn({4}) / 4,
          .thresholds = torch::full({4}, threshold)};
}

// The largest of any number.
inline double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

inline at::Tensor some_tokens(int64_t batch, int64_t tokens) {
  torch::manual_seed(3);
  return torch::randint(60, {batch, tokens}, torch::kLong);
}

}  // namespace saccade
