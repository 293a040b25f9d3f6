// The table of commands.
#include "saccade/cli/command.h"

namespace saccade {

Work declare_check(CLI::App& app);
Work declare_explain(CLI::App& app);
Work declare_info(CLI::App& app);
Work declare_mechanisms(CLI::App& app);

std::span<const Command> commands() {
  static constexpr Command kCommands[] = {
      {"check", "Run the conformance suite on formulas", "saccade check mine.attn", declare_check},
      {"explain", "Say what a formula computes, its derivatives, what is skipped, whether it decodes",
       "saccade explain mine.attn --length 8192", declare_explain},
      {"mechanisms", "List the shipped formulas, or print one", "saccade mechanisms alibi",
       declare_mechanisms},
      {"info", "Show what this build can do on this machine", "saccade info --json", declare_info},
  };
  return kCommands;
}

}  // namespace saccade
