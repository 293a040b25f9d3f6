// Files in and out: reading refuses what cannot end, writing either replaces a file completely or leaves it
// as it was.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace saccade {

/// The content of a regular file of at most `max_bytes`. Throws an Error that names the path and the reason
/// when the file is missing, unreadable, larger, or no regular file (a directory, a device, a pipe: these may
/// never end, and opening a pipe may wait forever).
std::string read_file(const std::filesystem::path& path, std::size_t max_bytes);

/// A file that comes to exist, or is replaced, only when it is complete: what is appended goes to a new file
/// in the same directory, and commit() renames that to `path`. Another process, or this one after a crash,
/// sees the old file or the new one, never half of it. An existing file keeps its permission bits; a symbolic
/// link stays one and its target is replaced. Without a commit no file remains. A failure is an Error that
/// names the path and the reason. Devices and pipes are refused: renaming would replace them.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(std::string_view content);

  /// Once, after the last append.
  void commit();

 private:
  void discard();

  std::filesystem::path path_;       // as it was given, for messages
  std::filesystem::path target_;     // where its symbolic links end
  std::filesystem::path temporary_;  // beside the target; empty once it has been renamed
  int descriptor_ = -1;
};

/// An AtomicFile of `content`.
void write_atomic(const std::filesystem::path& path, std::string_view content);

/// Makes a directory and those above it; one that is there is fine. Throws an Error that names it.
void make_directories(const std::filesystem::path& path);

}  // namespace saccade
