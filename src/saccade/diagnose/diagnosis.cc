// Two passes: one without gradients, in which each layer shows its weights and is measured at once, so that
// only one n x n map exists at a time; and one with gradients, on the fast path.
#include "saccade/diagnose/diagnosis.h"

#include <torch/types.h>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"
#include "saccade/formula/identify.h"

namespace saccade {

using at::Tensor;

namespace {

// Evaluation mode and a free choice of path, as long as it lives: dropout would blur what is measured, and
// the fused path shows no weights.
class Undisturbed {
 public:
  explicit Undisturbed(Transformer model) : model_(std::move(model)), training_(model_->is_training()) {
    model_->eval();
    for (int64_t layer = 0; layer < model_->architecture().layers; ++layer) {
      Attention attention = model_->block(layer)->attention;
      paths_.push_back(attention->options().path);
      if (attention->options().path == Path::fused) attention->set_path(Path::automatic);
    }
  }
  ~Undisturbed() {
    for (size_t layer = 0; layer < paths_.size(); ++layer)
      model_->block(static_cast<int64_t>(layer))->attention->set_path(paths_[layer]);
    model_->train(training_);
  }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  Transformer model_;
  bool training_;
  std::vector<Path> paths_;
};

std::vector<LearnedParameter> parameters_of(const Attention& attention, int64_t most_values) {
  std::vector<LearnedParameter> result;
  for (const auto& item : attention->named_parameters()) {
    const Tensor values = item.value().detach().to(torch::kDouble).contiguous();
    LearnedParameter parameter{
        .name = item.key(), .shape = values.sizes().vec(), .norm = values.norm().item<double>()};
    parameter.by_head = values.dim() == 1 && values.size(0) == attention->options().heads;
    if (parameter.by_head || values.numel() <= most_values)
      parameter.values.assign(values.data_ptr<double>(), values.data_ptr<double>() + values.numel());
    result.push_back(std::move(parameter));
  }
  return result;
}

bool needs_inputs(const Plan& plan) {
  for (const TableInfo& table : plan.tables)
    if (table.source == TableInfo::Source::input) return true;
  return false;
}

std::vector<std::vector<double>> look_without_content(const Block& block, int64_t width, int64_t tokens) {
  Attention attention = block->attention;
  if (tokens < 2 || needs_inputs(attention->formula().plan())) return {};
  const AttentionOptions& options = attention->options();
  const auto like = block->output->weight.options().requires_grad(false);
  AttentionCall call{.x = torch::zeros({1, tokens, width}, like), .need_weights = true};
  const Tensor query = torch::zeros({1, options.heads, tokens, options.head_dim}, like);
  const Tensor key = torch::zeros({1, options.kv_heads, tokens, options.head_dim}, like);
  const Tensor last = attention->run(query, key, key, call)
                          .weights.select(0, 0)
                          .select(1, tokens - 1)
                          .to(torch::kDouble)
                          .flip(1)
                          .contiguous();  // [heads, distance]
  const Tensor scale = last.abs().amax(1, true);
  if (((last - last.narrow(1, 0, 1)).abs() <= 1e-5 * scale).all().item<bool>()) return {};
  std::vector<std::vector<double>> result;
  for (int64_t head = 0; head < last.size(0); ++head) {
    const double* row = last.data_ptr<double>() + head * tokens;
    result.emplace_back(row, row + tokens);
  }
  return result;
}

// Six digits: more would be rounding errors of single precision, and training writes many of these lines.
Json json_of(double value) {
  return std::isfinite(value) ? Json(std::stod(fmt::format("{:.6g}", value))) : Json(nullptr);
}

Json json_of(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(json_of(value));
  return list;
}

Json json_of(const RankMeasures& rank) {
  return {{"stable_rank", json_of(rank.stable_rank)},
          {"effective_rank", json_of(rank.effective_rank)},
          {"centred_stable_rank", json_of(rank.centred_stable_rank)},
          {"centred_effective_rank", json_of(rank.centred_effective_rank)},
          {"mean_residual", json_of(rank.mean_residual)},
          {"rank_one_residual", json_of(rank.rank_one_residual)},
          {"cosine", json_of(rank.cosine)},
          {"token_norm", json_of(rank.token_norm)},
          {"longest_share", json_of(rank.longest_share)}};
}

// Each measure with a list over heads: that is shorter than a list of heads with named measures.
Json json_of(const WeightMeasures& weights) {
  Json json = {{"rows", weights.rows}, {"causal", weights.causal}};
  const std::pair<const char*, double HeadWeights::*> measures[] = {
      {"entropy", &HeadWeights::entropy},
      {"entropy_share", &HeadWeights::entropy_share},
      {"peak", &HeadWeights::peak},
      {"distance", &HeadWeights::distance},
      {"first_token", &HeadWeights::first_token},
      {"negative_mass", &HeadWeights::negative_mass},
      {"row_sum", &HeadWeights::row_sum},
      {"lowest_row_sum", &HeadWeights::lowest_row_sum},
      {"highest_row_sum", &HeadWeights::highest_row_sum},
      {"empty_rows", &HeadWeights::empty_rows},
      {"zeros", &HeadWeights::zeros}};
  bool negative = false;
  for (const HeadWeights& head : weights.heads) negative |= head.negative_mass > 0;
  for (const auto& [name, member] : measures) {
    json[name] = Json::array();
    for (const HeadWeights& head : weights.heads) json[name].push_back(json_of(head.*member));
  }
  json["positive"] = Json::array();
  if (negative) json["negative"] = Json::array();
  for (const HeadWeights& head : weights.heads) {
    json["positive"].push_back(head.positive);
    if (negative) json["negative"].push_back(head.negative);
  }
  return json;
}

Json json_of(const LayerGradients& layer) {
  Json formula = Json::object();
  for (const auto& [name, norm] : layer.formula) formula[name] = json_of(norm);
  return {{"entering", json_of(layer.entering)},
          {"block", json_of(layer.block)},
          {"query", json_of(layer.query)},
          {"key", json_of(layer.key)},
          {"value", json_of(layer.value)},
          {"output", json_of(layer.output)},
          {"mlp", json_of(layer.mlp)},
          {"query_heads", json_of(layer.query_heads)},
          {"key_heads", json_of(layer.key_heads)},
          {"value_heads", json_of(layer.value_heads)},
          {"output_heads", json_of(layer.output_heads)},
          {"formula", formula}};
}

Json json_of(const LearnedParameter& parameter) {
  Json json = {{"name", parameter.name}, {"shape", parameter.shape}, {"norm", json_of(parameter.norm)}};
  if (!parameter.values.empty()) json["values"] = json_of(parameter.values);
  return json;
}

}  // namespace

Diagnosis diagnose(Transformer model, const Tensor& ids, const DiagnoseOptions& options) {
  require(ids.defined() && ids.dim() == 2 && ids.size(0) > 0 && ids.size(1) > 0,
          "diagnose: the ids have shape {}; expected [batch, tokens], none of them 0", shape_text(ids));
  const Architecture& a = model->architecture();
  const Undisturbed undisturbed(model);
  Diagnosis result{.batch = ids.size(0), .tokens = ids.size(1)};
  result.layers.resize(static_cast<size_t>(a.layers));
  {
    const torch::NoGradGuard no_gradient;
    std::vector<RankMeasures> blocks;
    std::vector<Tensor> hidden;
    ModelCall call{.ids = ids, .hidden_states = &hidden};
    if (options.weights)
      call.on_attention = [&](int64_t layer, const AttentionResult& attended) {
        result.layers[static_cast<size_t>(layer)].weights =
            measure_weights(attended.weights, options.fewest_keys);
      };
    if (options.ranks) call.on_block = [&](int64_t, const Tensor& x) { blocks.push_back(measure_rank(x)); };
    if (options.ranks || options.weights) model->forward(call);
    if (options.ranks) {
      result.ranks.push_back({"embedding", measure_rank(hidden.front())});
      for (size_t layer = 0; layer < blocks.size(); ++layer)
        result.ranks.push_back({fmt::format("block {}", layer), blocks[layer]});
      if (a.order != BlockOrder::norm_after)
        result.ranks.push_back({"last norm", measure_rank(hidden.back())});
    }
    for (int64_t layer = 0; layer < a.layers; ++layer) {
      const Block block = model->block(layer);
      LayerDiagnosis& found = result.layers[static_cast<size_t>(layer)];
      found.formula = mechanism_name(model->formula(layer));
      found.parameters = parameters_of(block->attention, options.most_values);
      found.by_distance = look_without_content(block, a.width, options.distances);
    }
  }
  const bool next = a.head == HeadKind::language_model;
  if (options.gradients && (next || a.head == HeadKind::masked_model) && ids.size(1) > (next ? 1 : 0))
    result.gradients = measure_gradients(model, ids);
  return result;
}

Json to_json(const Diagnosis& diagnosis) {
  Json json = {{"batch", diagnosis.batch}, {"tokens", diagnosis.tokens}};
  const auto& gradients = diagnosis.gradients;
  json["loss"] = gradients ? json_of(gradients->loss) : Json(nullptr);
  json["gradient"] = gradients ? json_of(gradients->total) : Json(nullptr);
  json["embedding_gradient"] = gradients ? json_of(gradients->embedding) : Json(nullptr);
  json["histogram_edges"] = histogram_edges();
  json["ranks"] = Json::array();
  for (const Diagnosis::Place& place : diagnosis.ranks) {
    Json rank = {{"after", place.after}};
    rank.update(json_of(place.rank));
    json["ranks"].push_back(rank);
  }
  json["layers"] = Json::array();
  for (size_t layer = 0; layer < diagnosis.layers.size(); ++layer) {
    const LayerDiagnosis& found = diagnosis.layers[layer];
    Json one = {{"layer", layer}, {"formula", found.formula}};
    one["weights"] = found.weights ? json_of(*found.weights) : Json(nullptr);
    one["gradients"] = gradients ? json_of(gradients->layers[layer]) : Json(nullptr);
    one["parameters"] = Json::array();
    for (const LearnedParameter& parameter : found.parameters)
      one["parameters"].push_back(json_of(parameter));
    if (!found.by_distance.empty()) {
      one["by_distance"] = Json::array();
      for (const auto& head : found.by_distance) one["by_distance"].push_back(json_of(head));
    }
    json["layers"].push_back(one);
  }
  return json;
}

}  // namespace saccade
