// Amounts as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace saccade {

/// "17 B", "3.5 KiB", "115 MiB".
std::string bytes_text(double bytes);
inline std::string bytes_text(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

}  // namespace saccade
