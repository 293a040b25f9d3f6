// Options are asked what they take: one of some words, a formula, a file, or anything.
#include "saccade/cli/completion_script.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/formula/mechanisms.h"

namespace saccade {
namespace {

enum class Takes { nothing, words, formula, file, anything };

struct Argument {
  std::vector<std::string> names;  // "--path", "-n"; empty for a positional
  std::string summary;
  Takes takes = Takes::anything;
  std::vector<std::string> words;  // that it may be
};

struct Completed {
  std::string name, summary, example;
  std::vector<Argument> options, positionals;
};

// What stands between braces in a type such as "TEXT:{automatic,fused}".
std::vector<std::string> words_in(const std::string& type) {
  std::vector<std::string> words;
  const size_t begin = type.find('{'), end = type.find('}', begin);
  if (begin == std::string::npos || end == std::string::npos) return words;
  for (size_t at = begin + 1; at < end;) {
    const size_t comma = std::min(type.find(',', at), end);
    words.push_back(type.substr(at, comma - at));
    at = comma + 1;
  }
  return words;
}

bool names_a_path(const std::string& type) {
  for (const char* kind : {"FILE", "DIR", "MODEL", "RUN", "CANDIDATE", "RECIPE", "PATH"})
    if (type.find(kind) != std::string::npos) return true;
  return false;
}

std::string first_sentence(const std::string& text) {
  const size_t end = std::min(text.find("; "), text.find(". "));
  return text.substr(0, end);
}

Argument argument_of(const CLI::Option& option) {
  Argument argument{.summary = first_sentence(option.get_description())};
  for (const std::string& name : option.get_lnames()) argument.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) argument.names.push_back("-" + name);
  const std::string type = option.get_type_name();
  argument.words = words_in(type);
  argument.takes = option.get_items_expected_max() == 0        ? Takes::nothing
                   : !argument.words.empty()                   ? Takes::words
                   : type.find("FORMULA") != std::string::npos ? Takes::formula
                   : names_a_path(type)                        ? Takes::file
                                                               : Takes::anything;
  return argument;
}

std::vector<Completed> everything(std::span<const Command> commands) {
  std::vector<Completed> all;
  for (const Command& command : commands) {
    CLI::App app;
    app.set_help_flag("-h,--help", "Print this help and exit");
    const Work work = command.declare(app);
    bool verbose = false, quiet = false;
    app.add_flag("-v,--verbose", verbose, "Show messages for finding a problem");
    app.add_flag("-q,--quiet", quiet, "Show no messages but errors");
    Completed completed{.name = std::string(command.name),
                        .summary = std::string(command.summary),
                        .example = std::string(command.example)};
    for (const CLI::Option* option : app.get_options())
      (option->get_positional() && option->get_lnames().empty() && option->get_snames().empty()
           ? completed.positionals
           : completed.options)
          .push_back(argument_of(*option));
    all.push_back(std::move(completed));
  }
  return all;
}

std::string mechanism_names() {
  std::vector<std::string> names;
  for (const EmbeddedMechanism& mechanism : embedded_mechanisms()) names.emplace_back(mechanism.name);
  return join(names, " ");
}

// Words that may stand where no option does.
std::string positional_words(const Completed& command) {
  for (const Argument& argument : command.positionals) {
    if (argument.takes == Takes::formula) return mechanism_names();
    if (argument.takes == Takes::words) return join(argument.words, " ");
  }
  return "";
}

// In single quotes, as bash, zsh and fish read them.
std::string shell_word(std::string_view text, bool fish = false) {
  std::string result = "'";
  for (const char letter : text) {
    if (letter == '\'')
      result += fish ? "\\'" : "'\\''";
    else if (letter == '\\' && fish)
      result += "\\\\";
    else
      result += letter;
  }
  return result + "'";
}

std::string bash_script(const std::vector<Completed>& commands) {
  std::vector<std::string> names;
  std::string values, options;
  for (const Completed& command : commands) {
    names.push_back(command.name);
    std::vector<std::string> words;
    for (const Argument& option : command.options) {
      words.insert(words.end(), option.names.begin(), option.names.end());
      if (option.takes == Takes::nothing) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names) patterns.push_back(command.name + ":" + name);
      const std::string what = option.takes == Takes::words     ? "words='" + join(option.words, " ") + "'"
                               : option.takes == Takes::formula ? "words=$formulas files=1"
                               : option.takes == Takes::file    ? "files=1"
                                                                : "";
      values += fmt::format("    {}) {}{}value=1 ;;\n", join(patterns, "|"), what, what.empty() ? "" : " ");
    }
    const std::string words_here = positional_words(command);
    options += fmt::format("      {}) options='{}'{} ;;\n", command.name, join(words, " "),
                           words_here.empty() ? "" : " words='" + words_here + "'");
  }
  return fmt::format(
      R"(# Completion of saccade for bash: source <(saccade completion bash)
_saccade() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}}
  local before=${{COMP_WORDS[COMP_CWORD-1]}} words='' options='' files='' value=''
  local formulas='{}'
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W '{} --help --version' -- "$current"))
    return
  fi
  case $command:$before in
{}  esac
  if [[ ! $value ]]; then
    files=1
    case $command in
{}    esac
    if [[ $current == -* ]]; then words=$options files=''; fi
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ $files ]]; then
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY+=($(compgen -f -- "$current"))
  fi
}}
complete -F _saccade saccade
)",
      mechanism_names(), join(names, " "), values, options);
}

