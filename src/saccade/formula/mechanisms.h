// The shipped mechanisms: every file of mechanisms/*.attn, compiled into the program by the build.
#pragma once

#include <span>
#include <string_view>

namespace saccade {

/// One shipped formula.
struct EmbeddedMechanism {
  std::string_view name;  ///< The file's name without `.attn`.
  std::string_view text;  ///< The whole file, byte for byte.
};

/// All shipped formulas, sorted by name.
std::span<const EmbeddedMechanism> embedded_mechanisms();

}  // namespace saccade
