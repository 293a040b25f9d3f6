// `saccade check`: the conformance suite on a formula, one line per check.
#include "saccade/base/error.h"
#include "saccade/base/json.h"
#include "saccade/base/log.h"
#include "saccade/base/text.h"
#include "saccade/certify/conformance.h"
#include "saccade/cli/command.h"
#include "saccade/cli/formula_options.h"
#include "saccade/cli/output.h"
#include "saccade/cli/path_option.h"
#include "saccade/formula/mechanisms.h"

namespace saccade {
namespace {

struct CheckRequest {
  FormulaOptions formula;
  bool all = false;
  std::vector<std::string> only;
  std::string only_case;
  Path path = Path::automatic;
  bool list = false;
  bool brief = false;
  bool json = false;
};

std::string_view word(Outcome outcome) {
  return outcome == Outcome::passed ? "ok" : outcome == Outcome::failed ? "FAILED" : "n/a";
}

// What to type to see this failure again.
std::string rerun_command(const CheckRequest& options, const std::string& file, const CheckResult& result) {
  std::string command = fmt::format("saccade check {} --only {}", file, result.name);
  if (result.failing) command += " --case " + to_string(*result.failing);
  for (const std::string& pair : options.formula.set) command += " --set " + pair;
  if (options.path != Path::automatic) command += fmt::format(" --path {}", name_of(options.path));
  return command;
}

void show(const CheckRequest& options, const std::string& file, const CheckResult& result) {
  switch (result.outcome) {
    case Outcome::passed:
      print("  {:<7}{:<28} {} ({})\n", word(result.outcome), result.name, result.promise,
            plural(result.cases, "case"));
      break;
    case Outcome::not_applicable:
      print("  {:<7}{:<28} {}\n", word(result.outcome), result.name, result.detail);
      break;
    case Outcome::failed:
      print("  {:<7}{:<28} {}\n", word(result.outcome), result.name, result.promise);
      print("           {}\n", result.detail);
      if (result.failing) print("           smallest case: {}\n", describe(*result.failing));
      print("           again: {}\n", rerun_command(options, file, result));
      break;
  }
}

Json to_json(const CheckRequest& options, const std::string& file, const CheckResult& result) {
  Json json{{"check", result.name},
            {"outcome", word(result.outcome)},
            {"promise", result.promise},
            {"cases", result.cases}};
  if (!result.detail.empty()) json["detail"] = result.detail;
  if (result.failing) json["case"] = to_string(*result.failing);
  if (result.outcome == Outcome::failed) json["again"] = rerun_command(options, file, result);
  return json;
}

bool check_one(const CheckRequest& options, const std::string& file, Json& report) {
  const Formula formula = options.formula.load(file);
  for (const std::string& warning : formula.plan().warnings) log::warn("{}: {}", file, warning);
  const bool talk = !options.json && !options.brief;
  if (talk) print("{}{}\n", file, formula.summary().empty() ? "" : ": " + formula.summary());
  ConformanceOptions conformance{.only = options.only};
  if (!options.only_case.empty()) conformance.only_case = parse_case(options.only_case);
  conformance.on_result = [&](const CheckResult& result) {
    if (talk || (options.brief && !options.json && result.outcome == Outcome::failed))
      show(options, file, result);
    if (talk) flush_output();
  };
  const std::vector<CheckResult> results =
      run_conformance({.formula = formula, .make = standard_maker(options.path)}, conformance);
  int64_t counts[3] = {0, 0, 0};
  Json checks = Json::array();
  for (const CheckResult& result : results) {
    ++counts[static_cast<size_t>(result.outcome)];
    checks.push_back(to_json(options, file, result));
  }
  const std::string counted =
      fmt::format("{} passed, {} failed, {} not applicable", counts[0], counts[1], counts[2]);
  if (talk)
    print("  {}\n\n", counted);
  else if (!options.json)
    print("{:<16} {}\n", file, counted);
  flush_output();
  report.push_back({{"formula", file}, {"passed", passed(results)}, {"checks", checks}});
  return passed(results);
}

ExitCode run(const CheckRequest& options) {
  if (options.list) {
    Table table({"check", "what it promises"});
    Json list = Json::array();
    for (const Check& check : checks()) {
      table.add({std::string(check.name), std::string(check.promise)});
      list.push_back({{"check", check.name}, {"promise", check.promise}});
    }
    write_output(options.json ? dump(list, 2) + "\n" : table.print());
    return ExitCode::success;
  }
  std::vector<std::string> files = options.formula.files;
  if (options.all)
    for (const EmbeddedMechanism& mechanism : embedded_mechanisms()) files.emplace_back(mechanism.name);
  require(!files.empty(), "check: no formula given; name a file or a shipped mechanism, or use --all");
  Json report = Json::array();
  std::vector<std::string> failed;
  // What is wrong with any of the arguments is found before anything is printed or minutes are spent.
  require_known_checks(options.only);
  if (!options.only_case.empty()) parse_case(options.only_case);
  for (const std::string& file : files) options.formula.load(file);
  for (const std::string& file : files)
    if (!check_one(options, file, report)) failed.push_back(file);
  if (options.json)
    print("{}\n", dump(report, 2));
  else if (files.size() > 1)
    print("{} checked: {}\n", plural(static_cast<int64_t>(files.size()), "formula"),
          failed.empty() ? "all conform" : "these do not conform: " + join(failed, ", "));
  return failed.empty() ? ExitCode::success : ExitCode::check_failed;
}

}  // namespace

Work declare_check(CLI::App& app) {
  const auto options = std::make_shared<CheckRequest>();
  options->formula.declare(app, true);
  app.add_flag("--all", options->all, "Check every shipped mechanism");
  app.add_option("--only", options->only, "Run these checks only")->type_name("CHECK");
  app.add_option("--case", options->only_case,
                 "Run this case instead of the table, as printed after a failure")
      ->type_name("CASE");
  declare_path(app, options->path);
  app.add_flag("--brief", options->brief, "Print one line per formula, and failures");
  app.add_flag("--list", options->list, "List the checks");
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace saccade