// Inside [...] and before a colon some letters have a meaning.
std::string zsh_text(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') result += '\\';
    result += letter;
  }
  return result;
}

std::string zsh_value(const Argument& argument) {
  switch (argument.takes) {
    case Takes::nothing:
      return "";
    case Takes::words:
      return ":value:(" + join(argument.words, " ") + ")";
    case Takes::formula:
      return ":formula:_saccade_formula";
    case Takes::file:
      return ":file:_files";
    case Takes::anything:
      return ":value: ";
  }
  return "";
}

std::string zsh_script(const std::vector<Completed>& commands) {
  std::string list, cases;
  for (const Completed& command : commands) {
    list += fmt::format("    {}\n", shell_word(zsh_text(command.name) + ":" + zsh_text(command.summary)));
    std::string arguments;
    for (const Argument& option : command.options)
      for (const std::string& name : option.names)
        arguments += " \\\n        " +
                     shell_word(fmt::format("*{}[{}]{}", name, zsh_text(option.summary), zsh_value(option)));
    const std::string words = positional_words(command);
    arguments +=
        " \\\n        " + shell_word(words.empty() ? "*:file:_files" : "*: :_saccade_words " + words);
    cases += fmt::format("    {})\n      _arguments -s{}\n      ;;\n", command.name, arguments);
  }
  return fmt::format(
      R"zsh(#compdef saccade
# Completion of saccade for zsh: saccade completion zsh > a folder of $fpath/_saccade, or
#   source <(saccade completion zsh)   after compinit
_saccade_formula() {{ _saccade_words {} }}
_saccade_words() {{
  local -a words_here=($@)
  _alternative "words:word:($words_here)" 'files:file:_files'
}}
_saccade() {{
  local -a commands
  commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{}  esac
}}
if [[ $funcstack[1] == _saccade ]]; then _saccade "$@"; else compdef _saccade saccade; fi
)zsh",
      mechanism_names(), list, cases);
}

std::string fish_script(const std::vector<Completed>& commands) {
  std::string script = "# Completion of saccade for fish: saccade completion fish | source\n";
  for (const Completed& command : commands) {
    script += fmt::format("complete -c saccade -n __fish_use_subcommand -f -a {} -d {}\n", command.name,
                          shell_word(command.summary, true));
    const std::string when =
        "complete -c saccade -n " + shell_word("__fish_seen_subcommand_from " + command.name);
    for (const Argument& option : command.options) {
      std::string names;
      for (const std::string& name : option.names)
        names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      const std::string value =
          option.takes == Takes::words      ? " -x -a " + shell_word(join(option.words, " "), true)
          : option.takes == Takes::formula  ? " -r -a " + shell_word(mechanism_names(), true)
          : option.takes == Takes::file     ? " -r"
          : option.takes == Takes::anything ? " -x"
                                            : "";
      script += fmt::format("{}{}{} -d {}\n", when, names, value, shell_word(option.summary, true));
    }
    const std::string words = positional_words(command);
    if (!words.empty()) script += fmt::format("{} -a {}\n", when, shell_word(words, true));
  }
  return script;
}

std::string_view name_of(Takes takes) {
  switch (takes) {
    case Takes::nothing:
      return "nothing";
    case Takes::words:
      return "words";
    case Takes::formula:
      return "formula";
    case Takes::file:
      return "file";
    case Takes::anything:
      return "anything";
  }
  return "";
}

Json json_of(const std::vector<Argument>& arguments) {
  Json list = Json::array();
  for (const Argument& argument : arguments)
    list.push_back({{"names", argument.names},
                    {"summary", argument.summary},
                    {"takes", name_of(argument.takes)},
                    {"words", argument.words}});
  return list;
}

}  // namespace

Json commands_json(std::span<const Command> commands) {
  Json list = Json::array();
  for (const Completed& command : everything(commands))
    list.push_back({{"name", command.name},
                    {"summary", command.summary},
                    {"example", command.example},
                    {"options", json_of(command.options)},
                    {"positionals", json_of(command.positionals)}});
  return list;
}

std::string completion_script(std::string_view shell, std::span<const Command> commands) {
  const std::vector<Completed> all = everything(commands);
  if (shell == "bash") return bash_script(all);
  if (shell == "zsh") return zsh_script(all);
  if (shell == "fish") return fish_script(all);
  fail("completion: the shell is '{}'; expected bash, zsh or fish", printable(shell));
}

}  // namespace saccade
