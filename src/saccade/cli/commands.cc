// The table of commands.
#include "saccade/cli/command.h"

namespace saccade {

Work declare_info(CLI::App& app);

std::span<const Command> commands() {
  static constexpr Command kCommands[] = {
      {"info", "Show what this build can do on this machine", "saccade info --json", declare_info},
  };
  return kCommands;
}

}  // namespace saccade
