// `saccade bench`: formulas beside torch's own attention, or with --targets the table of what Saccade means
// to reach. The measuring is done by the bench rung; here are the options.
#include <ATen/Parallel.h>

#include "saccade/base/error.h"
#include "saccade/base/progress.h"
#include "saccade/bench/report.h"
#include "saccade/cli/command.h"
#include "saccade/cli/formula_options.h"
#include "saccade/cli/output.h"
#include "saccade/cli/path_option.h"

namespace saccade {
namespace {

struct BenchRequest {
  FormulaOptions formula;
  bench::ComparisonOptions comparison;
  bool forward = false, train = false, decode = false;
  std::string dtype = "float";
  int threads = 0;
  bool json = false;
  bool targets = false;
  std::string only;
  int64_t processes = 3;
};

const std::map<std::string, at::ScalarType> kDtypes = {
    {"float", at::kFloat}, {"double", at::kDouble}, {"bfloat16", at::kBFloat16}, {"half", at::kHalf}};

std::function<void(int64_t, int64_t)> shown_by(std::optional<Progress>& bar) {
  return [&bar](int64_t done, int64_t total) {
    if (!bar) bar.emplace(total, "bench");
    bar->update(done);
  };
}

ExitCode compare(const BenchRequest& options) {
  bench::ComparisonOptions comparison = options.comparison;
  std::vector<std::string> files = options.formula.files;
  if (files.empty()) files = {"causal", "prior"};
  for (const std::string& file : files)
    comparison.formulas.push_back({.name = file, .set = parse_overrides(options.formula.set)});
  for (const bench::FormulaSource& source : comparison.formulas) load(source);
  comparison.dtype = kDtypes.at(options.dtype);
  comparison.tasks.clear();
  if (options.forward) comparison.tasks.push_back(bench::Task::forward);
  if (options.train) comparison.tasks.push_back(bench::Task::training);
  if (options.decode) comparison.tasks.push_back(bench::Task::decoding);
  if (comparison.tasks.empty()) comparison.tasks = {bench::Task::forward, bench::Task::training};
  std::optional<Progress> bar;
  const std::vector<bench::ComparisonRow> rows = bench::compare(comparison, shown_by(bar));
  bar.reset();
  const bench::Circumstances circumstances{at::get_num_threads(), bench::measure_peak()};
  if (options.json)
    print("{}\n", dump(comparison_json(comparison, circumstances, rows), 2));
  else
    write_output(comparison_text(comparison, circumstances, rows));
  return ExitCode::success;
}

ExitCode try_targets(const BenchRequest& options) {
  require(options.formula.files.empty(), "bench: --targets has its own formulas; choose with --only");
  const std::vector<bench::Target> targets = bench::targets(options.only);
  require(!targets.empty(), "bench: no target's name contains '{}'", options.only);
  std::vector<bench::Outcome> outcomes;
  if (options.processes == 1) {
    std::optional<Progress> bar;
    bench::RoundOptions rounds = options.comparison.rounds;
    rounds.seconds = 1.5;
    outcomes = bench::try_targets(targets, rounds, shown_by(bar));
  } else {
    std::vector<std::string> arguments{"bench", "--targets", "--json", "--processes", "1"};
    arguments.insert(arguments.end(), {"--threads", std::to_string(at::get_num_threads())});
    arguments.insert(arguments.end(), {"--repeats", std::to_string(options.comparison.rounds.repeats)});
    if (!options.only.empty()) arguments.insert(arguments.end(), {"--only", options.only});
    outcomes = bench::try_in_processes(targets, options.processes, arguments);
  }
  const bench::Circumstances circumstances{at::get_num_threads(), bench::measure_peak()};
  if (options.json) {
    Json json = to_json(outcomes);
    json["peak_gigaflops"] = circumstances.peak.arithmetic;
    print("{}\n", dump(json, 2));
  } else {
    write_output(targets_text(circumstances, outcomes));
  }
  const bool all = std::ranges::all_of(outcomes, [](const bench::Outcome& outcome) { return outcome.met(); });
  return all ? ExitCode::success : ExitCode::check_failed;
}

ExitCode run(const BenchRequest& options) {
  if (options.threads > 0) at::set_num_threads(options.threads);
  return options.targets ? try_targets(options) : compare(options);
}

template <class Number>
void count_option(CLI::App& app, const std::string& names, Number& value, int64_t most,
                  const std::string& what) {
  app.add_option(names, value, what)->check(CLI::Range(int64_t{1}, most))->capture_default_str();
}

}  // namespace

Work declare_bench(CLI::App& app) {
  const auto options = std::make_shared<BenchRequest>();
  bench::ComparisonOptions& comparison = options->comparison;
  options->formula.declare(app, true);
  app.add_option("-n,--length,--lengths", comparison.lengths, "Numbers of tokens to measure at")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}))
      ->delimiter(',')
      ->capture_default_str();
  app.add_flag("--forward", options->forward, "Measure the forward pass");
  app.add_flag("--train", options->train,
               "Measure a training step; without a choice, forward pass and training step");
  app.add_flag("--decode", options->decode, "Measure a decoding step with n tokens in the cache");
  count_option(app, "--batch", comparison.batch, 1024, "Sequences in a batch");
  count_option(app, "--heads", comparison.heads, 256, "Number of query heads");
  app.add_option("--kv-heads", comparison.kv_heads, "Number of key heads; as many as query heads by default")
      ->check(CLI::Range(int64_t{1}, int64_t{256}));
  count_option(app, "--width", comparison.width, 512, "Width of a head");
  app.add_option("--dtype", options->dtype, "float, double, bfloat16 or half")
      ->check(CLI::IsMember({"float", "double", "bfloat16", "half"}))
      ->capture_default_str();
  declare_path(app, comparison.path);
  app.add_option("--epsilon", comparison.epsilon,
                 "Leave out tiles that provably hold less than this share of every row's weight; 6e-8 is the "
                 "rounding of single precision")
      ->check(CLI::Range(0.0, 0.1))
      ->capture_default_str();
  app.add_option("--rivals", comparison.rivals,
                 "Rivals to measure, such as naive,sdpa; by default all that compute the same")
      ->delimiter(',');
  app.add_option("--threads", options->threads, "Threads for all; torch's choice by default")
      ->check(CLI::Range(1, 1024));
  count_option(app, "--repeats", comparison.rounds.repeats, 1000, "Rounds that count, at most");
  app.add_flag("--targets", options->targets, "Measure the table of targets; exit code 1 when one is missed");
  app.add_option("--only", options->only, "With --targets: only those whose name contains this")
      ->needs("--targets");
  count_option(app, "--processes", options->processes, 100,
               "With --targets: the median over so many processes");
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace saccade
