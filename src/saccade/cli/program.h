// The program without its process: understands the command line, runs the command, turns exceptions into exit
// codes.
#pragma once

#include <span>
#include <string>

#include "saccade/cli/command.h"

namespace saccade {

/// Runs the command that `arguments` (without the program's name) ask for. Never throws.
ExitCode run_program(std::span<const std::string> arguments, std::span<const Command> commands);

}  // namespace saccade
