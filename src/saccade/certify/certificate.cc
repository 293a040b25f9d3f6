// Names by content, JSON and the table. The page is made in certificate_page.cc.
#include "saccade/certify/certificate.h"

#include <torch/version.h>

#include <algorithm>
#include <array>

#include "saccade/base/sha256.h"
#include "saccade/base/text.h"
#include "saccade/version.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

Json json_of(const FileIdentity& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}};
}

Json json_of(const ModelIdentity& model) {
  Json json{{"name", model.name},
            {"family", model.family},
            {"parameters", model.parameters},
            {"layers", model.layers},
            {"files", Json::array()}};
  for (const FileIdentity& file : model.files) json["files"].push_back(json_of(file));
  if (!model.attention.empty()) json["attention"] = model.attention;
  if (!model.formula.empty()) json["formula"] = model.formula;
  return json;
}

Json json_of(const Criterion& criterion) {
  Json json{{"name", criterion.name}, {"title", criterion.title}, {"verdict", name_of(criterion.verdict)}};
  json["value"] = criterion.value ? Json(*criterion.value) : Json(nullptr);
  json["threshold"] = criterion.threshold ? Json(*criterion.threshold) : Json(nullptr);
  if (!criterion.shown.empty()) json["shown"] = criterion.shown;
  if (!criterion.demanded.empty()) json["demanded"] = criterion.demanded;
  json["measured"] = criterion.measured;
  return json;
}

Json json_of(const Tally& tally) {
  return {{"tokens", tally.tokens},
          {"mean_nll", tally.mean_nll()},
          {"perplexity", tally.perplexity()},
          {"top1_accuracy", tally.accuracy()}};
}

Json json_of(const TokenFidelity& tokens) {
  const TokenSpread kl = spread_of(tokens.kl);
  return {{"windows", tokens.windows},
          {"compared", tokens.tokens()},
          {"same_top1", tokens.agreement()},
          {"accuracy_kept", tokens.accuracy_kept()},
          {"kl", {{"mean", kl.mean}, {"median", kl.median}, {"p99", kl.p99}, {"largest", kl.largest}}},
          {"baseline", json_of(tokens.baseline)},
          {"candidate", json_of(tokens.candidate)},
          {"perplexity_change", tokens.perplexity_change()}};
}

Json json_of(const EmbeddingFidelity& found) {
  Json json{{"texts", found.texts},
            {"tokens", found.tokens},
            {"mean_cosine", found.mean_cosine()},
            {"lowest_cosine", *std::ranges::min_element(found.cosines)},
            {"hidden_distance", found.hidden_distance},
            {"same_neighbour", found.neighbour_agreement()}};
  if (found.classifies) json["same_label"] = found.label_agreement();
  return json;
}

Json json_of(const MapFidelity& maps) {
  Json json{{"windows", maps.windows},
            {"longest", maps.longest},
            {"mse", maps.mse()},
            {"relative", maps.relative()},
            {"layers", Json::array()}};
  for (const LayerMaps& layer : maps.layers)
    json["layers"].push_back({{"mse", layer.mse}, {"relative", layer.relative}, {"heads", layer.heads}});
  return json;
}

Json json_of(const GradientFidelity& gradients) {
  Json json{{"windows", gradients.windows},
            {"longest", gradients.longest},
            {"baseline_loss", gradients.baseline_loss},
            {"candidate_loss", gradients.candidate_loss},
            {"lowest", gradients.lowest()},
            {"mean", gradients.mean()},
            {"layers", Json::array()}};
  for (const LayerCosines& layer : gradients.layers)
    json["layers"].push_back({{"input", layer.input},
                              {"weights", layer.weights},
                              {"query", layer.query},
                              {"key", layer.key},
                              {"value", layer.value},
                              {"output", layer.output}});
  return json;
}

Json json_of(const MemoryPeak& peak) {
  return {{"attention_bytes", peak.attention}, {"process_bytes", peak.process}};
}

Json json_of(const MemoryFidelity& memory) {
  Json json{{"layer", memory.layer}, {"points", Json::array()}, {"remarks", memory.remarks}};
  for (const MemoryPoint& point : memory.points)
    json["points"].push_back({{"tokens", point.tokens},
                              {"training", point.training},
                              {"candidate", json_of(point.candidate)},
                              {"dense", json_of(point.dense)},
                              {"naive", point.naive ? json_of(*point.naive) : Json(nullptr)},
                              {"saving", point.saving()},
                              {"saving_against_dense", point.saving_against_dense()}});
  return json;
}

