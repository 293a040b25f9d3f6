// The scripts and style sheets of web/, compiled into the program; the build writes the function.
#pragma once

#include <span>
#include <string_view>

namespace saccade {

struct WebFile {
  std::string_view name;  ///< "charts.js"
  std::string_view text;
};

std::span<const WebFile> web_files();

}  // namespace saccade
