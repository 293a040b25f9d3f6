// One transformer for all families: embeddings, blocks with an attention slot each, a head. What it is made
// of is an Architecture; how it attends is a formula per layer, which can be swapped without touching a
// weight.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "saccade/attention/attention.h"
#include "saccade/models/architecture.h"
#include "saccade/models/cross_attention.h"
#include "saccade/models/layers.h"

namespace saccade {

// What decoding remembers, layer by layer.
class ModelCache {
 public:
  explicit ModelCache(std::vector<KvCache> layers) : layers_(std::move(layers)) {}

  int64_t length() const { return layers_.front().length(); }
  void reset();
  void crop(int64_t length);
  void reorder(const at::Tensor& indices);
  KvCache& layer(int64_t index) { return layers_[static_cast<size_t>(index)]; }

  // The real tokens of each sequence so far, [batch]; undefined: all are real. Positions are counted from
  // these.
  at::Tensor real_tokens;

  // What an encoder has read, layer by layer; empty before it has read anything.
  const std::vector<CrossMemory>& memory() const { return memory_; }
  void set_memory(std::vector<CrossMemory> memory);

 private:
  std::vector<KvCache> layers_;
  std::vector<CrossMemory> memory_;
  at::Tensor sources_;  // the number of the source that each sequence translates
};

struct ModelCall {
  at::Tensor ids;       // [batch, tokens]
  at::Tensor key_mask;  // [batch, tokens], true for real tokens, false for padding; undefined: all are real
  // Of a model with an encoder: what it reads, [batch, source tokens], and which of it is no padding. With a
  // cache they are given once, with the first tokens.
  at::Tensor source, source_mask;
  at::Tensor token_types;  // [batch, tokens]; undefined: all are 0
  ModelCache* cache = nullptr;
  bool last_only =
      false;  // the last token's hidden state is enough, [batch, 1, width]: the last block then does less
  std::map<std::string, at::Tensor> inputs;  // the formulas' own
  // The document that each token belongs to, [batch, tokens] of 64-bit integers: tokens see only those of
  // their own. Undefined: all belong to one. Not with a cache.
  at::Tensor documents;
  // In training: what dropout draws its numbers from. The same seed leaves out the same, sequence by
  // sequence, of which the first has the number `first_sequence`: how sequences are put into batches changes
  // nothing.
  uint64_t dropout_seed = 0;
  int64_t first_sequence = 0;
  // In training: keep only what enters each block and compute the rest again in the backward pass, for less
  // memory and a third more work.
  bool recompute = false;
  std::vector<at::Tensor>* hidden_states =
      nullptr;  // filled with what enters each block, and the last output
  // Called with what enters the attention of each layer: after the norm where one comes before it. It leads
  // to nothing else, so its gradient is that of the attention alone.
  std::function<void(int64_t layer, const at::Tensor&)> on_attention_input;
  // Called after the attention of each layer, with its weights: that is slow and holds one n x n map at once.
  std::function<void(int64_t layer, const AttentionResult&)> on_attention;
  // Called with what leaves each block; of the last one that is before the last norm.
  std::function<void(int64_t layer, const at::Tensor&)> on_block;
};

class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(const Architecture& architecture, int64_t layer);

  // `last_only`: of the last token alone; the others are still attended to. `memory`: of a block with
  // cross-attention, what it looks at.
  at::Tensor forward(const at::Tensor& x, const ModelCall& call, KvCache* cache, bool last_only = false,
                     const CrossMemory* memory = nullptr);
  // What the attention makes of its input, with the projections around it.
  at::Tensor attend(const at::Tensor& x, const ModelCall& call, KvCache* cache = nullptr,
                    bool last_only = false);
  void set_formula(const Formula& formula, Path path);

  Projection projection{nullptr};  // queries, keys and values in one product
  at::Tensor token_projection;     // or looked up by the token, [vocabulary, all their widths]
  Norm query_norm{nullptr}, key_norm{nullptr};
  Projection output{nullptr};
  Norm attention_norm{nullptr}, attention_after_norm{nullptr}, mlp_norm{nullptr}, mlp_after_norm{nullptr};
  Mlp mlp{nullptr};
  Attention attention{nullptr};
  CrossAttention cross{nullptr};  // of a model with an encoder

