// Small transformers with random weights, and a tokenizer of single characters, for tests.
#pragma once

#include <string>

#include "saccade/base/random.h"
#include "saccade/evaluate/reader.h"
#include "saccade/text/bpe_trainer.h"

namespace saccade {

inline Architecture small_architecture(int64_t vocabulary = 64) {
  return {.family = "test",
          .vocabulary = vocabulary,
          .width = 32,
          .layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 8,
          .inner = 48,
          .context = 128,
          .norm = NormKind::layer,
          .rotary = RotaryOptions{}};
}

inline Transformer random_transformer(const Architecture& architecture, uint64_t seed = 1) {
  at::NoGradGuard no_gradients;
  torch::manual_seed(seed);
  Transformer model(architecture);
  for (auto& item : model->named_parameters()) {
    at::Tensor& value = item.value();
    if (value.dim() > 1)
      value.normal_(0, 0.3);
    else if (item.key().ends_with("bias"))
      value.normal_(0, 0.1);
    else
      value.normal_(1, 0.1);
  }
  model->eval();
  return model;
}

inline std::vector<int32_t> random_ids(int64_t count, int64_t vocabulary, uint64_t seed) {
  RandomStream random(seed, "ids");
  std::vector<int32_t> ids;
  for (int64_t index = 0; index < count; ++index)
    ids.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(vocabulary))));
  return ids;
}

// 257 tokens: the bytes and <|endoftext|>.
inline Tokenizer byte_tokenizer() { return BpeTrainer({.vocabulary_size = 257}).train(); }

}  // namespace saccade
