// All that decides a training, as plain data. Each group of options is listed once, by a visit function that
// feeds the TOML reader and writer, `key=value` on the command line, the help and the checks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "saccade/data/source.h"
#include "saccade/formula/formula.h"
#include "saccade/models/architecture.h"

namespace saccade {

// Which formula runs where. A language model has only a decoder.
enum class AttentionSlot { decoder, encoder, cross };

struct AttentionChoice {
  std::string all = "causal";
  std::string encoder, decoder, cross;  // empty: as `all`

  const std::string& in(AttentionSlot slot) const;
  // For a name: "gpam", or "full-causal" where slots differ.
  std::string title() const;
  bool operator==(const AttentionChoice&) const = default;
};

struct ModelOptions {
  std::string family = "saccade";
  int64_t width = 128, layers = 4, heads = 4;
  int64_t encoder_layers = 0;  // more than 0: the model translates
  int64_t kv_heads = 0;        // 0: as heads
  int64_t head_dim = 0;        // 0: width / heads
  int64_t inner = 0;           // 0: 8/3 of the width when gated, else 4 times, to a multiple of 32
  int64_t context = 0;         // 0: the data's length
  int64_t vocabulary = 0;      // 0: the tokenizer's
  std::string positions = "rotary";
  double rotary_base = 10000;
  std::string norm = "rms", activation = "silu";
  bool gated = true, bias = false, query_key_norm = false, tied = true;
  bool shared_embedding = true;
  std::string embedded_qkv = "none";
  double dropout = 0;
  double initial_deviation = 0.02;
};

struct TrainOptions {
  int64_t steps = 500;
  int64_t batch = 16;        // sequences
  int64_t batch_tokens = 0;  // more than 0: sequences of like length, as many as have so many tokens
  int64_t micro_batch = 0;   // sequences that are computed at once; 0: all of the batch
  double lr = 1e-3;
  double formula_lr = 1;  // of what formulas learn, as a multiple of lr
  std::string schedule = "cosine";
  int64_t warmup = 50;
  double min_lr = 0.1;  // at the end, as a share of lr
  double weight_decay = 0.1, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double clip = 1;  // 0: never
  double label_smoothing = 0;
  std::string dtype = "float32";
  bool recompute = false, separate_documents = true;
  double average = 0;
  int64_t validate_every = 100, validation_sequences = 64;
  int64_t patience = 0;  // validations without progress before it ends; 0: never
  int64_t checkpoint_every = 100, keep = 2;
  int64_t diagnose_every = 0;
};

struct SampleOptions {
  std::string prompt;  // empty: the begin of a text
  int64_t tokens = 60;
  double temperature = 0.8;
};

struct Recipe {
  std::string name = "run";
  AttentionChoice attention;
  std::map<std::string, double> set;  // constants and starts of the formula
  uint64_t seed = 1;
  ModelOptions model;
  DataOptions data;
  TrainOptions train;
  SampleOptions sample;

