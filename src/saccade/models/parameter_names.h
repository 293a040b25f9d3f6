// What the names of a transformer's parameters say about them.
#pragma once

#include <string_view>

namespace saccade {

// Whether it is one that a formula learns, of some layer.
inline bool learned_by_formula(std::string_view parameter) {
  return parameter.find(".attention.") != std::string_view::npos;
}

}  // namespace saccade
