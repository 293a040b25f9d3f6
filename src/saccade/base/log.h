// Messages for the person at the terminal: one line each, to standard error, never mixed with results.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace saccade::log {

enum class Level { debug, info, warn, error, off };

/// Shows messages of this level and above. Until it is called, the environment variable SACCADE_LOG decides
/// (debug, info, warn, error or off); without it, info.
void set_level(Level level);
Level level();

/// The level of this name; throws an Error that names the nearest one when there is none.
Level parse_level(std::string_view name);

/// Writes one message if the level is shown: "warning: …", coloured if a person watches and wishes it.
void write(Level level, std::string_view message);

template <class... Arguments>
void debug(fmt::format_string<Arguments...> message, Arguments&&... arguments) {
  if (level() <= Level::debug)
    write(Level::debug, fmt::format(message, std::forward<Arguments>(arguments)...));
}

template <class... Arguments>
void info(fmt::format_string<Arguments...> message, Arguments&&... arguments) {
  if (level() <= Level::info) write(Level::info, fmt::format(message, std::forward<Arguments>(arguments)...));
}

template <class... Arguments>
void warn(fmt::format_string<Arguments...> message, Arguments&&... arguments) {
  if (level() <= Level::warn) write(Level::warn, fmt::format(message, std::forward<Arguments>(arguments)...));
}

template <class... Arguments>
void error(fmt::format_string<Arguments...> message, Arguments&&... arguments) {
  if (level() <= Level::error)
    write(Level::error, fmt::format(message, std::forward<Arguments>(arguments)...));
}

}  // namespace saccade::log
