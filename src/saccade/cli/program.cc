// One CLI11 parser per command, made only for the command that was named: the words before it are few enough
// to be understood here, and errors can then name the nearest command or option.
#include "saccade/cli/program.h"

#include <c10/util/Exception.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <new>
#include <vector>

#include "saccade/base/error.h"
#include "saccade/base/log.h"
#include "saccade/base/text.h"
#include "saccade/cli/output.h"
#include "saccade/version.h"

namespace saccade {
namespace {

std::string program_help(std::span<const Command> commands) {
  Table table({"Commands:", ""});
  for (const Command& command : commands) {
    table.add({fmt::format("  {}", command.name), std::string(command.summary)});
  }
  return fmt::format(
      "Saccade: attention mechanisms as short formulas.\n\n"
      "Example:\n  {}\n\n"
      "Usage: saccade COMMAND [OPTIONS]\n\n"
      "{}\n"
      "`saccade COMMAND --help` explains a command and its options.\n"
      "`saccade --version` prints the version.\n",
      commands.empty() ? "saccade --version" : commands.front().example, table.print());
}

const Command& find_command(std::string_view name, std::span<const Command> commands) {
  std::vector<std::string_view> names;
  for (const Command& command : commands) {
    if (command.name == name) return command;
    names.push_back(command.name);
  }
  const std::string suggestion = did_you_mean(name, names);
  fail("unknown command '{}'{}", name, suggestion.empty() ? "; `saccade --help` lists all" : suggestion);
}

// Every name under which an option of the parser can be given.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    for (const auto& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

// Reports what the parser could not place. An option that does not exist explains most other complaints, such
// as a missing argument that it was meant to give, and is therefore told first.
[[noreturn]] void fail_to_parse(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> extras = app.remaining();
  const auto is_option = [](const std::string& word) { return word.size() > 1 && word[0] == '-'; };
  if (const auto option = std::find_if(extras.begin(), extras.end(), is_option); option != extras.end()) {
    const std::string name = option->substr(0, option->find('='));
    const std::string suggestion = did_you_mean(name, option_names(app));
    fail("unknown option '{}'{}", name,
         suggestion.empty() ? fmt::format("; see `{} --help`", app.get_name()) : suggestion);
  }
  if (!extras.empty()) fail("unexpected argument '{}'; see `{} --help`", extras.front(), app.get_name());
  fail("{}; see `{} --help`", error.what(), app.get_name());
}

ExitCode run_command(const Command& command, std::span<const std::string> arguments) {
  CLI::App app(std::string(command.summary) + ".", fmt::format("saccade {}", command.name));
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.get_formatter()->column_width(34);
  const Work work = command.declare(app);
  bool verbose = false, quiet = false;
  auto* verbose_flag = app.add_flag("-v,--verbose", verbose, "Show messages for finding a problem");
  app.add_flag("-q,--quiet", quiet, "Show no messages but errors")->excludes(verbose_flag);

  // CLI11 takes a list as a stack: the last word first.
  std::vector<std::string> words(arguments.rbegin(), arguments.rend());
  try {
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    print("Example:\n  {}\n\n{}", command.example, app.help());
    return ExitCode::success;
  } catch (const CLI::ParseError& error) {
    with_context(command.name, [&] { fail_to_parse(app, error); });
  }
  if (verbose) log::set_level(log::Level::debug);
  if (quiet) log::set_level(log::Level::error);
  return work();
}

ExitCode run_command(std::span<const std::string> arguments, std::span<const Command> commands) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    write_output(program_help(commands));
    return ExitCode::success;
  }
  const std::string& first = arguments[0];
  if (first == "--version") {
    print("saccade {}\n", SACCADE_VERSION);
    return ExitCode::success;
  }
  if (first == "help") {
    if (arguments.size() == 1) return run_command({}, commands);
    const std::vector<std::string> help = {arguments[1], "--help"};
    return run_command(help, commands);
  }
  if (first.starts_with('-')) {
    static constexpr std::string_view kOptions[] = {"--help", "--version"};
    const std::string suggestion = did_you_mean(first, kOptions);
    fail("unknown option '{}'{}", first,
         suggestion.empty() ? "; a command comes first: saccade COMMAND [OPTIONS]" : suggestion);
  }
  return run_command(find_command(first, commands), arguments.subspan(1));
}

}  // namespace

ExitCode run_program(std::span<const std::string> arguments, std::span<const Command> commands) {
  try {
    const ExitCode code = run_command(arguments, commands);
    flush_output();
    return code;
  } catch (const Error& error) {
    log::error("{}", error.what());
    return ExitCode::wrong_input;
  } catch (const std::bad_alloc&) {
    log::error("out of memory");
    return ExitCode::wrong_input;
  } catch (const c10::Error& error) {
    log::error("internal error: LibTorch: {}", error.what_without_backtrace());
    return ExitCode::internal;
  } catch (const std::exception& error) {
    log::error("{}", error.what());
    return ExitCode::internal;
  } catch (...) {
    log::error("internal error: an exception of unknown type");
    return ExitCode::internal;
  }
}

}  // namespace saccade
