// `saccade completion`: prints what a shell needs to complete the program's command line.
#include <CLI/CLI.hpp>
#include <memory>

#include "saccade/base/error.h"
#include "saccade/cli/completion_script.h"
#include "saccade/cli/output.h"

namespace saccade {

Work declare_completion(CLI::App& app) {
  struct Options {
    std::string shell;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  app.add_option("shell", options->shell, "Which shell")->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app.add_flag("--json", options->json, "Print all commands and options as JSON instead");
  return [options] {
    require(options->json != !options->shell.empty(),
            "completion: expected a shell (bash, zsh or fish) or --json");
    write_output(options->json ? dump(commands_json(commands()), 1) + "\n"
                               : completion_script(options->shell, commands()));
    return ExitCode::success;
  };
}

}  // namespace saccade
