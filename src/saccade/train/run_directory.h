// The folder of a training: recipe.toml, attention.attn, environment.json, metrics.jsonl, and checkpoints/
// with a model directory for each step that was kept. Whatever happens to the process, what stands there
// under its name is complete: files and checkpoints are written beside and then renamed.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "saccade/base/json.h"

namespace saccade {

class RunDirectory {
 public:
  // Makes the folder, and locks it: two trainings must not write into one. Throws Error when another does.
  explicit RunDirectory(std::filesystem::path path);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Something is there that a new training would destroy.
  static bool is_run(const std::filesystem::path& path);
  // A folder of this name that is no run yet: "runs/tiny", "runs/tiny-2", ...
  static std::filesystem::path free_name(const std::filesystem::path& wanted);

  // Steps of all checkpoints, rising.
  std::vector<int64_t> steps() const;
  std::filesystem::path checkpoint(int64_t step) const;
  // `write` fills an empty folder, which then becomes the checkpoint.
  void write_checkpoint(int64_t step, const std::function<void(const std::filesystem::path&)>& write);
  // The step of the best checkpoint, if one was named and is there.
  std::optional<int64_t> best() const;
  void set_best(int64_t step);
  // Removes all checkpoints but the newest `keep` and the best.
  void prune(int64_t keep);
  // Removes everything that a training writes, for one that starts again.
  void clear();

  // Adds a line to metrics.jsonl or another such file.
  void append(const std::string& file, const Json& line) const;
  // Lines of such a file, without one that was cut off. `last_step`: only those up to this "step", and the
  // others are removed from the file.
  static std::vector<Json> read_lines(const std::filesystem::path& file);
  void cut_lines(const std::string& file, int64_t last_step) const;

 private:
  void remove_checkpoint(int64_t step);

  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace saccade
