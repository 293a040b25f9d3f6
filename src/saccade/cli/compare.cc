// `saccade compare`: one recipe, several mechanisms, several seeds; a table, a JSON file and pictures.
#include <ATen/Parallel.h>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/log.h"
#include "saccade/base/progress.h"
#include "saccade/base/text.h"
#include "saccade/cli/command.h"
#include "saccade/cli/interrupt.h"
#include "saccade/cli/number_checks.h"
#include "saccade/cli/output.h"
#include "saccade/models/bfloat16.h"
#include "saccade/train/comparison.h"
#include "saccade/train/recipe_file.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

struct CompareRequest {
  std::string recipe, out;
  std::vector<std::string> overrides, attention, sweeps;
  std::vector<double> lengths = {1, 2, 4};
  int64_t runs = 3;
  int threads = 0;
  bool no_control = false, no_corruption = false, json = false;
};

Sweep parse_sweep(const std::string& text) {
  const size_t equals = text.find('=');
  require(equals != std::string::npos && equals > 0 && equals + 1 < text.size(),
          "--sweep: cannot read '{}'; expected a key and values, such as lp=0,0.25,0.5", printable(text));
  Sweep sweep{text.substr(0, equals), {}};
  for (size_t begin = equals + 1; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    require(end > begin, "--sweep: an empty value in '{}'", printable(text));
    sweep.values.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return sweep;
}

ExitCode run(const CompareRequest& options) {
  if (options.threads > 0) at::set_num_threads(options.threads);
  const Recipe recipe = load_recipe(options.recipe, options.overrides);
  if (recipe.train.dtype == "bfloat16") prepare_bfloat16();
  std::vector<Sweep> sweeps;
  for (const std::string& text : options.sweeps) sweeps.push_back(parse_sweep(text));
  std::vector<Variant> variants = variants_of(
      options.attention.empty() ? std::vector<std::string>{recipe.attention.all} : options.attention, sweeps);
  // A recipe that is compared by other keys keeps its own attention, slot by slot.
  if (options.attention.empty())
    for (Variant& variant : variants) variant.overrides.erase(variant.overrides.begin());
  if (!options.no_control)
    for (Variant& control : control_of(recipe, variants)) variants.push_back(std::move(control));
  for (const double length : options.lengths)
    require(length > 0 && length <= 1024, "--lengths: {}; expected multiples such as 1,2,4", length);
  const fs::path directory =
      options.out.empty() ? fs::path("runs") / ("compare-" + recipe.name) : fs::path(options.out);
  watch_interrupts();
  const auto total = static_cast<int64_t>(variants.size()) * options.runs * recipe.train.steps;
  Progress progress(total, "compare");
  int64_t before = 0;
  std::string current;
  const Comparison comparison =
      compare(recipe, variants,
              {.runs = options.runs,
               .lengths = options.lengths,
               .corruption = !options.no_corruption,
               .directory = directory,
               .on_run =
                   [&](const std::string& what, int64_t done, int64_t all) {
                     before = done * recipe.train.steps;
                     current = what;
                     log::info("{} of {}: {}", done + 1, all, what);
                   },
               .on_step =
                   [&](const TrainingStep& step) {
                     progress.update(before + step.step, fmt::format("{}  loss {:.4f}", current, step.loss));
                   },
               .interrupted = [] { return interrupt_wanted(); }});
  progress.finish();
  const std::string title =
      fmt::format("{}, {} seeds, {} steps", recipe.name, options.runs, recipe.train.steps);
  Json json = {{"recipe", recipe.name}, {"runs", options.runs}};
  json.update(to_json(comparison));
  write_atomic(directory / "comparison.json", dump(json, 2) + "\n");
  for (const NamedPicture& picture : pictures_of(comparison, directory, title))
    write_atomic(directory / picture.file, picture.svg);
  if (options.json) {
    print("{}\n", dump(json, 2));
    return ExitCode::success;
  }
  print("{}\n", table_of(comparison));
  print(
      "Loss is the mean of minus the natural logarithm of each token's probability on held-out data, and +- "
      "its\n"
      "deviation over {}. p is Student's paired test against the first row. Loss 2x is at twice the length "
      "of\n"
      "training; + is what the loss gains when a tenth of the first half of a text is damaged.\n\n",
      plural(options.runs, "seed"));
  if (comparison.translates())
    print(
        "BLEU is of the validation sentences ({}). Its p is from a paired bootstrap over the lines of all "
        "runs; "
        "loss {}x is with\nso many sentences in one, and the damage is a tenth of each source.\n\n",
        bleu_signature({}, 1), options.lengths.back());
  print("{}: comparison.json, losses.svg, results.svg, lengths.svg, and a folder for each run\n",
        directory.string());
  return ExitCode::success;
}

}  // namespace

Work declare_compare(CLI::App& app) {
  auto options = std::make_shared<CompareRequest>();
  app.add_option("recipe", options->recipe, "A .toml file")->type_name("RECIPE")->required();
  app.add_option("overrides", options->overrides, "Keys of the recipe with other values: train.steps=500");
  app.add_option("--attention", options->attention,
                 "Mechanisms or .attn files; the first is what others are compared with")
      ->delimiter(',');
  app.add_option("--runs", options->runs, "Seeds for each mechanism; 3 by default")
      ->check(CLI::Range(1, 1000));
  app.add_option("--sweep", options->sweeps,
                 "Values of a formula's number or a recipe's key: lp=0,0.25,0.5; may be given again")
      ->allow_extra_args(false);
  app.add_option("--lengths", options->lengths,
                 "Multiples of the training's length to evaluate at; 1,2,4 by default")
      ->delimiter(',');
  app.add_option("--out", options->out,
                 "Folder; runs/compare-<name> by default. What is finished there is not run again");
  app.add_flag("--no-control", options->no_control,
               "Leave out the control with as many parameters as the largest");
  app.add_flag("--no-corruption", options->no_corruption, "Leave out damaged input");
  app.add_option("--threads", options->threads, "Threads; torch's choice by default")->check(kAboveZero);
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace saccade
