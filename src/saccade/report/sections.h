// The sections of a report: what each kind of result is shown as. One file for each kind.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "saccade/report/field.h"
#include "saccade/report/fragment.h"
#include "saccade/report/result_files.h"

namespace saccade {

/// A card at the beginning of the report.
struct Highlight {
  std::string label, value, detail;
  Tone tone = Tone::plain;
};

struct Section {
  std::string title;
  std::string from;  ///< The file or folder that it shows.
  Fragment body;
  std::vector<Highlight> highlights;
  std::vector<std::string> notes;  ///< What a person should know about the input: "the last line is cut off".
};

bool is_comparison(const Json& json);
bool is_benchmark(const Json& json);
bool is_targets(const Json& json);
bool is_certificate(const Json& json);
bool is_frontier(const Json& json);
bool is_distillation(const Json& json);
bool is_imitation(const Json& json);
bool is_diagnosis(const Json& json);
bool is_evaluation(const Json& json);
bool is_samples(const Json& json);
bool is_attention(const Json& json);

std::vector<Section> training_sections(std::span<const Result> results);
std::vector<Section> comparison_sections(std::span<const Result> results);
std::vector<Section> benchmark_sections(std::span<const Result> results);
std::vector<Section> targets_sections(std::span<const Result> results);
std::vector<Section> certificate_sections(std::span<const Result> results);
std::vector<Section> frontier_sections(std::span<const Result> results);
std::vector<Section> distillation_sections(std::span<const Result> results);
std::vector<Section> imitation_sections(std::span<const Result> results);
std::vector<Section> diagnosis_sections(std::span<const Result> results);
std::vector<Section> evaluation_sections(std::span<const Result> results);
std::vector<Section> samples_sections(std::span<const Result> results);
std::vector<Section> attention_sections(std::span<const Result> results);

/// Whether an object has all of these members.
bool has_members(const Json& json, std::initializer_list<const char*> names);

/// The content of a result, which names its file.
Field field_of(const Result& result);

/// A model or a formula as people call it: of a path the last part that says something.
std::string name_of_model(const std::string& path);
/// "smollm2 with prior", where the attention adds something to the name.
std::string name_with_attention(const std::string& model, const std::string& attention);

/// For tables: so many digits behind the point, or significant ones, and "-" for what is not known.
std::string fixed(double value, int digits);
std::string short_number(double value, int digits = 4);
std::string percent(double value, int digits = 1);
std::string bytes_cell(double bytes);

}  // namespace saccade
