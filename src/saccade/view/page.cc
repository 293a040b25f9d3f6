// What draws plots is the report's; the rest lies in view/web.
#include "saccade/view/page.h"

#include "saccade/report/web.h"

namespace saccade {

// Written by the build.
std::span<const WebFile> view_web_files();

std::map<std::string, ServedFile> view_files() {
  std::map<std::string, ServedFile> files = {{"plots.js", {"text/javascript; charset=utf-8", plot_scripts()}},
                                             {"plots.css", {"text/css; charset=utf-8", plot_styles()}}};
  for (const WebFile& file : view_web_files()) {
    const std::string name(file.name);
    if (name.ends_with(".html"))
      files[""] = {"text/html; charset=utf-8", std::string(file.text)};
    else
      files[name] = {name.ends_with(".css") ? "text/css; charset=utf-8" : "text/javascript; charset=utf-8",
                     std::string(file.text)};
  }
  return files;
}

}  // namespace saccade
