// The table of kinds of results, and what their sections share.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "saccade/report/axis.h"
#include "saccade/report/sections.h"

namespace saccade {

std::span<const ResultKind> result_kinds() {
  static constexpr ResultKind kKinds[] = {
      {"training run", "Training", "recipe.toml", "saccade train", nullptr, training_sections},
      {"comparison", "Comparison", "comparison.json", "saccade compare", is_comparison, comparison_sections},
      {"benchmark", "Speed and memory", "", "saccade bench --json", is_benchmark, benchmark_sections},
      {"table of targets", "Targets", "", "saccade bench --targets --json", is_targets, targets_sections},
      {"frontier", "Sparsity", "frontier.json", "saccade distill --frontier", is_frontier, frontier_sections},
      {"distillation", "Sparsity", "sparse.json", "saccade distill", is_distillation, distillation_sections},
      {"imitation", "Sparsity", "imitation.json", "saccade distill --attention", is_imitation,
       imitation_sections},
      {"certificate", "Certificate", "certificate.json", "saccade certify", is_certificate,
       certificate_sections},
      {"evaluation", "Evaluation", "", "saccade eval --json", is_evaluation, evaluation_sections},
      {"diagnosis", "Diagnosis", "diagnosis.json", "saccade diagnose", is_diagnosis, diagnosis_sections},
      {"attention capture", "Attention", "attention.json", "saccade diagnose --capture", is_attention,
       attention_sections},
      {"sample", "Samples", "", "saccade generate --json", is_samples, samples_sections},
  };
  return kKinds;
}

bool has_members(const Json& json, std::initializer_list<const char*> names) {
  if (!json.is_object()) return false;
  for (const char* name : names)
    if (!json.contains(name)) return false;
  return true;
}

Field field_of(const Result& result) { return {result.json, result.path.string()}; }

std::string name_of_model(const std::string& path) {
  namespace fs = std::filesystem;
  if (path.find('/') == std::string::npos) return path;
  fs::path rest = fs::path(path).lexically_normal();
  while (rest.has_relative_path()) {
    const std::string name = rest.filename().string();
    if (!name.empty() && !name.starts_with("step-") && name != "checkpoints" && name != "attention.attn")
      return name;
    rest = rest.parent_path();
  }
  return path;
}

std::string name_with_attention(const std::string& model, const std::string& attention) {
  const std::string name = name_of_model(model), formula = name_of_model(attention);
  return formula.empty() || formula == name ? name : name + " with " + formula;
}

std::string fixed(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "-";
}

std::string short_number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "-";
}

std::string percent(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f} %", 100 * value, digits) : "-";
}

std::string bytes_cell(double bytes) { return std::isfinite(bytes) ? number_text(bytes, Unit::bytes) : "-"; }

}  // namespace saccade
