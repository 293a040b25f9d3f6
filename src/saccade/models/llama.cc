// Llama 2 and 3 and models of their shape such as SmolLM2; Qwen 2 and 2.5, which have biases in front of the
// attention; Qwen 3, which has norms there instead.
#include "saccade/base/error.h"
#include "saccade/models/gated_decoder.h"

namespace saccade {
namespace {

void read_rotary_of(Architecture& a, const HubConfig& config) {
  const double base = config.positive("rope_theta", 10000);
  a.rotary = RotaryOptions{.base = base};
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (const auto parameters = config.find_object(key)) {
      a.rotary = read_rotary(*parameters, base, a.head_dim);
      if (!a.rotary->frequencies.empty()) a.rotary_source = parameters->print();
      return;
    }
}

Architecture from_hub(const HubConfig& config, const char* family) {
  Architecture a = gated_decoder_from_hub(config, "hidden_act");
  a.family = family;
  read_rotary_of(a, config);
  if (config.boolean("use_sliding_window", false) && config.has("sliding_window")) {
    const int64_t window = config.size("sliding_window");
    a.windows = read_layer_types(config, a.layers, window);
    if (!config.has("layer_types")) {
      const int64_t first = config.integer("max_window_layers", a.layers);
      for (int64_t layer = 0; layer < a.layers; ++layer) a.windows.push_back(layer >= first ? window : 0);
    }
  }
  return a;
}

Architecture llama_from_hub(const HubConfig& config) { return from_hub(config, "llama"); }

Architecture qwen2_from_hub(const HubConfig& config) {
  Architecture a = from_hub(config, "qwen2");
  a.projection_bias = true;
  a.output_bias = false;
  return a;
}

Architecture qwen3_from_hub(const HubConfig& config) {
  Architecture a = from_hub(config, "qwen3");
  a.query_key_norm = true;
  return a;
}

Json to_hub(const Architecture& a, const char* type, const char* name) {
  Json config = gated_decoder_to_hub(a, "hidden_act");
  config["model_type"] = type;
  config["architectures"] = {name};
  Json rope = {{"rope_type", "default"}, {"rope_theta", a.rotary->base}};
  if (!a.rotary->frequencies.empty()) {
    require(!a.rotary_source.empty(),
            "model: a file with stretched rotary angles does not say by which rule; "
            "config.json has no place for the angles themselves");
    rope = parse_json(a.rotary_source, "rope_parameters");
    rope["rope_theta"] = a.rotary->base;
  }
  config["rope_parameters"] = rope;
  config["rope_theta"] = a.rotary->base;
  if (!a.windows.empty()) {
    int64_t window = 0;
    Json types = Json::array();
    for (const int64_t length : a.windows) {
      types.push_back(length > 0 ? "sliding_attention" : "full_attention");
      window = std::max(window, length);
    }
    config["use_sliding_window"] = true;
    config["sliding_window"] = window;
    config["layer_types"] = types;
  }
  return config;
}

Json llama_to_hub(const Architecture& a) { return to_hub(a, "llama", "LlamaForCausalLM"); }
Json qwen2_to_hub(const Architecture& a) { return to_hub(a, "qwen2", "Qwen2ForCausalLM"); }
Json qwen3_to_hub(const Architecture& a) { return to_hub(a, "qwen3", "Qwen3ForCausalLM"); }

std::vector<WeightRule> hub_weights(const Architecture& a) {
  return gated_decoder_hub_weights(a, WeightForm::as_is);
}

Architecture from_gguf(const Gguf& file, const char* family) {
  Architecture a = gated_decoder_from_gguf(file, family);
  a.family = family;
  return a;
}
Architecture llama_from_gguf(const Gguf& file) { return from_gguf(file, "llama"); }
Architecture qwen2_from_gguf(const Gguf& file) { return from_gguf(file, "qwen2"); }
Architecture qwen3_from_gguf(const Gguf& file) { return from_gguf(file, "qwen3"); }

std::vector<WeightRule> llama_gguf_weights(const Architecture& a) {
  return gated_decoder_gguf_weights(a, WeightForm::interleaved);
}
std::vector<WeightRule> qwen_gguf_weights(const Architecture& a) {
  return gated_decoder_gguf_weights(a, WeightForm::as_is);
}

Family row(const char* name, Architecture (*read)(const HubConfig&), Json (*write)(const Architecture&),
           Architecture (*read_gguf)(const Gguf&),
           std::vector<WeightRule> (*gguf_weights)(const Architecture&)) {
  return {.name = name,
          .hub_types = {name},
          .gguf_types = {name},
          .prefixes = {"model.", ""},
          .probe = "~embed_tokens.weight",
          .ignored = {"rotary_emb.inv_freq", "rope_freqs.weight"},
          .from_hub = read,
          .to_hub = write,
          .hub_weights = hub_weights,
          .from_gguf = read_gguf,
          .gguf_weights = gguf_weights};
}

}  // namespace

const Family& llama_family() {
  static const Family family =
      row("llama", llama_from_hub, llama_to_hub, llama_from_gguf, llama_gguf_weights);
  return family;
}

const Family& qwen2_family() {
  static const Family family = row("qwen2", qwen2_from_hub, qwen2_to_hub, qwen2_from_gguf, qwen_gguf_weights);
  return family;
}

const Family& qwen3_family() {
  static const Family family = row("qwen3", qwen3_from_hub, qwen3_to_hub, qwen3_from_gguf, qwen_gguf_weights);
  return family;
}

}  // namespace saccade
