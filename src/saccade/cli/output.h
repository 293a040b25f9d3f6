// Results go to standard output, and a result that did not arrive is an error: a full disk must not look like
// success.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace saccade {

/// Writes text to standard output; throws an Error when it cannot be written.
void write_output(std::string_view text);

/// Sends on what is still held back; throws an Error when it cannot be written. The program does so at its
/// end.
void flush_output();

/// Formats and writes to standard output.
template <class... Arguments>
void print(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  write_output(fmt::format(text, std::forward<Arguments>(arguments)...));
}

}  // namespace saccade
