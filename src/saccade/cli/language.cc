// `saccade language`: the language reference as Markdown.
#include "saccade/cli/command.h"
#include "saccade/cli/output.h"
#include "saccade/formula/manual.h"

namespace saccade {

Work declare_language(CLI::App&) {
  return [] {
    write_output(language_manual());
    return ExitCode::success;
  };
}

}  // namespace saccade
