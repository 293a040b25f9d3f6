// Scripts that let a shell complete commands, options and their values. They are made from the same
// declarations that read the command line, so that a new option needs nothing more.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "saccade/base/json.h"
#include "saccade/cli/command.h"

namespace saccade {

/// For "bash", "zsh" or "fish"; throws an Error for another shell.
std::string completion_script(std::string_view shell, std::span<const Command> commands);

/// All commands with their options and what these take, for other tools: [{"name", "summary", "example",
/// "options": [{"names", "summary", "takes", "words"}], "positionals": [...]}].
Json commands_json(std::span<const Command> commands);

}  // namespace saccade
