// Our own models, as training writes them: config.json is the architecture word for word, and the tensors
// have the names that they have here. Nothing is lost, whatever the model is made of.
#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/models/families.h"
#include "saccade/models/parameter_names.h"
#include "saccade/models/transformer.h"

namespace saccade {
namespace {

template <class Kind>
struct Named {
  std::string_view name;
  Kind kind;
};

constexpr Named<NormKind> kNorms[] = {{"layer", NormKind::layer}, {"rms", NormKind::rms}};
constexpr Named<Activation> kActivations[] = {{"gelu", Activation::gelu},
                                              {"gelu_tanh", Activation::gelu_tanh},
                                              {"silu", Activation::silu},
                                              {"relu", Activation::relu}};
constexpr Named<BlockOrder> kOrders[] = {{"norm_before", BlockOrder::norm_before},
                                         {"norm_after", BlockOrder::norm_after},
                                         {"norm_around", BlockOrder::norm_around}};
constexpr Named<EmbeddedQkv> kEmbedded[] = {
    {"none", EmbeddedQkv::none}, {"first", EmbeddedQkv::first}, {"all", EmbeddedQkv::all}};

constexpr std::span<const Named<NormKind>> table_of(NormKind) { return kNorms; }
constexpr std::span<const Named<Activation>> table_of(Activation) { return kActivations; }
constexpr std::span<const Named<BlockOrder>> table_of(BlockOrder) { return kOrders; }
constexpr std::span<const Named<EmbeddedQkv>> table_of(EmbeddedQkv) { return kEmbedded; }

// Every member that a language model may differ in, once, for both directions.
template <class A, class Visitor>
void visit(A& a, Visitor&& field) {
  field("vocab_size", a.vocabulary);
  field("width", a.width);
  field("layers", a.layers);
  field("heads", a.heads);
  field("kv_heads", a.kv_heads);
  field("head_dim", a.head_dim);
  field("inner", a.inner);
  field("context", a.context);
  field("causal", a.causal);
  field("norm", a.norm);
  field("norm_epsilon", a.norm_epsilon);
  field("order", a.order);
  field("activation", a.activation);
  field("gated", a.gated);
  field("projection_bias", a.projection_bias);
  field("output_bias", a.output_bias);
  field("mlp_bias", a.mlp_bias);
  field("query_key_norm", a.query_key_norm);
  field("embedded_qkv", a.embedded_qkv);
  field("dropout", a.dropout);
  field("learned_positions", a.learned_positions);
  field("tied", a.tied);
}

struct Writer {
  Json& json;
  template <class Value>
  void operator()(const char* key, const Value& value) {
    if constexpr (std::is_enum_v<Value>) {
      for (const auto& row : table_of(value))
        if (row.kind == value) json[key] = std::string(row.name);
    } else {
      json[key] = value;
    }
  }
};

struct Reader {
  const HubConfig& config;
  void operator()(const char* key, int64_t& value) { value = config.size(key); }
  void operator()(const char* key, bool& value) { value = config.boolean(key); }
  void operator()(const char* key, double& value) { value = config.real(key); }
  template <class Kind>
  requires std::is_enum_v<Kind>
  void operator()(const char* key, Kind& value) {
    const std::string text = config.text(key);
    std::vector<std::string> known;
    for (const auto& row : table_of(value)) {
      if (row.name == text) {
        value = row.kind;
        return;
      }
      known.emplace_back(row.name);
    }
    config.refuse(key, "one of " + join(known, ", "));
  }
};

Architecture from_hub(const HubConfig& config) {
  Architecture a;
  a.family = "saccade";
  visit(a, Reader{config});
  if (config.has("encoder_layers")) {
    a.encoder_layers = config.size("encoder_layers");
    a.shared_embedding = config.boolean("shared_embedding");
  }
  if (config.has("rotary_base")) a.rotary = RotaryOptions{.base = config.positive("rotary_base")};
  read_token_ids(a, config);
  return a;
}

Json to_hub(const Architecture& a) {
  Json config = {{"model_type", "saccade"}};
  visit(a, Writer{config});
  if (a.encoder_layers > 0) {
    config["encoder_layers"] = a.encoder_layers;
    config["shared_embedding"] = a.shared_embedding;
  }
  if (a.rotary) config["rotary_base"] = a.rotary->base;
  write_token_ids(a, config);
  return config;
}

std::vector<WeightRule> weights(const Architecture& a) {
  std::vector<WeightRule> rules;
  const Transformer model(a);
  for (const auto& parameter : model->named_parameters())
    if (!learned_by_formula(parameter.key()))  // what formulas learn is stored beside
      rules.push_back({parameter.key(), {{parameter.key()}}});
  return rules;
}

}  // namespace

const Family& native_family() {
  static const Family family{.name = "saccade",
                             .hub_types = {"saccade"},
                             .gguf_types = {},
                             .prefixes = {""},
                             .probe = "tokens",
                             .ignored = {},
                             .from_hub = from_hub,
                             .to_hub = to_hub,
                             .hub_weights = weights,
                             .from_gguf = nullptr,
                             .gguf_weights = nullptr};
  return family;
}

}  // namespace saccade
