#include "saccade/models/checkpoint_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "saccade/base/file.h"
#include "saccade/base/text.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "step-";

std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return {};
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto result = std::from_chars(name.data() + kPrefix.size(), end, step);
  return result.ec == std::errc() && result.ptr == end && step >= 0 ? std::optional(step) : std::nullopt;
}

}  // namespace

fs::path checkpoints_of(const fs::path& run) { return run / "checkpoints"; }

fs::path checkpoint_of(const fs::path& run, int64_t step) {
  return checkpoints_of(run) / fmt::format("{}{:08}", kPrefix, step);
}

std::vector<int64_t> checkpoint_steps(const fs::path& run) {
  std::vector<int64_t> result;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(checkpoints_of(run), none))
    if (const auto step = step_of(entry.path().filename().string()); step && entry.is_directory(none))
      result.push_back(*step);
  std::ranges::sort(result);
  return result;
}

std::optional<fs::path> newest_model(const fs::path& run) {
  std::error_code none;
  std::vector<int64_t> steps = checkpoint_steps(run);
  for (; !steps.empty(); steps.pop_back())
    if (fs::path folder = checkpoint_of(run, steps.back()); fs::exists(folder / "config.json", none))
      return folder;
  return {};
}

fs::path best_file(const fs::path& run) { return run / "best"; }

std::optional<int64_t> best_checkpoint(const fs::path& run) {
  std::error_code none;
  if (!fs::exists(best_file(run), none)) return {};
  const auto step = step_of(trim(read_file(best_file(run), 4096)));
  return step && fs::exists(checkpoint_of(run, *step), none) ? step : std::nullopt;
}

}  // namespace saccade
