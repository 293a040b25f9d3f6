// One digit after the point while the number has fewer than three before it.
#include "saccade/base/units.h"

#include <fmt/format.h>

#include <string_view>

namespace saccade {

std::string bytes_text(double bytes) {
  static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 100 ? 0 : 1, kUnits[unit]);
}

}  // namespace saccade
