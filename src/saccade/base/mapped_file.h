// A file's bytes in memory without reading them: the system brings in a page when it is first looked at, and
// may drop it again, so that a file of weights larger than memory can be opened.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace saccade {

/// A regular file, mapped for reading. A missing file, a directory or a device is an Error that names the
/// path. The file must not be made shorter while it is mapped: the system ends a program that looks at bytes
/// that are gone. Replacing it by renaming another one over it is safe.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  /// They stay at their place when the MappedFile is moved.
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace saccade
