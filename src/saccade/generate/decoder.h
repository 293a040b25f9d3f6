// Sequences that grow together: a batch of prompts, then token by token. It keeps the KV cache, pads prompts
// of different lengths on the left, and keeps long texts inside the model's context. It chooses no token.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "saccade/models/transformer.h"

namespace saccade {

// What happens when a prompt and its continuation are longer than the model's context.
enum class Overflow {
  refuse,  // an Error before anything is computed
  slide,   // whenever the context is full, its older half is forgotten and the rest computed anew
  extend,  // nothing: the model goes on beyond what it was made for. Not with learned positions
};

// Why a model cannot decode with a cache, in words; empty if it can.
std::string cache_obstacle(const Transformer& model);

// Whether padding on the left would change what the formula computes for real tokens: it looks at positions
// or lengths themselves, not only at distances.
bool padding_matters(const Formula& formula);
bool padding_matters(const Transformer& model);

// Throws Error when a prompt with so many new tokens cannot be had under this policy.
void check_length(const Architecture& architecture, int64_t prompt_tokens, int64_t new_tokens,
                  Overflow overflow);

class Decoder {
 public:
  // Prompts of different lengths are refused where padding matters.
  Decoder(Transformer model, std::vector<std::vector<int64_t>> prompts, Overflow overflow);

  // The logits of the token after each prompt, [prompts, vocabulary].
  at::Tensor start();
  // Row r continues what was row rows[r] with the token ids[r]; both are [any number of rows]. Returns the
  // logits of the tokens after these. Undefined `rows`: the same as before.
  at::Tensor step(const at::Tensor& ids, const at::Tensor& rows = {});

  bool cached() const { return cache_.has_value(); }

 private:
  struct Row {
    std::vector<int64_t> ids;
    size_t first = 0;  // what is before was forgotten
    int64_t length() const { return static_cast<int64_t>(ids.size() - first); }
  };

  void choose_rows(const at::Tensor& rows);
  void forget(Row& row) const;
  at::Tensor compute_all();

  Transformer model_;
  Overflow overflow_;
  std::vector<Row> rows_;
  std::optional<ModelCache> cache_;  // none: the formulas cannot decode, and each step computes everything
};

}  // namespace saccade
