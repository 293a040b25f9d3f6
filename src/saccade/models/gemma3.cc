// Gemma 3, text only: norms around attention and MLP, norms of queries and keys, five layers with a window
// for each one without, and another base of the rotary angles in those.
#include <algorithm>
#include <cmath>

#include "saccade/base/error.h"
#include "saccade/models/gated_decoder.h"

namespace saccade {
namespace {

void shape_as_gemma(Architecture& a) {
  a.family = "gemma3";
  a.order = BlockOrder::norm_around;
  a.activation = Activation::gelu_tanh;
  a.query_key_norm = true;
  // The model multiplies by a number of 16 bits with 8 digits, which is what it was trained with.
  a.embedding_scale = std::sqrt(static_cast<double>(a.width));
}

std::vector<int64_t> every_sixth_looks_far(int64_t layers, int64_t window, int64_t pattern) {
  std::vector<int64_t> windows;
  for (int64_t layer = 0; layer < layers; ++layer) windows.push_back((layer + 1) % pattern == 0 ? 0 : window);
  return windows;
}

Architecture from_hub(const HubConfig& given) {
  const auto inner = given.find_object("text_config");  // of a model that also sees
  const HubConfig& config = inner ? *inner : given;
  Architecture a = gated_decoder_from_hub(config, "hidden_activation");
  shape_as_gemma(a);
  a.head_dim = config.size("head_dim", 256);
  a.activation = activation_named(config, "hidden_activation", "gelu_pytorch_tanh");
  a.tied = config.boolean("tie_word_embeddings", true);
  a.query_scale = 1 / std::sqrt(config.positive("query_pre_attn_scalar", 256));
  if (config.has("attn_logit_softcapping"))
    config.refuse("attn_logit_softcapping", "nothing: Gemma 3 has none");
  if (config.boolean("use_bidirectional_attention", false))
    config.refuse("use_bidirectional_attention", "false");
  a.logit_cap = config.real("final_logit_softcapping", 0);
  const int64_t window = config.size("sliding_window", 4096);
  a.windows = config.has("layer_types")
                  ? read_layer_types(config, a.layers, window)
                  : every_sixth_looks_far(a.layers, window, config.size("sliding_window_pattern", 6));
  const double base = config.positive("rope_theta", 1e6),
               local = config.positive("rope_local_base_freq", 1e4);
  a.rotary = RotaryOptions{.base = base};
  a.local_rotary = RotaryOptions{.base = local};
  const auto parameters = config.find_object("rope_parameters");
  if (const auto far =
          parameters ? parameters->find_object("full_attention") : config.find_object("rope_scaling")) {
    a.rotary = read_rotary(*far, base, a.head_dim);
    if (!a.rotary->frequencies.empty()) a.rotary_source = far->print();
  }
  if (const auto near = parameters ? parameters->find_object("sliding_attention") : std::nullopt)
    a.local_rotary = read_rotary(*near, local, a.head_dim);
  return a;
}

Json to_hub(const Architecture& a) {
  Json config = gated_decoder_to_hub(a, "hidden_activation");
  config["model_type"] = "gemma3_text";
  config["architectures"] = {"Gemma3ForCausalLM"};
  config["query_pre_attn_scalar"] =
      a.query_scale > 0 ? std::llround(1 / (a.query_scale * a.query_scale)) : a.head_dim;
  if (a.logit_cap > 0) config["final_logit_softcapping"] = a.logit_cap;
  Json types = Json::array();
  int64_t window = 0;
  for (int64_t layer = 0; layer < a.layers; ++layer) {
    types.push_back(a.window(layer) > 0 ? "sliding_attention" : "full_attention");
    window = std::max(window, a.window(layer));
  }
  config["layer_types"] = types;
  if (window > 0) config["sliding_window"] = window;
  Json far = {{"rope_type", "default"}};
  require(a.rotary->frequencies.empty() || !a.rotary_source.empty(),
          "model: a file with stretched rotary angles does not say by which rule");
  if (!a.rotary_source.empty()) far = parse_json(a.rotary_source, "rope_parameters");
  far["rope_theta"] = a.rotary->base;
  const double local = a.local_rotary ? a.local_rotary->base : a.rotary->base;
  config["rope_parameters"] = {{"full_attention", far},
                               {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", local}}}};
  return config;
}

std::vector<WeightRule> hub_weights(const Architecture& a) {
  return gated_decoder_hub_weights(a, WeightForm::plus_one);
}

Architecture from_gguf(const Gguf& file) {
  Architecture a = gated_decoder_from_gguf(file, "gemma3");
  shape_as_gemma(a);
  const int64_t window = file.integer("gemma3.attention.sliding_window", 0);
  require(window >= 0 && window < (int64_t{1} << 31), "{}: 'gemma3.attention.sliding_window' is {}",
          file.where(), window);
  if (window > 0) a.windows = every_sixth_looks_far(a.layers, window, 6);
  a.local_rotary = RotaryOptions{.base = file.real("gemma3.rope.local.freq_base", 10000)};
  return a;
}

std::vector<WeightRule> gguf_weights(const Architecture& a) {
  return gated_decoder_gguf_weights(a, WeightForm::as_is);
}

}  // namespace

const Family& gemma3_family() {
  static const Family family{.name = "gemma3",
                             .hub_types = {"gemma3_text", "gemma3"},
                             .gguf_types = {"gemma3"},
                             .prefixes = {"model.", "language_model.model.", "model.language_model.", ""},
                             .probe = "~embed_tokens.weight",
                             .ignored = {"rotary_emb.inv_freq"},
                             .from_hub = from_hub,
                             .to_hub = to_hub,
                             .hub_weights = hub_weights,
                             .from_gguf = from_gguf,
                             .gguf_weights = gguf_weights};
  return family;
}

}  // namespace saccade