 private:
  at::Tensor drop(const at::Tensor& x, const ModelCall& call, int64_t place) const;

  // The attention that keeps documents apart, with the learned values of `attention`; made when it is needed.
  struct Apart {
    Attention attention{nullptr};
    std::string input;
  };
  const Apart& apart();

  const Architecture architecture_;
  int64_t layer_;
  std::optional<Apart> apart_;
};
TORCH_MODULE(Block);

class TransformerImpl : public torch::nn::Module {
 public:
  // With weights that are allocated and not yet set. Throws Error for what cannot be built.
  explicit TransformerImpl(Architecture architecture);
  // An encoder that reads the embedding of another model, to which that embedding belongs.
  TransformerImpl(Architecture architecture, at::Tensor tokens);

  // The last hidden states, [batch, tokens, width], after the last norm.
  at::Tensor forward(const ModelCall& call);
  // What enters the first block, for whoever goes through the blocks one by one.
  at::Tensor embed(const ModelCall& call);
  // What forward does after the last block.
  at::Tensor finish(const at::Tensor& x) { return norm_.is_empty() ? x : norm_->forward(x); }
  // Logits of a language or masked model from hidden states, [..., vocabulary].
  at::Tensor logits(const at::Tensor& hidden);
  // The matrix that makes logits, [vocabulary, width], for whoever never holds all logits at once.
  const at::Tensor& output_weight() const { return architecture_.tied ? tokens_ : output_->weight; }
  // Logits of a classifier from hidden states, [batch, labels].
  at::Tensor classify(const at::Tensor& hidden);
  // One vector of length 1 per text: the mean over its real tokens.
  static at::Tensor sentence_embeddings(const at::Tensor& hidden, const at::Tensor& key_mask);

  // A second transformer over the same weights and, until either is given another, the same attention: for a
  // model beside itself with other formulas. Neither copies a weight.
  std::shared_ptr<TransformerImpl> twin() const;
  // Swaps the attention of all layers, or layer by layer. What a formula learns starts at its declared value.
  void set_attention(const Formula& formula);
  void set_attention(const std::vector<Formula>& formulas);
  void restore_attention();
  void set_path(Path path);
  // How the decoder looks at the encoder's output, in all layers.
  void set_cross_attention(const std::vector<Formula>& formulas);
  // The encoder, or null.
  const std::shared_ptr<TransformerImpl>& encoder() const { return encoder_; }
  // Brings all that formulas learn back into its bounds; after each step of an optimiser.
  void clamp_formulas();
  // Throws Error unless every layer can decode.
  ModelCache make_cache() const;

  const Architecture& architecture() const { return architecture_; }
  const Formula& formula(int64_t layer) const {
    return blocks_[static_cast<size_t>(layer)]->attention->formula();
  }
  Block block(int64_t layer) const { return blocks_[static_cast<size_t>(layer)]; }
  int64_t parameter_count() const;
  // Keeps a matrix also as the small integers that its file has, which makes decoding faster. `name` is the
  // parameter's; one that is no matrix of a product is ignored.
  void keep_compact(const std::string& name, std::shared_ptr<CompactWeight> weight);

 private:
  void build(const at::Tensor& tokens);
  // What the blocks' cross-attention looks at; empty without an encoder.
  std::vector<CrossMemory> read_source(const ModelCall& call);

  Architecture architecture_;
  Path path_ = Path::automatic;
  at::Tensor tokens_, positions_, types_;  // embeddings
  Norm embedding_norm_{nullptr}, norm_{nullptr}, head_norm_{nullptr};
  Projection output_{nullptr}, head_{nullptr}, pooler_{nullptr}, classifier_{nullptr};
  at::Tensor output_bias_;
  std::shared_ptr<const CompactWeight> compact_tokens_;
  std::vector<Block> blocks_;
  std::shared_ptr<TransformerImpl> encoder_;
};
TORCH_MODULE(Transformer);

}  // namespace saccade
