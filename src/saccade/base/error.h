// Two kinds of mistakes, told apart by type: Error is the user's and says what to change; an invariant that
// does not hold is ours and says where.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace saccade {

/// A user's mistake: wrong input, a missing file, a full disk. The message names the operation, the offending
/// value and what was expected; the program prints it and ends with exit code 2.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws an Error with a formatted message.
template <class... Arguments>
[[noreturn]] void fail(fmt::format_string<Arguments...> message, Arguments&&... arguments) {
  throw Error(fmt::format(message, std::forward<Arguments>(arguments)...));
}

/// Throws an Error with a formatted message unless `ok`. The message is formatted only when it is needed; its
/// arguments are evaluated always.
template <class... Arguments>
void require(bool ok, fmt::format_string<Arguments...> message, Arguments&&... arguments) {
  if (!ok) throw Error(fmt::format(message, std::forward<Arguments>(arguments)...));
}

/// What the operating system says of an error number.
std::string system_reason(int code = errno);

/// Runs `function` and returns its result. An Error that leaves it gets "context: " put before its message,
/// so that a low-level reason is read together with what was being done. Other exceptions pass unchanged.
template <class Function>
decltype(auto) with_context(std::string_view context, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", context, error.what()));
  }
}

/// A place in our sources. std::source_location would do, but clang-tidy 14 cannot read it.
struct SourceLocation {
  const char* file;
  unsigned line;

  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

/// Throws std::logic_error("internal error: <what> (<file>:<line>)") unless `ok`. For what only a mistake in
/// Saccade itself can make false; a user's mistake is a matter for require().
void invariant(bool ok, std::string_view what, SourceLocation where = SourceLocation::current());

}  // namespace saccade
