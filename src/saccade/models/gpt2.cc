// GPT-2: learned positions, layer norms, a plain MLP, weights stored the other way round.
#include "saccade/base/error.h"
#include "saccade/models/families.h"

namespace saccade {
namespace {

void shape_as_gpt2(Architecture& a) {
  a.family = "gpt2";
  a.norm = NormKind::layer;
  a.gated = false;
  a.projection_bias = a.output_bias = a.mlp_bias = true;
  a.learned_positions = true;
}

Architecture from_hub(const HubConfig& config) {
  Architecture a;
  shape_as_gpt2(a);
  a.vocabulary = config.size("vocab_size");
  a.width = config.size("n_embd");
  a.layers = config.size("n_layer");
  a.heads = a.kv_heads = config.size("n_head");
  if (a.width % a.heads != 0) config.refuse("n_embd", fmt::format("a multiple of n_head, {}", a.heads));
  a.head_dim = a.width / a.heads;
  a.inner = config.size("n_inner", 4 * a.width);
  a.context = config.size("n_positions", config.size("n_ctx", 1024));
  a.norm_epsilon = config.positive("layer_norm_epsilon", 1e-5);
  a.activation = activation_named(config, "activation_function", "gelu_new");
  a.tied = config.boolean("tie_word_embeddings", true);
  if (config.boolean("scale_attn_by_inverse_layer_idx", false))
    config.refuse("scale_attn_by_inverse_layer_idx", "false");
  if (!config.boolean("scale_attn_weights", true)) config.refuse("scale_attn_weights", "true");
  if (config.boolean("add_cross_attention", false)) config.refuse("add_cross_attention", "false");
  read_token_ids(a, config);
  return a;
}

Json to_hub(const Architecture& a) {
  Json config = {{"model_type", "gpt2"},
                 {"architectures", {"GPT2LMHeadModel"}},
                 {"vocab_size", a.vocabulary},
                 {"n_embd", a.width},
                 {"n_layer", a.layers},
                 {"n_head", a.heads},
                 {"n_inner", a.inner},
                 {"n_positions", a.context},
                 {"n_ctx", a.context},
                 {"layer_norm_epsilon", a.norm_epsilon},
                 {"activation_function", hub_name(a.activation)},
                 {"tie_word_embeddings", a.tied},
                 {"torch_dtype", "float32"}};
  write_token_ids(a, config);
  return config;
}

struct Names {
  const char *tokens, *positions, *norm, *output;
  const char *attention_norm, *projection, *attention_output, *mlp_norm, *up, *down;
};
constexpr Names kHub = {"~wte",
                        "~wpe",
                        "~ln_f",
                        "lm_head",
                        "~h.{}.ln_1",
                        "~h.{}.attn.c_attn",
                        "~h.{}.attn.c_proj",
                        "~h.{}.ln_2",
                        "~h.{}.mlp.c_fc",
                        "~h.{}.mlp.c_proj"};
constexpr Names kGguf = {"token_embd",       "position_embd",   "output_norm",        "output",
                         "blk.{}.attn_norm", "blk.{}.attn_qkv", "blk.{}.attn_output", "blk.{}.ffn_norm",
                         "blk.{}.ffn_up",    "blk.{}.ffn_down"};

std::vector<WeightRule> weights(const Architecture& a, const Names& names, WeightForm form) {
  std::vector<WeightRule> rules;
  rules.push_back({"tokens", {{std::string(names.tokens) + ".weight"}}});
  rules.push_back({"positions", {{std::string(names.positions) + ".weight"}}});
  for (const char* end : {".weight", ".bias"})
    rules.push_back({std::string("norm") + end, {{std::string(names.norm) + end}}});
  if (!a.tied) rules.push_back({"output.weight", {{std::string(names.output) + ".weight"}}});
  for (int64_t layer = 0; layer < a.layers; ++layer)
    for (const std::string end : {".weight", ".bias"}) {
      const auto add = [&](const char* ours, std::string theirs, bool matrix) {
        theirs.replace(theirs.find("{}"), 2, std::to_string(layer));
        rules.push_back({fmt::format("block_{}.{}{}", layer, ours, end),
                         {{theirs + end, matrix && end == ".weight" ? form : WeightForm::as_is}}});
      };
      add("attention_norm", names.attention_norm, false);
      add("projection", names.projection, true);
      add("output", names.attention_output, true);
      add("mlp_norm", names.mlp_norm, false);
      add("mlp.up", names.up, true);
      add("mlp.down", names.down, true);
    }
  return rules;
}

std::vector<WeightRule> hub_weights(const Architecture& a) {
  return weights(a, kHub, WeightForm::transposed);
}
std::vector<WeightRule> gguf_weights(const Architecture& a) { return weights(a, kGguf, WeightForm::as_is); }

Architecture from_gguf(const Gguf& file) {
  const auto size = [&](std::string_view key) { return gguf_size(file, key); };
  Architecture a;
  shape_as_gpt2(a);
  a.width = size("gpt2.embedding_length");
  a.layers = size("gpt2.block_count");
  a.heads = a.kv_heads = size("gpt2.attention.head_count");
  require(a.width % a.heads == 0, "{}: 'gpt2.embedding_length' is {}; expected a multiple of {} heads",
          file.where(), a.width, a.heads);
  a.head_dim = a.width / a.heads;
  a.inner = size("gpt2.feed_forward_length");
  a.context = size("gpt2.context_length");
  a.norm_epsilon = file.real("gpt2.attention.layer_norm_epsilon");
  a.activation = Activation::gelu_tanh;
  read_embedding(a, file);
  read_token_ids(a, file);
  return a;
}

}  // namespace

const Family& gpt2_family() {
  static const Family family{.name = "gpt2",
                             .hub_types = {"gpt2"},
                             .gguf_types = {"gpt2"},
                             .prefixes = {"transformer.", ""},
                             .probe = "~wte.weight",
                             .ignored = {".attn.bias", ".attn.masked_bias"},
                             .from_hub = from_hub,
                             .to_hub = to_hub,
                             .hub_weights = hub_weights,
                             .from_gguf = from_gguf,
                             .gguf_weights = gguf_weights};
  return family;
}

}  // namespace saccade
