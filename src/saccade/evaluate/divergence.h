// How far a changed model is from the one it was made of, token by token. With a head for tokens that is
// KL(P || P_changed) in nats; without one, how much the direction of the last hidden state has turned:
// 1 - cosine, which is half the squared distance of the directions, as KL is of distributions that are close.
#pragma once

#include <span>
#include <vector>

#include "saccade/models/transformer.h"

namespace saccade {

using TokenIds = std::vector<int32_t>;

// One row per token of all texts, one text after the other.
struct Divergence {
  at::Tensor values;    // double
  at::Tensor same_top;  // bool: both give most to the same token; undefined without a head for tokens
  at::Tensor base_nll, changed_nll;  // double, of the next token, NaN for a text's last; undefined likewise

  double mean() const { return values.mean().item<double>(); }
  double median() const { return values.median().item<double>(); }
  double quantile(double share) const;
};

// Whether the model's divergence is one of distributions over tokens.
bool predicts_tokens(const Architecture& architecture);

// The last hidden states of each text, [tokens, width], read one by one.
std::vector<at::Tensor> last_hidden_states(Transformer model, std::span<const TokenIds> texts);

// Rows are compared a few at a time: the logits of a whole text are never held.
Divergence divergence_of(Transformer base, std::span<const at::Tensor> base_hidden, Transformer changed,
                         std::span<const at::Tensor> changed_hidden, std::span<const TokenIds> texts);

}  // namespace saccade
