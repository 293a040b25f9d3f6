// The files of training runs, and what they show over their steps: for trainings by themselves and for the
// runs of a comparison alike.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "saccade/base/json.h"
#include "saccade/report/fragment.h"

namespace saccade {

struct RunFiles {
  std::filesystem::path folder;
  std::string seed;
  std::vector<Json> metrics, diagnostics;  // lines
  std::optional<Json> result, environment;
  std::vector<std::string> notes;
};
/// Whatever of it is there. Throws Error for a broken file; a last line that was cut off is a note.
RunFiles read_run(const std::filesystem::path& folder);

/// Runs that differ in their seed alone.
struct RunGroup {
  std::string name;
  std::vector<RunFiles> runs;
};
/// By their recipes; named by attention, and where that is not enough by recipe or by folder.
std::vector<RunGroup> group_runs(const std::vector<std::filesystem::path>& folders);

/// Losses, gradient norms, learning rates: one line for each group, with the spread over its seeds.
void add_run_curves(Fragment& body, const std::vector<RunGroup>& groups);
/// What the last looks inside showed, and how ranks went over the training.
void add_run_diagnoses(Fragment& body, const std::vector<RunGroup>& groups);

}  // namespace saccade
