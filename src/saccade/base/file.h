// Whole files in and out: reading refuses what cannot end, writing either replaces a file completely or
// leaves it as it was.
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

/// Writes `content` to a new file in the same directory and then renames it to `path`: another process, or
/// this one after a crash, sees the old file or the new one, never half of it. An existing file keeps its
/// permission bits; a symbolic link stays one and its target is replaced. On failure no temporary file
/// remains and an Error names the path and the reason. Devices and pipes are refused: renaming would replace
/// them.
void write_atomic(const std::filesystem::path& path, std::string_view content);

}  // namespace saccade
