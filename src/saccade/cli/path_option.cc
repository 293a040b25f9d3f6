// Reading the name of a path.
#include "saccade/cli/path_option.h"

#include <map>

namespace saccade {

void declare_path(CLI::App& app, Path& path) {
  std::map<std::string, Path> paths;
  for (const Path each : {Path::automatic, Path::fused, Path::reference}) paths.emplace(name_of(each), each);
  app.add_option_function<std::string>(
         "--path", [&path, paths](const std::string& name) { path = paths.at(name); },
         "What runs the pairs: the fused kernels, the reference, or automatic, which is what a program gets")
      ->check(CLI::IsMember(paths))
      ->default_str(std::string(name_of(path)));
}

}  // namespace saccade
