// What a command of the program is: a row in a table, and a function that declares its options and returns
// its work.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <span>
#include <string_view>

namespace saccade {

/// How the program ends. Every command returns `success` or `check_failed`; the others come from exceptions.
enum class ExitCode {
  success = 0,
  check_failed = 1,  ///< The work was done and its answer is no.
  wrong_input = 2,   ///< An Error: wrong usage or input, or a file that cannot be read or written.
  internal = 3,      ///< A mistake in Saccade itself.
  interrupted = 130  ///< Ctrl-C.
};

/// The work of a command. It runs only after the whole command line was understood.
using Work = std::function<ExitCode()>;

/// One command. To add one: write a file with its `declare`, and add its row in commands.cc.
///
///     Work declare_info(CLI::App& app) {
///       auto options = std::make_shared<InfoRequest>();
///       app.add_flag("--json", options->json, "Print JSON");
///       return [options] { return info(*options); };
///     }
struct Command {
  std::string_view name;
  std::string_view summary;        ///< One line, a sentence without its full stop.
  std::string_view example;        ///< A command line that works, shown first in the command's help.
  Work (*declare)(CLI::App& app);  ///< Adds the options to `app`, which outlives the work.
};

/// Bytes of a file that a command reads as a whole; more is a mistake.
inline constexpr size_t kLargestFile = size_t{1} << 40;

/// All commands, in the order in which the help lists them.
std::span<const Command> commands();

}  // namespace saccade
