// `saccade language`: the language reference as Markdown, or its tables as JSON.
#include "saccade/cli/command.h"
#include "saccade/cli/output.h"
#include "saccade/formula/manual.h"

namespace saccade {

Work declare_language(CLI::App& app) {
  const auto as_json = std::make_shared<bool>(false);
  app.add_flag("--json", *as_json, "Print statements, names, operations and norms as JSON");
  return [as_json] {
    if (*as_json)
      print("{}\n", dump(language_json(), 2));
    else
      write_output(language_manual());
    return ExitCode::success;
  };
}

}  // namespace saccade
