// What a transformer is made of, as plain data: sizes, norms, positions, the shape of a block. One module
// reads it and is GPT-2, Llama, Qwen, Gemma or BERT; a family only says how its files spell this.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "saccade/attention/rotary.h"
#include "saccade/formula/formula.h"

namespace saccade {

enum class NormKind { layer, rms };
enum class Activation { gelu, gelu_tanh, silu, relu };
enum class BlockOrder {
  norm_before,  // x + f(norm(x))
  norm_after,   // norm(x + f(x))
  norm_around,  // x + norm(f(norm(x)))
};
// Layers whose queries, keys and values are looked up by the token, without a projection of what the layer
// reads (embedded QKV).
enum class EmbeddedQkv { none, first, all };
// What the last hidden states are for.
enum class HeadKind {
  none,            // hidden states, and embeddings of sentences
  language_model,  // the next token
  masked_model,    // tokens that were masked out
  classifier,      // a label for the whole text
};

struct Architecture {
  std::string family;  // its row in the table of families
  HeadKind head = HeadKind::language_model;
  bool causal = true;

  int64_t vocabulary = 0, width = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t inner = 0;             // width inside the MLP
  int64_t context = 0;           // tokens that it was made for
  int64_t token_types = 0;       // of segments; 0: there are none
  int64_t labels = 0;            // of a classifier
  int64_t encoder_layers = 0;    // of an encoder, at whose output all blocks look; 0: there is none
  bool shared_embedding = true;  // the encoder reads the same embedding of tokens

  NormKind norm = NormKind::rms;
  double norm_epsilon = 1e-5;
  BlockOrder order = BlockOrder::norm_before;
  Activation activation = Activation::silu;
  bool gated = true;  // activation(gate) * up
  bool projection_bias = false, output_bias = false, mlp_bias = false;
  bool query_key_norm = false;
  EmbeddedQkv embedded_qkv = EmbeddedQkv::none;
  double dropout = 0;  // in training, of what attention and MLP add, and of the embedding

  bool learned_positions = false;
  std::optional<RotaryOptions> rotary;
  std::optional<RotaryOptions> local_rotary;  // of layers with a window; none: as the others
  std::string rotary_source;     // the JSON that stretched frequencies came from, to write it again
  std::vector<int64_t> windows;  // by layer, how far it looks; 0: all the way. Empty: all do

  double embedding_scale = 1;
  double query_scale = 0;  // of scores; 0: one over the root of head_dim
  double logit_cap = 0;    // logits are cap * tanh(logits / cap); 0: as they are
  bool tied = true;        // the output reads the token embedding
  std::optional<int64_t> bos, pad;
  std::vector<int64_t> eos;

  // Throws Error, naming `where`, for what cannot be built.
  void check(const std::string& where) const;
  // The encoder's own, when there is one.
  Architecture encoder() const;
  // How the model attends in a layer, before anything is swapped.
  Formula formula(int64_t layer) const;
  int64_t window(int64_t layer) const { return windows.empty() ? 0 : windows[static_cast<size_t>(layer)]; }
  bool embeds_qkv(int64_t layer) const {
    return embedded_qkv == EmbeddedQkv::all || (embedded_qkv == EmbeddedQkv::first && layer == 0);
  }
  const std::optional<RotaryOptions>& rotary_of(int64_t layer) const {
    return window(layer) > 0 && local_rotary ? local_rotary : rotary;
  }
};

}  // namespace saccade
