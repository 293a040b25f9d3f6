// Multi-head attention with the interface of torch::nn::MultiheadAttention: the same options, parameters,
// arguments and results, so that either can stand in for the other and read its weights. The mechanism is a
// formula; without one it is plain softmax, and everything equals torch's up to rounding, but for this:
//
// - A query that may see no key attends to nothing: its weights are 0 and its output is out_proj.bias. With
//   torch both are NaN.
// - It takes what torch's Python class takes and its C++ class does not: batch_first, Boolean and
//   three-dimensional attn_mask, real key_padding_mask, inputs without a batch, key and value of two widths.
// - Gradients go to the tensor that was given. Torch sends them all to the query when key and value are other
//   tensors with equal numbers.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <array>
#include <map>
#include <string>
#include <tuple>

#include "saccade/attention/attention.h"
#include "saccade/formula/augment.h"

namespace saccade {

/// The options of torch's class, and a formula.
struct MultiheadAttentionOptions {
  int64_t embed_dim = 0;
  int64_t num_heads = 0;
  double dropout = 0;  ///< of the weights, in training
  bool bias = true;
  bool add_bias_kv = false;    ///< one more key and value, which are learned
  bool add_zero_attn = false;  ///< one more key and value, which are 0
  int64_t kdim = 0;            ///< width of the key; 0: embed_dim
  int64_t vdim = 0;            ///< width of the value; 0: embed_dim
  bool batch_first = false;    ///< [batch, tokens, width] instead of [tokens, batch, width]
  Formula formula = Formula::parse("weights = softmax(s)", {.name = "full"});
};

/// torch::nn::MultiheadAttention with a formula; `MultiheadAttention` is its holder.
class MultiheadAttentionImpl : public torch::nn::Cloneable<MultiheadAttentionImpl> {
 public:
  using Inputs = std::map<std::string, at::Tensor>;

  explicit MultiheadAttentionImpl(MultiheadAttentionOptions chosen);
  MultiheadAttentionImpl(int64_t embed_dim, int64_t num_heads)
      : MultiheadAttentionImpl(MultiheadAttentionOptions{.embed_dim = embed_dim, .num_heads = num_heads}) {}

  /// query [queries, batch, embed_dim], key [keys, batch, kdim], value [keys, batch, vdim], or all three
  /// without batch. Gives the output, of the query's shape, and the weights: [batch, queries, keys], or
  /// [batch, heads, queries, keys] when they are not averaged, or an undefined tensor when they are not
  /// needed. In training they are the weights after dropout.
  ///
  /// key_padding_mask [batch, keys] and attn_mask [queries, keys] or [batch * heads, queries, keys] either
  /// are Boolean, true for what must not be seen, or are added to the formula's s (and its further streams),
  /// where -inf hides. `inputs` are the formula's own, by name. A formula that is computed from the layer's
  /// input gets `query` as x, and `key` as that of the keys when it is another tensor.
  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& query, const at::Tensor& key,
                                             const at::Tensor& value, const at::Tensor& key_padding_mask = {},
                                             bool need_weights = true, const at::Tensor& attn_mask = {},
                                             bool average_attn_weights = true, const Inputs& inputs = {});

  void reset() override;
  void reset_parameters();
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& device = std::nullopt) const override;

  MultiheadAttentionOptions options;
  /// Undefined where the options do not ask for them. Either in_proj_weight or the three others.
  at::Tensor in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias, bias_k, bias_v;
  torch::nn::Linear out_proj{nullptr};
  Attention attention{nullptr};  ///< what the formula learns; registered only if that is anything

 protected:
  FORWARD_HAS_DEFAULT_ARGS({3, torch::nn::AnyValue(at::Tensor())}, {4, torch::nn::AnyValue(true)},
                           {5, torch::nn::AnyValue(at::Tensor())}, {6, torch::nn::AnyValue(true)},
                           {7, torch::nn::AnyValue(Inputs())})

 private:
  struct Masks {
    at::Tensor keys;   // [batch, keys], true for real keys
    at::Tensor pairs;  // [batch or 1, heads or 1, queries, keys], in the sense of PairMask
  };
  // The same mechanism with a mask as one more input.
  struct Masked {
    std::string input;
    Attention attention{nullptr};
  };

  void check_options() const;
  void check_formula() const;
  void check_inputs(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) const;
  std::array<at::Tensor, 3> project(const at::Tensor& query, const at::Tensor& key,
                                    const at::Tensor& value) const;
  at::Tensor split_heads(const at::Tensor& projected) const;
  at::Tensor merge_heads(const at::Tensor& heads) const;
  Masks read_masks(const at::Tensor& key_padding_mask, const at::Tensor& attn_mask, int64_t batch,
                   int64_t queries, int64_t keys) const;
  int64_t appended_keys() const { return options.add_bias_kv + options.add_zero_attn; }

  Masked allowed_, added_;
};
TORCH_MODULE(MultiheadAttention);

}  // namespace saccade
