// The part of a decoder's block that looks at what an encoder has read. Keys and values come from the
// encoder's output alone, so decoding makes them once for a whole translation.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "saccade/attention/attention.h"
#include "saccade/models/architecture.h"
#include "saccade/models/layers.h"

namespace saccade {

// What an encoder has read, as one layer of the decoder looks at it.
struct CrossMemory {
  at::Tensor key, value;  // [batch, kv_heads, source tokens, head_dim]
  at::Tensor states;      // the encoder's output, for formulas that are computed from it
  at::Tensor mask;        // [batch, source tokens], true for real ones; undefined: all are

  // Sequence b becomes a copy of sequence indices[b].
  void reorder(const at::Tensor& indices);
};

class CrossAttentionImpl : public torch::nn::Module {
 public:
  explicit CrossAttentionImpl(const Architecture& architecture);

  // `states` [batch, source tokens, width] are the encoder's output.
  CrossMemory remember(const at::Tensor& states, const at::Tensor& mask);
  // x [batch, tokens, width], of which the first is at `position`.
  at::Tensor forward(const at::Tensor& x, const CrossMemory& memory, int64_t position);
  void set_formula(const Formula& formula, Path path);

  Norm norm{nullptr};
  Projection query{nullptr}, key_value{nullptr}, output{nullptr};
  Norm query_norm{nullptr}, key_norm{nullptr};
  Attention attention{nullptr};

 private:
  const Architecture architecture_;
};
TORCH_MODULE(CrossAttention);

}  // namespace saccade
