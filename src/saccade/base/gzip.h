// Text that may have been compressed with gzip, as corpora are often kept.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace saccade {

/// Whether these bytes begin as a gzip file does.
bool is_gzip(std::string_view bytes);

/// What was compressed; several parts one after another are one text. Throws an Error, beginning with `name`,
/// for what is damaged, cut off, or longer than `max_bytes`.
std::string unpack_gzip(std::string_view bytes, const std::string& name, std::size_t max_bytes);

/// The content of a file, unpacked if it is compressed, whatever its name says.
std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes);

}  // namespace saccade
