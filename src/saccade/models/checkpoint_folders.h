// Where a training's folder has its checkpoints, checkpoints/step-<number>, and which is the best. Whoever
// writes or reads one asks here for its name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace saccade {

std::filesystem::path checkpoints_of(const std::filesystem::path& run);
std::filesystem::path checkpoint_of(const std::filesystem::path& run, int64_t step);
// Steps of all checkpoints, rising; none when there is no such folder.
std::vector<int64_t> checkpoint_steps(const std::filesystem::path& run);
// The last of them with a model in it.
std::optional<std::filesystem::path> newest_model(const std::filesystem::path& run);

// The file with the name of the best checkpoint, and what it names if that is there.
std::filesystem::path best_file(const std::filesystem::path& run);
std::optional<int64_t> best_checkpoint(const std::filesystem::path& run);

}  // namespace saccade