  bool translates() const { return model.encoder_layers > 0; }
  // In an encoder, and where a decoder looks at it, `causal` is no part of the mask. What is `set` goes to
  // the slots whose formula has it. A formula that reads n, the number of keys, gets the length of training
  // for it: only then can it decode, and means the same at every length.
  Formula formula(AttentionSlot slot = AttentionSlot::decoder) const;
  // Throws Error for values without a meaning.
  void check() const;
};

// A visitor is called with each option's name, its member, and what it is.
template <class Options, class Visitor>
void visit_model(Options& o, Visitor&& option) {
  option("family", o.family, "how files spell it: saccade, llama, qwen3 or gpt2");
  option("width", o.width, "numbers per token");
  option("layers", o.layers, "blocks");
  option("encoder_layers", o.encoder_layers, "of an encoder, for translation; 0: a language model");
  option("heads", o.heads, "of queries");
  option("kv_heads", o.kv_heads, "of keys and values; 0: as many as heads");
  option("head_dim", o.head_dim, "width of a head; 0: width / heads");
  option("inner", o.inner, "width inside the MLP; 0: the usual for its kind");
  option("context", o.context, "tokens that learned positions reach; 0: data.length");
  option("vocabulary", o.vocabulary, "at least so many tokens; 0: as many as the tokenizer has");
  option("positions", o.positions, "rotary, learned or none");
  option("rotary_base", o.rotary_base, "of rotary positions");
  option("norm", o.norm, "rms or layer");
  option("activation", o.activation, "silu, gelu, gelu_tanh or relu");
  option("gated", o.gated, "the MLP multiplies by a gate");
  option("bias", o.bias, "on all products of a block");
  option("query_key_norm", o.query_key_norm, "norms on queries and keys");
  option("tied", o.tied, "the output reads the token embedding");
  option("shared_embedding", o.shared_embedding, "encoder and decoder read one token embedding");
  option("embedded_qkv", o.embedded_qkv,
         "queries, keys and values looked up by the token: none, first (layer) or all");
  option("dropout", o.dropout, "share of numbers left out in training");
  option("initial_deviation", o.initial_deviation, "of starting weights; 0: by the number of inputs");
}

template <class Options, class Visitor>
void visit_data(Options& o, Visitor&& option) {
  option("source", o.source,
         "stories, recall, induction, passkey or translation; text, jsonl, tokens or parallel");
  option("train", o.train, "files");
  option("train_target", o.train_target, "of parallel: translations; none: files of TSV or JSONL");
  option("validation", o.validation, "files; none: a share is held out");
  option("validation_target", o.validation_target, "of parallel: translations of the validation files");
  option("validation_share", o.validation_share, "of the documents");
  option("tokenizer", o.tokenizer, "bytes, bpe:<size>, a tokenizer.json or a model");
  option("text_field", o.text_field, "of JSONL: which member is the text");
  option("source_field", o.source_field, "of JSONL with pairs: the sentence, such as translation.en");
  option("target_field", o.target_field, "of JSONL with pairs: its translation");
  option("concatenate", o.concatenate, "of parallel: most neighbours that are joined to one document");
  option("documents", o.documents, "what divides text: file, blank, line or heading");
  option("length", o.length, "tokens in a sequence");
  option("generator_size", o.generator_size, "of built-in data: how much there is to remember; 0: as fits");
}

template <class Options, class Visitor>
void visit_train(Options& o, Visitor&& option) {
  option("steps", o.steps, "of the optimiser");
  option("batch", o.batch, "sequences in a step, over all processes");
  option("batch_tokens", o.batch_tokens,
         "of parallel: tokens in a step, of sentences of like length; 0: train.batch counts");
  option("micro_batch", o.micro_batch, "sequences computed at once, gradients are added up; 0: all");
  option("lr", o.lr, "learning rate at its highest");
  option("formula_lr", o.formula_lr, "of what formulas learn, as a multiple of lr; 0: they stay as they are");
  option("schedule", o.schedule, "cosine, linear or constant, after the warm-up");
  option("warmup", o.warmup, "steps in which the rate rises from 0");
  option("min_lr", o.min_lr, "at the end, as a share of lr");
  option("weight_decay", o.weight_decay, "of matrices; gains, biases and formulas have none");
  option("beta1", o.beta1, "of AdamW");
  option("beta2", o.beta2, "of AdamW");
  option("epsilon", o.epsilon, "of AdamW");
  option("clip", o.clip, "longest gradient; 0: any");
  option("label_smoothing", o.label_smoothing, "share of each target spread over all tokens");
  option("dtype", o.dtype, "of products in training: float32 or bfloat16");
  option("recompute", o.recompute, "compute blocks again in the backward pass instead of remembering them");
  option("separate_documents", o.separate_documents, "packed documents do not see each other");
  option("average", o.average,
         "decay of the exponential average of weights that is validated and kept; 0: none");
  option("validate_every", o.validate_every, "steps; 0: only at the end");
  option("validation_sequences", o.validation_sequences, "read in each validation");
  option("patience", o.patience, "validations without progress before it ends; 0: to the last step");
  option("checkpoint_every", o.checkpoint_every, "steps; 0: only at the end");
  option("keep", o.keep, "newest checkpoints that stay, besides the best");
  option("diagnose_every", o.diagnose_every, "steps between looks inside; 0: never");
}

template <class Options, class Visitor>
void visit_sample(Options& o, Visitor&& option) {
  option("prompt", o.prompt, "text to go on with at the end; empty: from nothing");
  option("tokens", o.tokens, "0: no sample");
  option("temperature", o.temperature, "0: the most likely token");
}

// Groups are visited through `group`, called with a name and a function that visits its options; `set` as a
// map.
template <class AnyRecipe, class Visitor>
void visit_recipe(AnyRecipe& recipe, Visitor&& visitor) {
  visitor("name", recipe.name, "of the run's folder");
  visitor("attention", recipe.attention,
          "a mechanism or an .attn file; or by slot: { encoder, decoder, cross }");
  visitor("set", recipe.set, "constants of the formula, and where its params start");
  visitor("seed", recipe.seed, "of weights, data and dropout");
  visitor.group("model", [&](auto& option) { visit_model(recipe.model, option); });
  visitor.group("data", [&](auto& option) { visit_data(recipe.data, option); });
  visitor.group("train", [&](auto& option) { visit_train(recipe.train, option); });
  visitor.group("sample", [&](auto& option) { visit_sample(recipe.sample, option); });
}

// Whether a training may go on with another value of this key ("train.steps"): all others would make another
// training of it.
bool may_change(std::string_view key);

// What the model is made of, for a tokenizer of so many tokens. Throws Error for what a family cannot spell.
Architecture architecture_of(const Recipe& recipe, int64_t tokenizer_size);

}  // namespace saccade
