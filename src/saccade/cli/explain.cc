// `saccade explain`: what a formula means, what follows from it, and what it costs.
#include "saccade/formula/explain.h"

#include "saccade/attention/attention.h"
#include "saccade/base/error.h"
#include "saccade/cli/command.h"
#include "saccade/cli/formula_options.h"
#include "saccade/cli/output.h"
#include "saccade/cli/path_option.h"

namespace saccade {
namespace {

struct ExplainRequest {
  FormulaOptions formula;
  ExplainOptions explain;
  Path path = Path::automatic;
  bool json = false;
};

ExitCode run(const ExplainRequest& options) {
  const Formula formula = options.formula.load(options.formula.files.front());
  const PathChoice path = choose_path(formula, options.path);
  if (options.json) {
    Json json = explain_json(formula, options.explain);
    json["path"] = {{"name", name_of(path.path)}, {"reason", path.reason}};
    print("{}\n", dump(json, 2));
    return ExitCode::success;
  }
  write_output(explain(formula, options.explain));
  print("\nPath\n  {}: {}\n", name_of(path.path), path.reason);
  return ExitCode::success;
}

}  // namespace

Work declare_explain(CLI::App& app) {
  const auto options = std::make_shared<ExplainRequest>();
  options->formula.declare(app, false);
  app.add_option("-n,--length", options->explain.length, "Number of tokens for tiles and costs")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}))
      ->capture_default_str();
  app.add_option("--tile", options->explain.tile, "Side of a tile")
      ->check(CLI::Range(int64_t{16}, int64_t{4096}))
      ->capture_default_str();
  app.add_option("--width", options->explain.width, "Width of a head, for costs")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}))
      ->capture_default_str();
  declare_path(app, options->path);
  app.add_flag("--program", options->explain.program, "List the instructions too");
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace saccade
