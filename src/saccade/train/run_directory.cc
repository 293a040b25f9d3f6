#include "saccade/train/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/text.h"
#include "saccade/models/checkpoint_folders.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kUnfinished = ".writing", kRemoved = ".removing";
constexpr size_t kMostLineBytes = size_t{4} << 30;

// What was written must be on the disk before it gets its name.
void sync(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(descriptor >= 0, "{}: {}", path.string(), std::strerror(errno));
  const int result = ::fsync(descriptor);
  const int reason = errno;
  ::close(descriptor);
  require(result == 0 || reason == EINVAL, "{}: {}", path.string(), std::strerror(reason));
}

void rename_or_fail(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  require(!error, "{}: cannot become {}: {}", from.string(), to.string(), error.message());
}

void remove_or_fail(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  require(!error, "{}: cannot be removed: {}", path.string(), error.message());
}

}  // namespace

RunDirectory::RunDirectory(fs::path path) : path_(std::move(path)) {
  make_directories(checkpoints_of(path_));
  const fs::path file = path_ / ".lock";
  lock_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  require(lock_ >= 0, "{}: {}", file.string(), std::strerror(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock_);
    fail("{}: another process is training in this folder", path_.string());
  }
  // What a killed process left half done.
  for (const auto& entry : fs::directory_iterator(checkpoints_of(path_))) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kUnfinished) || name.starts_with(kRemoved)) remove_or_fail(entry.path());
  }
}

RunDirectory::~RunDirectory() { ::close(lock_); }

bool RunDirectory::is_run(const fs::path& path) {
  std::error_code none;
  return fs::exists(path / "recipe.toml", none);
}

fs::path RunDirectory::free_name(const fs::path& wanted) {
  fs::path path = wanted;
  for (int number = 2; is_run(path); ++number) path = wanted.string() + "-" + std::to_string(number);
  return path;
}

std::vector<int64_t> RunDirectory::steps() const { return checkpoint_steps(path_); }

fs::path RunDirectory::checkpoint(int64_t step) const { return checkpoint_of(path_, step); }

void RunDirectory::write_checkpoint(int64_t step, const std::function<void(const fs::path&)>& write) {
  const fs::path folder = checkpoints_of(path_), unfinished = folder / kUnfinished, target = checkpoint(step);
  remove_or_fail(unfinished);
  make_directories(unfinished);
  try {
    write(unfinished);
    for (const auto& entry : fs::recursive_directory_iterator(unfinished)) sync(entry.path());
    sync(unfinished);
    if (fs::exists(target)) remove_checkpoint(step);
    rename_or_fail(unfinished, target);
    sync(folder);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(unfinished, ignored);
    throw;
  }
}

void RunDirectory::remove_checkpoint(int64_t step) {
  // Renaming first: a folder that is half removed must not look like a checkpoint.
  const fs::path removed = checkpoints_of(path_) / kRemoved;
  remove_or_fail(removed);
  rename_or_fail(checkpoint(step), removed);
  remove_or_fail(removed);
}

std::optional<int64_t> RunDirectory::best() const { return best_checkpoint(path_); }

void RunDirectory::set_best(int64_t step) {
  write_atomic(best_file(path_), checkpoint(step).filename().string() + "\n");
}

void RunDirectory::prune(int64_t keep) {
  std::vector<int64_t> all = steps();
  const std::optional<int64_t> spared = best();
  const auto gone = static_cast<int64_t>(all.size()) - keep;
  for (int64_t index = 0; index < gone; ++index)
    if (all[static_cast<size_t>(index)] != spared) remove_checkpoint(all[static_cast<size_t>(index)]);
}

void RunDirectory::clear() {
  for (const int64_t step : steps()) remove_checkpoint(step);
  remove_or_fail(best_file(path_));
  for (const char* name : {"metrics.jsonl", "diagnostics.jsonl", "recipe.toml", "attention.attn",
                           "encoder_attention.attn", "cross_attention.attn", "validation.source",
                           "validation.target", "validation.translation", "environment.json", "result.json"})
    remove_or_fail(path_ / name);
}

void RunDirectory::append(const std::string& file, const Json& line) const {
  const std::string text = dump(line) + "\n";
  const fs::path path = path_ / file;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  require(descriptor >= 0, "{}: {}", path.string(), std::strerror(errno));
  const ssize_t written = ::write(descriptor, text.data(), text.size());
  const int reason = errno;
  ::close(descriptor);
  require(written == static_cast<ssize_t>(text.size()), "{}: cannot be written: {}", path.string(),
          written < 0 ? std::strerror(reason) : "the disk is full");
}

std::vector<Json> RunDirectory::read_lines(const fs::path& file) {
  std::error_code none;
  if (!fs::exists(file, none)) return {};
  const std::string text = read_file(file, kMostLineBytes);
  std::vector<Json> result;
  const std::vector<std::string_view> lines = split_lines(text);
  for (size_t index = 0; index < lines.size(); ++index) {
    // A process that was killed may have written half a line, at the end.
    if (index + 1 == lines.size() && !text.ends_with('\n')) break;
    if (!trim(lines[index]).empty())
      result.push_back(parse_json(lines[index], fmt::format("{}:{}", file.string(), index + 1)));
  }
  return result;
}

void RunDirectory::cut_lines(const std::string& file, int64_t last_step) const {
  std::error_code none;
  if (!fs::exists(path_ / file, none)) return;
  std::string kept;
  for (const Json& line : read_lines(path_ / file))
    if (line.value("step", int64_t{0}) <= last_step) kept += dump(line) + "\n";
  write_atomic(path_ / file, kept);
}

}  // namespace saccade
