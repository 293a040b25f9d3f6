// What the numbers of a recipe must fulfil, and the architecture that they describe.
#include "saccade/train/recipe.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/formula/augment.h"

namespace saccade {
namespace {

template <class Value>
void expect(bool holds, std::string_view key, const Value& value, std::string_view expected) {
  require(holds, "recipe: {} is {}; expected {}", key, value, expected);
}

void expect_one_of(std::string_view key, const std::string& value, std::vector<std::string> choices) {
  for (const std::string& choice : choices)
    if (value == choice) return;
  fail("recipe: {} is '{}'; expected {}{}", key, printable(value), join(choices, ", "),
       did_you_mean(value, choices));
}

void check_model(const ModelOptions& o) {
  for (const auto& [key, value] :
       {std::pair{"model.width", o.width}, {"model.layers", o.layers}, {"model.heads", o.heads}})
    expect(value >= 1, key, value, "1 or more");
  for (const auto& [key, value] : {std::pair{"model.kv_heads", o.kv_heads},
                                   {"model.encoder_layers", o.encoder_layers},
                                   {"model.head_dim", o.head_dim},
                                   {"model.inner", o.inner},
                                   {"model.context", o.context},
                                   {"model.vocabulary", o.vocabulary}})
    expect(value >= 0, key, value, "0 or more");
  expect_one_of("model.family", o.family, {"saccade", "llama", "qwen3", "gpt2"});
  expect_one_of("model.positions", o.positions, {"rotary", "learned", "none"});
  expect_one_of("model.norm", o.norm, {"rms", "layer"});
  expect_one_of("model.activation", o.activation, {"silu", "gelu", "gelu_tanh", "relu"});
  expect_one_of("model.embedded_qkv", o.embedded_qkv, {"none", "first", "all"});
  expect(o.rotary_base > 0, "model.rotary_base", o.rotary_base, "more than 0");
  expect(o.initial_deviation >= 0, "model.initial_deviation", o.initial_deviation, "0 or more");
  expect(o.dropout >= 0 && o.dropout < 1, "model.dropout", o.dropout, "0 or more, less than 1");
  require(o.head_dim > 0 || o.width % o.heads == 0,
          "recipe: model.width is {}, which {} heads cannot share evenly; give model.head_dim", o.width,
          o.heads);
}

void check_train(const TrainOptions& o) {
  for (const auto& [key, value] : {std::pair{"train.steps", o.steps},
                                   {"train.batch", o.batch},
                                   {"train.validation_sequences", o.validation_sequences},
                                   {"train.keep", o.keep}})
    expect(value >= 1, key, value, "1 or more");
  for (const auto& [key, value] : {std::pair{"train.micro_batch", o.micro_batch},
                                   {"train.batch_tokens", o.batch_tokens},
                                   {"train.warmup", o.warmup},
                                   {"train.validate_every", o.validate_every},
                                   {"train.patience", o.patience},
                                   {"train.checkpoint_every", o.checkpoint_every},
                                   {"train.diagnose_every", o.diagnose_every}})
    expect(value >= 0, key, value, "0 or more");
  for (const auto& [key, value] : {std::pair{"train.formula_lr", o.formula_lr},
                                   {"train.weight_decay", o.weight_decay},
                                   {"train.clip", o.clip}})
    expect(value >= 0 && std::isfinite(value), key, value, "0 or more");
  for (const auto& [key, value] : {std::pair{"train.beta1", o.beta1},
                                   {"train.beta2", o.beta2},
                                   {"train.label_smoothing", o.label_smoothing},
                                   {"train.average", o.average}})
    expect(value >= 0 && value < 1, key, value, "0 or more, less than 1");
  expect(o.lr > 0 && std::isfinite(o.lr), "train.lr", o.lr, "more than 0");
  expect(o.epsilon > 0, "train.epsilon", o.epsilon, "more than 0");
  expect(o.min_lr >= 0 && o.min_lr <= 1, "train.min_lr", o.min_lr, "0 to 1, a share of train.lr");
  expect_one_of("train.schedule", o.schedule, {"cosine", "linear", "constant"});
  expect_one_of("train.dtype", o.dtype, {"float32", "bfloat16"});
}

int64_t rounded_up(double value, int64_t multiple) {
  return static_cast<int64_t>(std::ceil(value / static_cast<double>(multiple))) * multiple;
}

// What the family's files have no words for.
void check_family(const Architecture& a, const ModelOptions& o) {
  const auto refuse = [&](bool wrong, std::string_view key, std::string_view expected) {
    require(!wrong, "recipe: model.family is '{}', whose files need {} = {}; 'saccade' can be anything",
            o.family, key, expected);
  };
  if (o.family == "saccade") return;
  const bool gpt2 = o.family == "gpt2";
  refuse(a.encoder_layers > 0, "model.encoder_layers", "0");
  refuse(a.embedded_qkv != EmbeddedQkv::none, "model.embedded_qkv", "\"none\"");
  refuse(a.norm != (gpt2 ? NormKind::layer : NormKind::rms), "model.norm", gpt2 ? "\"layer\"" : "\"rms\"");
  refuse(a.gated == gpt2, "model.gated", gpt2 ? "false" : "true");
  refuse(o.bias != gpt2, "model.bias", gpt2 ? "true" : "false");
  refuse(o.positions != (gpt2 ? "learned" : "rotary"), "model.positions",
         gpt2 ? "\"learned\"" : "\"rotary\"");
  refuse(a.query_key_norm != (o.family == "qwen3"), "model.query_key_norm",
         o.family == "qwen3" ? "true" : "false");
  refuse(gpt2 && a.kv_heads != a.heads, "model.kv_heads", "model.heads");
  refuse(gpt2 && a.head_dim * a.heads != a.width, "model.head_dim", "model.width / model.heads");
  refuse(gpt2 && !a.tied, "model.tied", "true");
}

}  // namespace

const std::string& AttentionChoice::in(AttentionSlot slot) const {
  const std::string& own = slot == AttentionSlot::encoder   ? encoder
                           : slot == AttentionSlot::decoder ? decoder
                                                            : cross;
  return own.empty() ? all : own;
}

std::string AttentionChoice::title() const {
  std::vector<std::string> names;
  for (const AttentionSlot slot : {AttentionSlot::encoder, AttentionSlot::decoder, AttentionSlot::cross})
    names.push_back(std::filesystem::path(in(slot)).stem().string());
  if (names[0] == names[1] && names[1] == names[2]) return names[0];
  return join(names, "-");
}

namespace {

// Of what is set, the part that this formula has; a language model's formula must have all of it.
Overrides overrides_for(const Recipe& recipe, const std::string& name) {
  Overrides mine(recipe.set.begin(), recipe.set.end());
  if (!recipe.translates() || mine.empty()) return mine;
  std::set<std::string> known;
  for (const Statement& statement : Formula::load(name).syntax().statements) known.insert(statement.name);
  std::erase_if(mine, [&](const auto& item) { return item.first != "n" && !known.contains(item.first); });
  return mine;
}

void check_set(const Recipe& recipe) {
  if (!recipe.translates()) return;
  for (const auto& [key, value] : recipe.set) {
    bool known = false;
    for (const AttentionSlot slot : {AttentionSlot::encoder, AttentionSlot::decoder, AttentionSlot::cross})
      known |= overrides_for(recipe, recipe.attention.in(slot)).contains(key);
    require(known, "recipe: set.{} is a number of none of the formulas '{}', '{}' and '{}'", key,
            recipe.attention.in(AttentionSlot::encoder), recipe.attention.in(AttentionSlot::decoder),
            recipe.attention.in(AttentionSlot::cross));
  }
}

}  // namespace

Formula Recipe::formula(AttentionSlot slot) const {
  check_set(*this);
  const std::string& chosen = attention.in(slot);
  Overrides mine = overrides_for(*this, chosen);
  Formula formula = Formula::load(chosen, mine);
  if (formula.plan().uses_length()) {
    mine["n"] = static_cast<double>(model.context > 0 ? model.context : data.length);
    formula = Formula::load(chosen, mine);
  }
  return slot == AttentionSlot::decoder ? formula : without_causal(formula);
}

void Recipe::check() const {
  require(!name.empty() && name.find('/') == std::string::npos && name != "." && name != "..",
          "recipe: name is '{}'; expected a word that can name a folder", printable(name));
  check_model(model);
  check_train(train);
  const bool pairs = data.source == "parallel";
  require(!pairs || translates(),
          "recipe: data.source is 'parallel', which a language model cannot read; expected "
          "model.encoder_layers of 1 or more");
  require(train.batch_tokens == 0 || pairs,
          "recipe: train.batch_tokens is {}; only data.source = 'parallel' has sentences to sort by length",
          train.batch_tokens);
  require(!translates() || train.diagnose_every == 0,
          "recipe: train.diagnose_every is {}; expected 0 for a model that translates", train.diagnose_every);
  expect(data.length >= 1, "data.length", data.length, "1 or more");
  expect(sample.tokens >= 0, "sample.tokens", sample.tokens, "0 or more");
  expect(sample.temperature >= 0, "sample.temperature", sample.temperature, "0 or more");
}

bool may_change(std::string_view key) {
  constexpr std::string_view kKeys[] = {"name",
                                        "train.steps",
                                        "train.lr",
                                        "train.schedule",
                                        "train.warmup",
                                        "train.min_lr",
                                        "train.validate_every",
                                        "train.validation_sequences",
                                        "train.patience",
                                        "train.checkpoint_every",
                                        "train.keep",
                                        "train.diagnose_every",
                                        "train.micro_batch",
                                        "train.recompute"};
  return key.starts_with("sample.") || std::ranges::find(kKeys, key) != std::end(kKeys);
}

Architecture architecture_of(const Recipe& recipe, int64_t tokenizer_size) {
  const ModelOptions& o = recipe.model;
  Architecture a;
  a.family = o.family;
  require(o.vocabulary == 0 || o.vocabulary >= tokenizer_size,
          "recipe: model.vocabulary is {}; the tokenizer has {} tokens", o.vocabulary, tokenizer_size);
  a.vocabulary = o.vocabulary > 0 ? o.vocabulary : tokenizer_size;
  a.width = o.width;
  a.layers = o.layers;
  a.heads = o.heads;
  a.kv_heads = o.kv_heads > 0 ? o.kv_heads : o.heads;
  a.head_dim = o.head_dim > 0 ? o.head_dim : o.width / o.heads;
  a.inner = o.inner > 0 ? o.inner : rounded_up(static_cast<double>(o.width) * (o.gated ? 8.0 / 3 : 4.0), 32);
  a.context = o.context > 0 ? o.context : recipe.data.length;
  a.norm = o.norm == "rms" ? NormKind::rms : NormKind::layer;
  a.norm_epsilon = o.norm == "rms" ? 1e-6 : 1e-5;
  a.activation = o.activation == "silu"        ? Activation::silu
                 : o.activation == "gelu"      ? Activation::gelu
                 : o.activation == "gelu_tanh" ? Activation::gelu_tanh
                                               : Activation::relu;
  a.gated = o.gated;
  a.projection_bias = a.output_bias = a.mlp_bias = o.bias;
  a.query_key_norm = o.query_key_norm;
  a.embedded_qkv = o.embedded_qkv == "none"    ? EmbeddedQkv::none
                   : o.embedded_qkv == "first" ? EmbeddedQkv::first
                                               : EmbeddedQkv::all;
  a.dropout = o.dropout;
  a.tied = o.tied;
  a.encoder_layers = o.encoder_layers;
  a.shared_embedding = o.shared_embedding;
  if (o.positions == "rotary") a.rotary = RotaryOptions{.base = o.rotary_base};
  a.learned_positions = o.positions == "learned";
  check_family(a, o);
  a.check("recipe");
  return a;
}

}  // namespace saccade
