// Training runs: those that differ only in their seed are one line with a band.
#include <algorithm>
#include <cmath>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/text.h"
#include "saccade/report/curves.h"
#include "saccade/report/learned.h"
#include "saccade/report/plots.h"
#include "saccade/report/run_curves.h"
#include "saccade/report/sections.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

std::string last_folder(const fs::path& path) {
  const fs::path clean = fs::path(path).lexically_normal();
  return clean.has_filename() ? clean.filename().string() : clean.parent_path().filename().string();
}

double last_of(const Curve& curve) { return curve.empty() ? NAN : curve.rbegin()->second; }
double best_of(const Curve& curve) {
  double best = NAN;
  for (const auto& [step, value] : curve)
    if (!(value >= best)) best = value;
  return best;
}

double rate_of(const std::vector<Json>& lines) {
  double tokens = 0, seconds = 0;
  for (const Json& line : lines)
    if (line.is_object() && line.contains("tokens") && line.contains("seconds") &&
        line["tokens"].is_number() && line["seconds"].is_number()) {
      tokens += line["tokens"].get<double>();
      seconds += line["seconds"].get<double>();
    }
  return seconds > 0 ? tokens / seconds : NAN;
}

PageRow row_of(const RunGroup& group, const RunFiles& run) {
  const Curve loss = curve_of(run.metrics, "/loss"), validation = curve_of(run.metrics, "/validation/loss");
  return {.cells = {last_folder(run.folder), group.name, run.seed,
                    loss.empty() ? "-" : std::to_string(loss.rbegin()->first), fixed(last_of(loss), 4),
                    fixed(best_of(validation), 4), fixed(rate_of(run.metrics), 0),
                    run.result ? bytes_cell(run.result->value("peak_bytes", NAN)) : "-",
                    run.result ? run.result->value("end", "finished") : "unfinished"}};
}

void add_environment(Fragment& body, const RunFiles& run) {
  if (!run.environment) return;
  const Field field(*run.environment, (run.folder / "environment.json").string());
  body.note(fmt::format("Measured on {}, {}, {} kernels, torch {}, from {} on.",
                        field.text_or("processor", "an unknown processor"),
                        plural(std::lround(field.number_or("threads", 0)), "thread"),
                        field.text_or("kernels", "unknown"), field.text_or("torch", "unknown"),
                        field.text_or("started", "an unknown time")));
}

}  // namespace

std::vector<Section> training_sections(std::span<const Result> results) {
  std::vector<fs::path> folders;
  for (const Result& result : results) folders.push_back(result.path.parent_path());
  const std::vector<RunGroup> groups = group_runs(folders);
  Section section;
  section.title = folders.size() == 1 ? "Training: " + last_folder(folders.front())
                                      : fmt::format("Training: {}", plural(std::ssize(folders), "run"));
  if (folders.size() == 1) section.from = folders.front().string();
  for (const RunGroup& group : groups)
    for (const RunFiles& run : group.runs)
      section.notes.insert(section.notes.end(), run.notes.begin(), run.notes.end());

  const RunGroup* best = nullptr;
  double lowest = NAN;
  for (const RunGroup& group : groups) {
    std::vector<double> losses;
    for (const RunFiles& run : group.runs)
      losses.push_back(best_of(curve_of(run.metrics, "/validation/loss")));
    const double mean = mean_and_deviation(losses).mean;
    if (std::isfinite(mean) && !(mean >= lowest)) {
      lowest = mean;
      best = &group;
    }
  }
  if (best != nullptr)
    section.highlights.push_back({.label = groups.size() > 1 ? "lowest validation loss" : "validation loss",
                                  .value = fixed(lowest, 4),
                                  .detail = best->name});

  add_run_curves(section.body, groups);
  std::vector<PageRow> rows;
  for (const RunGroup& group : groups)
    for (const RunFiles& run : group.runs) rows.push_back(row_of(group, run));
  section.body.table(
      {"run", "attention", "seed", "steps", "last loss", "best validation", "tokens/s", "peak memory", "end"},
      rows);
  add_run_diagnoses(section.body, groups);
  add_environment(section.body, groups.front().runs.front());
  std::vector<Section> sections;
  sections.push_back(std::move(section));
  return sections;
}

}  // namespace saccade