Json json_of(const SpeedFidelity& speed) {
  const auto bytes = [](const std::optional<double>& each) { return each ? Json(*each) : Json(nullptr); };
  return {{"tokens", speed.tokens},
          {"rounds", speed.rounds},
          {"baseline_seconds", speed.baseline_seconds},
          {"candidate_seconds", speed.candidate_seconds},
          {"baseline_cache_bytes_per_token", bytes(speed.baseline_cache)},
          {"candidate_cache_bytes_per_token", bytes(speed.candidate_cache)}};
}

Json measurements(const Fidelity& fidelity) {
  Json json{{"text_tokens", fidelity.text_tokens}};
  if (fidelity.tokens) json["tokens"] = json_of(*fidelity.tokens);
  if (fidelity.embeddings) json["embeddings"] = json_of(*fidelity.embeddings);
  if (fidelity.maps) json["attention"] = json_of(*fidelity.maps);
  if (fidelity.gradients) json["gradients"] = json_of(*fidelity.gradients);
  if (fidelity.memory) json["memory"] = json_of(*fidelity.memory);
  if (fidelity.speed) json["speed"] = json_of(*fidelity.speed);
  if (fidelity.baseline_task)
    json["task"] = {{"baseline", task_accuracy(*fidelity.baseline_task)},
                    {"candidate", task_accuracy(*fidelity.candidate_task)},
                    {"convention", Retrieval::convention()}};
  return json;
}

std::string_view mark_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed:
      return "ok";
    case Verdict::failed:
      return "FAILED";
    case Verdict::stated:
      return "";
    case Verdict::not_applicable:
      return "n/a";
  }
  return "";
}

}  // namespace

FileIdentity identify_file(const fs::path& path, const std::string& name) {
  return {name, sha256_of_file(path), static_cast<int64_t>(fs::file_size(path))};
}

ModelIdentity identify_model(const TextModel& model, const fs::path& path) {
  const Architecture& architecture = model.model->architecture();
  ModelIdentity identity{.name = model.name,
                         .family = architecture.family,
                         .parameters = model.model->parameter_count(),
                         .layers = architecture.layers};
  if (!fs::is_directory(path)) {
    identity.files.push_back(identify_file(path, path.filename().string()));
    return identity;
  }
  // What a model is read from; a directory may hold much else.
  constexpr std::array kKinds = {".safetensors", ".gguf", ".attn", ".json"};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file() &&
        std::ranges::find(kKinds, entry.path().extension().string()) != kKinds.end())
      files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files)
    identity.files.push_back(identify_file(file, file.lexically_relative(path).string()));
  return identity;
}

Json to_json(const Certificate& certificate) {
  const FidelityThresholds& demanded = certificate.thresholds;
  Json json{{"certified", passed(certificate.criteria)},
            {"verdict", verdict_of(certificate.criteria)},
            {"command", certificate.command},
            {"versions", {{"saccade", SACCADE_VERSION}, {"torch", TORCH_VERSION}}},
            {"baseline", json_of(certificate.baseline)},
            {"candidate", json_of(certificate.candidate)},
            {"data", Json::array()}};
  for (const FileIdentity& file : certificate.data) json["data"].push_back(json_of(file));
  json["context"] = certificate.options.context;
  json["seed"] = certificate.options.seed;
  json["threads"] = certificate.threads;
  json["thresholds"] = {
      {"min_accuracy", demanded.min_accuracy},
      {"max_attention_mse", demanded.max_attention_mse},
      {"min_gradient_cosine", demanded.min_gradient_cosine},
      {"max_kl", demanded.max_kl},
      {"min_memory_saving", demanded.min_memory_saving},
      {"max_perplexity_change",
       demanded.max_perplexity_change ? Json(*demanded.max_perplexity_change) : Json(nullptr)}};
  json["criteria"] = Json::array();
  for (const Criterion& criterion : certificate.criteria) json["criteria"].push_back(json_of(criterion));
  json["measurements"] = measurements(certificate.fidelity);
  return json;
}

std::string to_text(const Certificate& certificate) {
  Table table({"", "criterion", "measured", "demanded"});
  for (const Criterion& each : certificate.criteria)
    table.add({std::string(mark_of(each.verdict)), each.title, each.shown, each.demanded});
  return table.print() + "\n" + verdict_of(certificate.criteria) + "\n";
}

}  // namespace saccade
