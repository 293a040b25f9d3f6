// Names in the files, side by side with ours.
#include "saccade/models/gated_decoder.h"

#include <algorithm>
#include <cmath>

#include "saccade/base/error.h"
#include "saccade/weights/dequantise.h"

namespace saccade {

Architecture gated_decoder_from_hub(const HubConfig& config, std::string_view activation_key) {
  Architecture a;
  a.vocabulary = config.size("vocab_size");
  a.width = config.size("hidden_size");
  a.layers = config.size("num_hidden_layers");
  a.heads = config.size("num_attention_heads");
  a.kv_heads = config.size("num_key_value_heads", a.heads);
  if (!config.has("head_dim") && a.width % a.heads != 0)
    config.refuse("hidden_size", fmt::format("a multiple of num_attention_heads, {}", a.heads));
  a.head_dim = config.size("head_dim", a.width / a.heads);
  a.inner = config.size("intermediate_size");
  a.context = config.size("max_position_embeddings");
  a.norm_epsilon = config.positive("rms_norm_eps", 1e-6);
  a.activation = activation_named(config, activation_key, "silu");
  a.output_bias = a.projection_bias = config.boolean("attention_bias", false);
  a.mlp_bias = config.boolean("mlp_bias", false);
  a.tied = config.boolean("tie_word_embeddings", false);
  read_token_ids(a, config);
  return a;
}

Json gated_decoder_to_hub(const Architecture& a, std::string_view activation_key) {
  Json config = {{"vocab_size", a.vocabulary},
                 {"hidden_size", a.width},
                 {"num_hidden_layers", a.layers},
                 {"num_attention_heads", a.heads},
                 {"num_key_value_heads", a.kv_heads},
                 {"head_dim", a.head_dim},
                 {"intermediate_size", a.inner},
                 {"max_position_embeddings", a.context},
                 {"rms_norm_eps", a.norm_epsilon},
                 {"attention_bias", a.output_bias},
                 {"mlp_bias", a.mlp_bias},
                 {"tie_word_embeddings", a.tied},
                 {"torch_dtype", "float32"}};
  config[std::string(activation_key)] =
      a.activation == Activation::gelu_tanh ? "gelu_pytorch_tanh" : hub_name(a.activation);
  write_token_ids(a, config);
  return config;
}

Architecture gated_decoder_from_gguf(const Gguf& file, const std::string& prefix) {
  const auto key = [&](std::string_view name) { return prefix + "." + std::string(name); };
  const auto size = [&](std::string_view name, std::optional<int64_t> otherwise = {}) {
    return gguf_size(file, key(name), otherwise);
  };
  Architecture a;
  a.width = size("embedding_length");
  a.layers = size("block_count");
  a.heads = size("attention.head_count");
  a.kv_heads = size("attention.head_count_kv", a.heads);
  a.head_dim = size("attention.key_length", std::max<int64_t>(1, a.width / a.heads));
  require(file.integer(key("attention.value_length"), a.head_dim) == a.head_dim,
          "{}: '{}' is {}; expected as for keys, {}", file.where(), key("attention.value_length"),
          file.integer(key("attention.value_length"), a.head_dim), a.head_dim);
  a.inner = size("feed_forward_length");
  a.context = size("context_length");
  a.norm_epsilon = file.real(key("attention.layer_norm_rms_epsilon"));
  read_embedding(a, file);
  a.projection_bias = gguf_tensor(file, "blk.0.attn_q.bias");
  a.query_key_norm = gguf_tensor(file, "blk.0.attn_q_norm.weight");
  RotaryOptions rotary{.base = file.real(key("rope.freq_base"), 10000)};
  require(file.integer(key("rope.dimension_count"), a.head_dim) == a.head_dim,
          "{}: '{}' is {}; expected the width of a head, {}", file.where(), key("rope.dimension_count"),
          file.integer(key("rope.dimension_count"), a.head_dim), a.head_dim);
  const std::string scaling = file.text(key("rope.scaling.type"), "none");
  const double factor = scaling == "linear" ? file.real(key("rope.scaling.factor")) : 1;
  require((scaling == "none" || scaling == "linear") && factor > 0,
          "{}: '{}' is '{}'; expected none or linear", file.where(), key("rope.scaling.type"), scaling);
  const TensorView* stretched =
      gguf_tensor(file, "rope_freqs.weight");  // Llama 3: by how much each pair is slowed down
  if (stretched || factor != 1) {
    std::vector<float> factors(static_cast<size_t>(a.head_dim / 2), static_cast<float>(factor));
    if (stretched) {
      require(stretched->elements() == a.head_dim / 2, "{}: 'rope_freqs.weight' has {} numbers; expected {}",
              file.where(), stretched->elements(), a.head_dim / 2);
      to_floats(*stretched, factors.data());
    }
    for (size_t pair = 0; pair < factors.size(); ++pair)
      rotary.frequencies.push_back(
          std::pow(rotary.base, -2.0 * static_cast<double>(pair) / static_cast<double>(a.head_dim)) /
          static_cast<double>(factors[pair]));
  }
  a.rotary = rotary;
  read_token_ids(a, file);
  return a;
}

namespace {

// The names of one file format, with "{}" for the layer.
struct Names {
  const char *tokens, *norm, *output;
  const char *attention_norm, *attention_after_norm, *mlp_norm, *mlp_after_norm;
  const char *query, *key, *value, *attention_output, *query_norm, *key_norm;
  const char *gate, *up, *down;
};

constexpr Names kHub = {"~embed_tokens",
                        "~norm",
                        "lm_head",
                        "~layers.{}.input_layernorm",
                        "~layers.{}.post_attention_layernorm",
                        "~layers.{}.post_attention_layernorm",
                        "~layers.{}.post_feedforward_layernorm",
                        "~layers.{}.self_attn.q_proj",
                        "~layers.{}.self_attn.k_proj",
                        "~layers.{}.self_attn.v_proj",
                        "~layers.{}.self_attn.o_proj",
                        "~layers.{}.self_attn.q_norm",
                        "~layers.{}.self_attn.k_norm",
                        "~layers.{}.mlp.gate_proj",
                        "~layers.{}.mlp.up_proj",
                        "~layers.{}.mlp.down_proj"};
constexpr Names kGguf = {"token_embd",
                         "output_norm",
                         "output",
                         "blk.{}.attn_norm",
                         "blk.{}.post_attention_norm",
                         "blk.{}.ffn_norm",
                         "blk.{}.post_ffw_norm",
                         "blk.{}.attn_q",
                         "blk.{}.attn_k",
                         "blk.{}.attn_v",
                         "blk.{}.attn_output",
                         "blk.{}.attn_q_norm",
                         "blk.{}.attn_k_norm",
                         "blk.{}.ffn_gate",
                         "blk.{}.ffn_up",
                         "blk.{}.ffn_down"};

std::vector<WeightRule> weights(const Architecture& a, const Names& names, WeightForm norm,
                                WeightForm rotary) {
  std::vector<WeightRule> rules;
  const auto named = [](const char* name, int64_t layer, const char* end) {
    std::string text = name;
    if (const size_t at = text.find("{}"); at != std::string::npos)
      text.replace(at, 2, std::to_string(layer));
    return text + end;
  };
  rules.push_back({"tokens", {{named(names.tokens, 0, ".weight")}}});
  rules.push_back({"norm.weight", {{named(names.norm, 0, ".weight"), norm}}});
  if (!a.tied) rules.push_back({"output.weight", {{named(names.output, 0, ".weight")}}});
  for (int64_t layer = 0; layer < a.layers; ++layer) {
    const std::string block = fmt::format("block_{}.", layer);
    const auto add_norm = [&](const char* ours, const char* theirs) {
      rules.push_back({block + ours + ".weight", {{named(theirs, layer, ".weight"), norm}}});
    };
    const auto add = [&](const std::string& ours, std::vector<WeightPart> parts, bool bias) {
      for (const char* end : {".weight", ".bias"}) {
        if (std::string_view(end) == ".bias" && !bias) continue;
        std::vector<WeightPart> ended = parts;
        for (WeightPart& part : ended) part.name = named(part.name.c_str(), layer, end);
        rules.push_back({block + ours + end, ended});
      }
    };
    const bool around = a.order == BlockOrder::norm_around;
    add_norm("attention_norm", names.attention_norm);
    // Around, Gemma calls the norm after the attention what Llama calls the one before the MLP.
    if (around) add_norm("attention_after_norm", names.attention_after_norm);
    add_norm("mlp_norm", around && &names == &kHub ? "~layers.{}.pre_feedforward_layernorm" : names.mlp_norm);
    if (around) add_norm("mlp_after_norm", names.mlp_after_norm);
    add("projection", {{names.query, rotary, a.heads}, {names.key, rotary, a.kv_heads}, {names.value}},
        a.projection_bias);
    add("output", {{names.attention_output}}, a.output_bias);
    if (a.query_key_norm) {
      add_norm("query_norm", names.query_norm);
      add_norm("key_norm", names.key_norm);
    }
    add("mlp.up", {{names.gate}, {names.up}}, a.mlp_bias);
    add("mlp.down", {{names.down}}, a.mlp_bias);
  }
  return rules;
}

}  // namespace

std::vector<WeightRule> gated_decoder_hub_weights(const Architecture& architecture, WeightForm norm) {
  return weights(architecture, kHub, norm, WeightForm::as_is);
}

std::vector<WeightRule> gated_decoder_gguf_weights(const Architecture& architecture, WeightForm rotary) {
  return weights(architecture, kGguf, WeightForm::as_is, rotary);
}

std::vector<int64_t> read_layer_types(const HubConfig& config, int64_t layers, int64_t window) {
  std::vector<int64_t> windows;
  if (!config.has("layer_types")) return windows;
  const std::vector<std::string> types = config.texts("layer_types");
  if (static_cast<int64_t>(types.size()) != layers)
    config.refuse("layer_types", fmt::format("one for each of {} layers", layers));
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "sliding_attention")
      config.refuse("layer_types", "full_attention or sliding_attention");
    windows.push_back(type == "sliding_attention" ? window : 0);
  }
  if (std::ranges::all_of(windows, [](int64_t length) { return length == 0; })) windows.clear();
  return windows;
}

}  // namespace saccade
