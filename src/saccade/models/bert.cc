// BERT and models of its shape such as MiniLM: norms after the sums, segments, and a head for masked tokens,
// for labels, or none.
#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/models/families.h"

namespace saccade {
namespace {

HeadKind head_of(const HubConfig& config) {
  const std::vector<std::string> names =
      config.has("architectures") ? config.texts("architectures") : std::vector<std::string>{};
  if (names.empty() || names[0] == "BertModel") return HeadKind::none;
  if (names[0] == "BertForMaskedLM" || names[0] == "BertForPreTraining") return HeadKind::masked_model;
  if (names[0] == "BertForSequenceClassification") return HeadKind::classifier;
  config.refuse("architectures", "BertModel, BertForMaskedLM or BertForSequenceClassification");
}

Architecture from_hub(const HubConfig& config) {
  Architecture a;
  a.family = "bert";
  a.head = head_of(config);
  a.causal = false;
  a.norm = NormKind::layer;
  a.order = BlockOrder::norm_after;
  a.gated = false;
  a.projection_bias = a.output_bias = a.mlp_bias = true;
  a.learned_positions = true;
  a.vocabulary = config.size("vocab_size");
  a.width = config.size("hidden_size");
  a.layers = config.size("num_hidden_layers");
  a.heads = a.kv_heads = config.size("num_attention_heads");
  if (a.width % a.heads != 0) config.refuse("hidden_size", fmt::format("a multiple of {} heads", a.heads));
  a.head_dim = a.width / a.heads;
  a.inner = config.size("intermediate_size");
  a.context = config.size("max_position_embeddings");
  a.token_types = config.size("type_vocab_size", 2);
  a.norm_epsilon = config.positive("layer_norm_eps", 1e-12);
  a.activation = activation_named(config, "hidden_act", "gelu");
  a.tied = config.boolean("tie_word_embeddings", true);
  if (config.text("position_embedding_type", "absolute") != "absolute")
    config.refuse("position_embedding_type", "absolute");
  if (config.boolean("is_decoder", false)) config.refuse("is_decoder", "false");
  if (a.head == HeadKind::classifier) {
    const auto labels = config.find_object("id2label");
    a.labels = labels ? static_cast<int64_t>(labels->keys().size()) : config.size("num_labels", 2);
  }
  read_token_ids(a, config);
  return a;
}

Json to_hub(const Architecture& a) {
  const char* name = a.head == HeadKind::masked_model ? "BertForMaskedLM"
                     : a.head == HeadKind::classifier ? "BertForSequenceClassification"
                                                      : "BertModel";
  Json config = {{"model_type", "bert"},
                 {"architectures", {name}},
                 {"vocab_size", a.vocabulary},
                 {"hidden_size", a.width},
                 {"num_hidden_layers", a.layers},
                 {"num_attention_heads", a.heads},
                 {"intermediate_size", a.inner},
                 {"max_position_embeddings", a.context},
                 {"type_vocab_size", a.token_types},
                 {"layer_norm_eps", a.norm_epsilon},
                 {"hidden_act", hub_name(a.activation)},
                 {"tie_word_embeddings", a.tied},
                 {"torch_dtype", "float32"}};
  if (a.head == HeadKind::classifier) {
    for (int64_t label = 0; label < a.labels; ++label) {
      config["id2label"][std::to_string(label)] = fmt::format("LABEL_{}", label);
      config["label2id"][fmt::format("LABEL_{}", label)] = label;
    }
  }
  write_token_ids(a, config);
  return config;
}

std::vector<WeightRule> hub_weights(const Architecture& a) {
  std::vector<WeightRule> rules{{"tokens", {{"~embeddings.word_embeddings.weight"}}},
                                {"positions", {{"~embeddings.position_embeddings.weight"}}},
                                {"types", {{"~embeddings.token_type_embeddings.weight"}}}};
  for (const std::string end : {".weight", ".bias"}) {
    const auto add = [&](const std::string& ours, const std::vector<std::string>& theirs) {
      std::vector<WeightPart> parts;
      for (const std::string& name : theirs) parts.push_back({name + end});
      rules.push_back({ours + end, parts});
    };
    add("embedding_norm", {"~embeddings.LayerNorm"});
    for (int64_t layer = 0; layer < a.layers; ++layer) {
      const std::string ours = fmt::format("block_{}.", layer),
                        theirs = fmt::format("~encoder.layer.{}.", layer);
      const std::string self = theirs + "attention.self.";
      add(ours + "projection", {self + "query", self + "key", self + "value"});
      add(ours + "output", {theirs + "attention.output.dense"});
      add(ours + "attention_norm", {theirs + "attention.output.LayerNorm"});
      add(ours + "mlp.up", {theirs + "intermediate.dense"});
      add(ours + "mlp.down", {theirs + "output.dense"});
      add(ours + "mlp_norm", {theirs + "output.LayerNorm"});
    }
    if (a.head == HeadKind::masked_model) {
      add("head", {"cls.predictions.transform.dense"});
      add("head_norm", {"cls.predictions.transform.LayerNorm"});
    }
    if (a.head == HeadKind::classifier) {
      add("pooler", {"~pooler.dense"});
      add("classifier", {"classifier"});
    }
  }
  if (a.head == HeadKind::masked_model) {
    rules.push_back({"output_bias", {{"cls.predictions.bias"}}});
    if (!a.tied) rules.push_back({"output.weight", {{"cls.predictions.decoder.weight"}}});
  }
  return rules;
}

}  // namespace

const Family& bert_family() {
  static const Family family{.name = "bert",
                             .hub_types = {"bert"},
                             .gguf_types = {},
                             .prefixes = {"bert.", ""},
                             .probe = "~embeddings.word_embeddings.weight",
                             .ignored = {"position_ids", "pooler.dense.weight", "pooler.dense.bias",
                                         "cls.predictions.decoder.weight", "cls.predictions.decoder.bias",
                                         "cls.seq_relationship.weight", "cls.seq_relationship.bias"},
                             .from_hub = from_hub,
                             .to_hub = to_hub,
                             .hub_weights = hub_weights};
  return family;
}

}  // namespace saccade
