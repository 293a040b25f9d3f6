// The table of families, and the spelling that they share.
#include "saccade/models/families.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "saccade/base/error.h"
#include "saccade/base/text.h"

namespace saccade {

const Family& gpt2_family();
const Family& llama_family();
const Family& qwen2_family();
const Family& qwen3_family();
const Family& gemma3_family();
const Family& bert_family();
const Family& native_family();

std::span<const Family> families() {
  static const std::vector<Family> all{llama_family(), qwen2_family(), qwen3_family(), gemma3_family(),
                                       gpt2_family(),  bert_family(),  native_family()};
  return all;
}

namespace {

const Family& find_family(std::string_view type, const std::string& where, bool gguf) {
  std::vector<std::string> known;
  for (const Family& family : families())
    for (const std::string_view name : gguf ? family.gguf_types : family.hub_types) {
      if (name == type) return family;
      known.emplace_back(name);
    }
  fail("{}: the architecture '{}' is not known; known are {}", where, printable(type), join(known, ", "));
}

}  // namespace

const Family& hub_family(std::string_view type, const std::string& where) {
  return find_family(type, where, false);
}

const Family& gguf_family(std::string_view type, const std::string& where) {
  return find_family(type, where, true);
}

const Family& family_named(std::string_view name) {
  for (const Family& family : families())
    if (family.name == name) return family;
  fail("model: there is no family '{}'", name);
}

namespace {
// The first name is the one that is written.
const std::vector<std::pair<std::string_view, Activation>> kActivations = {
    {"gelu", Activation::gelu},
    {"gelu_new", Activation::gelu_tanh},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"silu", Activation::silu},
    {"swish", Activation::silu},
    {"relu", Activation::relu}};
}  // namespace

Activation activation_named(const HubConfig& config, std::string_view key, std::string_view otherwise) {
  const std::string name = config.text(key, otherwise);
  for (const auto& [known, activation] : kActivations)
    if (known == name) return activation;
  config.refuse(key, "gelu, gelu_new, gelu_pytorch_tanh, silu or relu");
}

std::string hub_name(Activation activation) {
  for (const auto& [name, known] : kActivations)
    if (known == activation) return std::string(name);
  return "";
}

std::vector<int64_t> token_ids(const HubConfig& config, std::string_view key) {
  if (!config.has(key)) return {};
  try {
    return {config.integer(key)};
  } catch (const Error&) {
    return config.integers(key);
  }
}

void read_token_ids(Architecture& architecture, const HubConfig& config) {
  const auto first = [&](std::string_view key) -> std::optional<int64_t> {
    const std::vector<int64_t> ids = token_ids(config, key);
    return ids.empty() ? std::nullopt : std::optional(ids.front());
  };
  architecture.bos = first("bos_token_id");
  architecture.pad = first("pad_token_id");
  architecture.eos = token_ids(config, "eos_token_id");
}

void write_token_ids(const Architecture& architecture, Json& config) {
  if (architecture.bos) config["bos_token_id"] = *architecture.bos;
  if (architecture.pad) config["pad_token_id"] = *architecture.pad;
  if (architecture.eos.size() == 1)
    config["eos_token_id"] = architecture.eos.front();
  else if (!architecture.eos.empty())
    config["eos_token_id"] = architecture.eos;
}

void read_token_ids(Architecture& architecture, const Gguf& file) {
  const auto id = [&](std::string_view key) -> std::optional<int64_t> {
    return file.has(key) ? std::optional(file.integer(key)) : std::nullopt;
  };
  architecture.bos = id("tokenizer.ggml.bos_token_id");
  architecture.pad = id("tokenizer.ggml.padding_token_id");
  if (const auto eos = id("tokenizer.ggml.eos_token_id")) architecture.eos = {*eos};
}

int64_t gguf_size(const Gguf& file, std::string_view key, std::optional<int64_t> otherwise) {
  const int64_t value = otherwise ? file.integer(key, *otherwise) : file.integer(key);
  require(value >= 1 && value < (int64_t{1} << 31), "{}: '{}' is {}; expected 1 or more", file.where(), key,
          value);
  return value;
}

const TensorView* gguf_tensor(const Gguf& file, std::string_view name) {
  const auto found = std::ranges::find(file.tensors(), name, &TensorView::name);
  return found == file.tensors().end() ? nullptr : &*found;
}

void read_embedding(Architecture& architecture, const Gguf& file) {
  const TensorView* embedding = gguf_tensor(file, "token_embd.weight");
  require(embedding && embedding->shape.size() == 2,
          "{}: there is no tensor 'token_embd.weight' of two dimensions", file.where());
  architecture.vocabulary = embedding->shape[0];
  architecture.tied = !gguf_tensor(file, "output.weight");
}

RotaryOptions read_rotary(const HubConfig& parameters, double base, int64_t dims) {
  const double share = parameters.real("partial_rotary_factor", 1);
  if (share != 1) parameters.refuse("partial_rotary_factor", "1");
  RotaryOptions options{.base = parameters.positive("rope_theta", base)};
  const std::string kind = parameters.text("rope_type", parameters.text("type", "default"));
  if (kind == "default") return options;
  const auto frequency = [&](int64_t pair) {
    return std::pow(options.base, -2.0 * static_cast<double>(pair) / static_cast<double>(dims));
  };
  if (kind == "linear") {
    const double factor = parameters.positive("factor");
    for (int64_t pair = 0; pair < dims / 2; ++pair) options.frequencies.push_back(frequency(pair) / factor);
    return options;
  }
  if (kind != "llama3")
    parameters.refuse(parameters.has("rope_type") ? "rope_type" : "type", "default, linear or llama3");
  // Slow pairs are stretched, fast ones are not, and between them there is a ramp.
  const double factor = parameters.positive("factor"), low = parameters.positive("low_freq_factor"),
               high = parameters.positive("high_freq_factor"),
               original = static_cast<double>(parameters.size("original_max_position_embeddings"));
  if (high <= low) parameters.refuse("high_freq_factor", "more than low_freq_factor");
  for (int64_t pair = 0; pair < dims / 2; ++pair) {
    const double plain = frequency(pair), turns = original * plain / (2 * std::numbers::pi);
    const double ramp = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    options.frequencies.push_back((1 - ramp) * plain / factor + ramp * plain);
  }
  return options;
}

}  // namespace saccade
