// Every answer reads the text anew: a page asks seldom, and nothing has to be kept in step.
#include "saccade/view/session.h"

#include <torch/types.h>

#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/diagnose/capture.h"
#include "saccade/diagnose/diagnosis.h"
#include "saccade/evaluate/divergence.h"
#include "saccade/formula/identify.h"
#include "saccade/formula/mechanisms.h"
#include "saccade/text/piece.h"
#include "saccade/view/formula_answer.h"
#include "saccade/view/parameters.h"

namespace saccade {

using at::Tensor;

namespace {

constexpr int64_t kPixels = 512;       // side of one map, at most
constexpr int64_t kSmallPixels = 128;  // when all heads are shown
constexpr int64_t kShown = 12;         // tokens of a distribution

int64_t whole_below(const Field& field, int64_t count, std::string_view what) {
  const int64_t value = field.whole();
  require(value >= 0 && value < count, "view: {} {}; there are {}, counted from 0", what, value, count);
  return value;
}

Json describe_model(const std::string& name, Transformer model) {
  const Architecture& a = model->architecture();
  Json layers = Json::array();
  for (int64_t layer = 0; layer < a.layers; ++layer) {
    const Attention attention = model->block(layer)->attention;
    layers.push_back({{"formula", mechanism_name(attention->formula())},
                      {"text", attention->formula().resolved()},
                      {"learned", learned_json(attention)},
                      {"sparse", attention->selector() != nullptr}});
  }
  return {{"name", name},
          {"family", a.family},
          {"parameters", model->parameter_count()},
          {"heads", a.heads},
          {"context", a.context},
          {"predicts", predicts_tokens(a)},
          {"layers", std::move(layers)}};
}

}  // namespace

Session::Session(Viewed viewed) : viewed_(std::move(viewed)) {
  require(!viewed_->baseline.model->encoder(), "view: {} translates; expected a model that reads one text",
          viewed_->baseline.name);
  if (viewed_->candidate.is_empty()) return;
  const Architecture& a = viewed_->baseline.model->architecture();
  const Architecture& b = viewed_->candidate->architecture();
  require(a.vocabulary == b.vocabulary,
          "view: {} has {} tokens and {} has {}; expected two models of one vocabulary",
          viewed_->baseline.name, a.vocabulary, viewed_->candidate_name, b.vocabulary);
}

Transformer Session::model_of(const Field& request) const {
  require(viewed_.has_value(), "view: no model was given; start it with one: saccade view MODEL");
  const std::string which = request.text_or("model", "baseline");
  if (which == "baseline") return viewed_->baseline.model;
  require(which == "candidate", "view: the model is '{}'; expected baseline or candidate", printable(which));
  require(!viewed_->candidate.is_empty(), "view: there is no candidate; --compare or --attention gives one");
  return viewed_->candidate;
}

ViewedText Session::read(const Field& request) const {
  require(viewed_.has_value(), "view: no model was given; start it with one: saccade view MODEL");
  int64_t most = kMostTokens;
  if (!viewed_->candidate.is_empty()) most = std::min(most, viewed_->candidate->architecture().context);
  return read_text(viewed_->baseline, request.at("text").text(), most);
}

Json Session::describe() const {
  Json mechanisms = Json::array();
  for (const EmbeddedMechanism& each : embedded_mechanisms())
    mechanisms.push_back({{"name", each.name},
                          {"summary", Formula::load(std::string(each.name)).summary()},
                          {"text", each.text}});
  Json models = Json::object();
  if (viewed_) {
    models["baseline"] = describe_model(viewed_->baseline.name, viewed_->baseline.model);
    if (!viewed_->candidate.is_empty())
      models["candidate"] = describe_model(viewed_->candidate_name, viewed_->candidate);
  }
  return {{"models", std::move(models)}, {"mechanisms", std::move(mechanisms)}, {"most_tokens", kMostTokens}};
}

Json Session::attention(const Json& json) {
  const Field request(json, "request");
  Transformer model = model_of(request);
  const ViewedText text = read(request);
  const Architecture& a = model->architecture();
  const auto tokens = static_cast<int64_t>(text.pieces.size());
  const int64_t layer = whole_below(request.at("layer"), a.layers, "layer");
  const std::optional<Field> head = request.find("head");
  CaptureOptions options{.layers = {layer}};
  if (head) options.heads = {whole_below(*head, a.heads, "head")};
  const int64_t pixels = head ? kPixels : kSmallPixels;
  options.cell = std::max<int64_t>(1, (tokens + pixels - 1) / pixels);
  if (const std::optional<Field> cell = request.find("cell")) {
    options.cell = cell->whole();
    require(options.cell >= 1, "view: cells of {} tokens; expected at least 1", options.cell);
    options.cell = std::min(options.cell, tokens);
  }
  const Attention slot = model->block(layer)->attention;
  std::optional<TriedParameters> tried;
  if (const std::optional<Field> values = request.find("values")) tried.emplace(slot, read_values(*values));
  const Capture capture = capture_attention(model, text.ids, options);
  Json heads = Json::array();
  for (const CapturedHead& each : capture.heads) {
    Json one = {{"head", each.head}, {"weights", packed(each.weights)}};
    if (each.kept.defined()) one["kept"] = packed(each.kept);
    heads.push_back(std::move(one));
  }
  return {{"tokens", text.pieces},
          {"layer", layer},
          {"cell", capture.cell},
          {"rows", (tokens + capture.cell - 1) / capture.cell},
          {"columns", (tokens + capture.cell - 1) / capture.cell},
          {"negative", capture.has_negative},
          {"heads", std::move(heads)},
          {"tiles", tiles_of(slot->formula().plan(), tokens, head ? options.heads[0] : 0, a.heads)}};
}

Json Session::row(const Json& json) {
  const Field request(json, "request");
  Transformer model = model_of(request);
  const ViewedText text = read(request);
  const Architecture& a = model->architecture();
  const int64_t layer = whole_below(request.at("layer"), a.layers, "layer");
  const auto tokens = static_cast<int64_t>(text.pieces.size());
  const int64_t row = whole_below(request.at("row"), tokens, "token");
  std::optional<TriedParameters> tried;
  if (const std::optional<Field> values = request.find("values"))
    tried.emplace(model->block(layer)->attention, read_values(*values));
  const Capture capture = capture_attention(model, text.ids,
                                            {.layers = {layer},
                                             .heads = {whole_below(request.at("head"), a.heads, "head")},
                                             .first_row = row,
                                             .rows = 1});
  return {{"row", row}, {"weights", packed(capture.heads[0].weights)}};
}

Json Session::prediction(const Json& json) {
  const Field request(json, "request");
  const ViewedText text = read(request);
  TextModel& baseline = viewed_->baseline;
  require(predicts_tokens(baseline.model->architecture()), "view: {} predicts no tokens", baseline.name);
  const auto tokens = static_cast<int64_t>(text.pieces.size());
  int64_t position = tokens - 1;
  if (const std::optional<Field> field = request.find("position"))
    position = whole_below(*field, tokens, "token");
  const torch::NoGradGuard no_gradient;
  const auto hidden = [&](Transformer model) { return model->forward({.ids = text.ids.unsqueeze(0)})[0]; };
  const auto logarithms = [&](Transformer model, const Tensor& states) {
    return torch::log_softmax(model->logits(states.narrow(0, position, 1))[0].to(torch::kDouble), -1);
  };
  const Tensor base_hidden = hidden(baseline.model);
  const Tensor base = logarithms(baseline.model, base_hidden);
  const bool compared = !viewed_->candidate.is_empty();
  Tensor other, other_hidden;
  Json answer = {{"tokens", text.pieces}, {"position", position}};
  if (compared) {
    other_hidden = hidden(viewed_->candidate);
    other = logarithms(viewed_->candidate, other_hidden);
    const TokenIds ids(text.ids.data_ptr<int64_t>(), text.ids.data_ptr<int64_t>() + tokens);
    const Divergence divergence =
        divergence_of(baseline.model, std::span(&base_hidden, 1), viewed_->candidate,
                      std::span(&other_hidden, 1), std::span(&ids, 1));
    answer["divergence"] = std::vector<double>(divergence.values.data_ptr<double>(),
                                               divergence.values.data_ptr<double>() + tokens);
    answer["mean_divergence"] = divergence.mean();
  }
  // The likeliest tokens of either, by the larger of the two shares.
  const Tensor order = compared ? torch::maximum(base, other) : base;
  const Tensor best = std::get<1>(torch::topk(order, std::min<int64_t>(kShown, order.size(0))));
  answer["next"] = Json::array();
  for (int64_t place = 0; place < best.size(0); ++place) {
    const int64_t id = best[place].item<int64_t>();
    Json one = {{"token", piece_of(baseline.tokenizer, static_cast<int32_t>(id))},
                {"id", id},
                {"baseline", std::exp(base[id].item<double>())}};
    if (compared) one["candidate"] = std::exp(other[id].item<double>());
    answer["next"].push_back(std::move(one));
  }
  return answer;
}

Json Session::rank(const Json& json) {
  const Field request(json, "request");
  const ViewedText text = read(request);
  const auto measure = [&](Transformer model) {
    const Json all = to_json(
        diagnose(model, text.ids.unsqueeze(0), {.weights = false, .gradients = false, .distances = 0}));
    return all.at("ranks");
  };
  Json answer = {{"baseline", measure(viewed_->baseline.model)}};
  if (!viewed_->candidate.is_empty()) answer["candidate"] = measure(viewed_->candidate);
  return answer;
}

std::map<std::string, Answer> Session::answers() {
  return {{"describe", [this](const Json&) { return describe(); }},
          {"attention", [this](const Json& request) { return attention(request); }},
          {"row", [this](const Json& request) { return row(request); }},
          {"prediction", [this](const Json& request) { return prediction(request); }},
          {"rank", [this](const Json& request) { return rank(request); }},
          {"formula", answer_formula}};
}

}  // namespace saccade
