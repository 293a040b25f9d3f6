// `saccade demo`: everything once, on data that the program brings along. Every stage is a command that a
// person could type, run as a process of its own; what they found is told at the end and written as a report.
#include <chrono>
#include <filesystem>
#include <sstream>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/json.h"
#include "saccade/base/log.h"
#include "saccade/base/process.h"
#include "saccade/base/progress.h"
#include "saccade/base/text.h"
#include "saccade/cli/command.h"
#include "saccade/cli/output.h"
#include "saccade/data/source.h"
#include "saccade/train/recipe_file.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr double kClearly = 0.01;           // nats per token
constexpr const char* kMark = "demo.json";  // what makes a folder one that the demo may write anew
// All that a demo writes, and all that the next one deletes.
constexpr const char* kWritten[] = {"recipe.toml",    "learn.txt",   "certify.txt", "check.json",
                                    "bench.json",     "compare",     "diagnosis",   "sparse",
                                    "generated.json", "certificate", "report.html"};

// Small enough that four trainings take two minutes on two cores.
constexpr const char* kRecipe =
    R"(# What `saccade demo` trains: stories in which facts are asked for again later.
name = "demo"
attention = "causal"

[model]
width = 96
layers = 3
heads = 3
initial_deviation = 0.0

[data]
source = "stories"
tokenizer = "bpe:512"
length = 256

[train]
steps = 200
batch = 12
lr = 3e-3
warmup = 20
validate_every = 50
validation_sequences = 32
checkpoint_every = 200
keep = 1

[sample]
tokens = 0
)";

struct DemoRequest {
  std::string out = "runs/demo";
  bool quick = false, json = false;
};

// A line of what was found. `good` is false where the result is not what one would hope for.
struct Finding {
  std::string stage, text;
  bool good = true;
};

class Demo {
 public:
  explicit Demo(DemoRequest options) : options_(std::move(options)), out_(options_.out) {}

  ExitCode run() {
    prepare_folder();
    const auto start = std::chrono::steady_clock::now();
    stage(options_.quick ? "check four shipped formulas" : "check every shipped formula",
          [&] { return check(); });
    stage("measure speed beside torch's SDPA", [&] { return bench(); });
    stage("train four mechanisms and compare", [&] { return compare(); });
    stage("look inside the best", [&] { return diagnose(); });
    stage("learn a sparse mask within a KL budget", [&] { return distill(); });
    stage("certify it on other text", [&] { return certify(); });
    stage("generate with both", [&] { return generate(); });
    stage("write the report", [&] { return report(); });
    const double seconds = seconds_since(start);
    tell(seconds);
    return ExitCode::success;
  }

 private:
  static double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  // Deletes what an earlier demo left, and nothing else.
  void prepare_folder() {
    std::error_code none;
    const bool earlier = fs::exists(out_ / kMark, none);
    require(earlier || !fs::exists(out_, none) || fs::is_empty(out_, none),
            "demo: {} is there and was not written by a demo; expected a new folder, see --out",
            out_.string());
    if (earlier)
      for (const char* name : kWritten) fs::remove_all(out_ / name, none);
    make_directories(out_);
    write_atomic(out_ / kMark, "{}\n");
    write_atomic(out_ / "recipe.toml", kRecipe);
    // Validation stories that no training reads: one half to learn from, the other to certify on.
    const Recipe recipe = load_recipe(out_ / "recipe.toml");
    const std::vector<std::string> texts = open_data(recipe.data, recipe.seed).validation_texts;
    const auto part = [&](size_t begin, size_t end) {
      std::string text;
      for (size_t index = begin; index < end; ++index) text += texts[index] + "\n";
      return text;
    };
    write_atomic(out_ / "learn.txt", part(0, texts.size() / 2));
    write_atomic(out_ / "certify.txt", part(texts.size() / 2, texts.size()));
  }

  template <class Work>
  void stage(const std::string& title, Work work) {
    ++number_;
    const auto start = std::chrono::steady_clock::now();
    log::info("{}/8  {} ...", number_, title);
    const Finding found = work();
    log::info("{}/8  {}: {} ({:.0f} s)", number_, title, found.text, seconds_since(start));
    findings_.push_back(found);
  }

  std::string at(const char* name) const { return (out_ / name).string(); }

  // The standard output of `saccade ARGUMENTS`. An answer of no (exit code 1) is an answer.
  std::string saccade(std::vector<std::string> arguments) {
    std::vector<std::string> words = arguments;
    for (std::string& word : words)
      if (word.find(' ') != word.npos) word = "'" + word + "'";
    commands_.push_back("saccade " + join(words, " "));
    arguments.push_back("--quiet");
    const ProcessResult result = run_process("/proc/self/exe", arguments);
    require(result.exit_code <= 1, "demo: `{}` ended with exit code {}", commands_.back(), result.exit_code);
    return result.output;
  }
  Json saccade_json(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    return parse_json(saccade(arguments), "demo: the output of " + arguments.front());
  }

  Finding check() {
    const Json results =
        saccade_json(options_.quick ? std::vector<std::string>{"check", "causal", "prior", "ape", "gpam"}
                                    : std::vector<std::string>{"check", "--all"});
    int64_t good = 0, checks = 0;
    std::vector<std::string> failed;
    for (const Json& formula : results) {
      good += formula.at("passed").get<bool>();
      if (!formula.at("passed").get<bool>()) failed.push_back(formula.at("formula").get<std::string>());
      for (const Json& each : formula.at("checks")) checks += each.at("outcome") == "ok";
    }
    write_atomic(out_ / "check.json", dump(results, 1) + "\n");
    return {"formulas",
            fmt::format("{} of {} conform, {} checks passed{}", good, results.size(), checks,
                        failed.empty() ? "" : "; not: " + join(failed, ", ")),
            failed.empty()};
  }

  Finding bench() {
    const std::string longest = options_.quick ? "256" : "1024";
    const Json results = saccade_json({"bench", "causal", "prior", "--length", options_.quick ? "64" : "256",
                                       options_.quick ? "128" : "512", longest, "--train", "--repeats",
                                       options_.quick ? "2" : "5"});
    write_atomic(out_ / "bench.json", dump(results, 1) + "\n");
    std::vector<std::string> parts;
    bool good = true;
    for (const Json& row : results.at("rows")) {
      const bool sdpa = row.at("by").get<std::string>().starts_with("sdpa");
      if (!sdpa || row.at("n") != std::stoll(longest) || !row.at("failure").is_null()) continue;
      const double ratio = row.at("ratio").get<double>();
      good &= ratio >= 1;
      parts.push_back(fmt::format("{:.2f}x that of {} for {}", ratio, row.at("by").get<std::string>(),
                                  row.at("formula").get<std::string>()));
    }
    const bool busy = results.at("busy_cores").get<double>() < 0.9 * results.at("threads").get<double>();
    std::string told = parts.empty()
                           ? "no rival computes the same"
                           : fmt::format("our speed in a training step of {} tokens is {}{}", longest,
                                         join(parts, ", "), good ? "" : "; below 1 torch is faster");
    if (busy) told += "; something else kept the machine busy, so do not trust it";
    return {"speed", told, good && !busy && !parts.empty()};
  }

  Finding compare() {
    std::vector<std::string> arguments = {
        "compare", at("recipe.toml"), "--attention", "causal,prior,ape,gpam", "--runs",
        "1",       "--lengths",       "1,2",         "--no-control",          "--no-corruption",
        "--out",   at("compare")};
    if (options_.quick) arguments.insert(arguments.begin() + 2, "train.steps=20");
    const Json results = saccade_json(arguments);
    std::vector<std::string> parts;
    double lowest = std::numeric_limits<double>::infinity(), baseline = 0;
    double lowest_long = lowest, baseline_long = 0;
    std::string best_long;
    for (const Json& variant : results.at("variants")) {
      const std::string name = variant.at("name").get<std::string>();
      const double loss = variant.at("loss").at("mean").get<double>();
      const double twice = variant.at("runs").at(0).at("length_losses").at(1).get<double>();
      if (name == "causal") baseline = loss, baseline_long = twice;
      if (loss < lowest) lowest = loss, best_ = name;
      if (twice < lowest_long) lowest_long = twice, best_long = name;
      parts.push_back(fmt::format("{} {:.3f}", name, loss));
    }
    // One seed each: a smaller difference may be chance.
    const bool clear = baseline - lowest >= kClearly, longer = baseline_long - lowest_long >= kClearly;
    if (!clear && longer) best_ = best_long;
    model_ = at("compare") + "/" + best_ + "-1";
    std::string told = fmt::format("validation loss {}", join(parts, ", "));
    told += clear ? fmt::format("; best: {}", best_)
                  : fmt::format("; with one seed each, differences below {} may be chance", kClearly);
    told += longer ? fmt::format("; at twice the length {} has {:.3f} and causal {:.3f}", best_long,
                                 lowest_long, baseline_long)
                   : "; at twice the length none is clearly better than causal";
    told += fmt::format("; going on with {}", best_);
    return {"training", told, clear || longer};
  }

  Finding diagnose() {
    const Json results = saccade_json({"diagnose", model_, "--tokens", "96", "--batch-size", "4", "--capture",
                                       "all", "--out", at("diagnosis")});
    const Json& ranks = results.at("ranks");
    const double first = ranks.front().at("effective_rank").get<double>();
    const double last = ranks.back().at("effective_rank").get<double>();
    return {"inside", fmt::format("effective rank of its tokens from {:.1f} to {:.1f} through the layers",
                                  first, last)};
  }

  Finding distill() {
    const Json results =
        saccade_json({"distill", model_,   "--data",   at("learn.txt"), "--kl",  "0.01",      "--context",
                      "256",     "--near", "16",       "--query-tile",  "16",    "--rank",    "8",
                      "--steps", "60",     "--always", "--no-decoding", "--out", at("sparse")});
    const Json& held_out = results.at("held_out");
    const double density = held_out.at("density").get<double>();
    saves_ = held_out.at("saves").get<bool>();
    return {"sparse mask",
            saves_ ? fmt::format("{:.0f} % of the pairs kept at KL {:.4f} (budget 0.01) on held-out text",
                                 100 * density, std::max(0.0, held_out.at("divergence").get<double>()))
                   : "no saving is possible within KL 0.01",
            saves_};
  }

  Finding certify() {
    const Json results = saccade_json({"certify", model_, at("sparse"), "--data", at("certify.txt"),
                                       "--context", "256", "--max-kl", "0.01", "--memory-lengths", "256,1024",
                                       "--look-tokens", "128", "--out", at("certificate")});
    std::vector<std::string> failed;
    size_t held = 0;
    for (const Json& criterion : results.at("criteria"))
      if (criterion.at("verdict") == "failed")
        failed.push_back(criterion.at("title").get<std::string>());
      else
        held += criterion.at("verdict") == "passed";
    if (!saves_) return {"certificate", "says nothing: the mask leaves out nothing", false};
    return {"certificate",
            fmt::format("{} of {} criteria hold on text that was not used to learn it{}", held,
                        held + failed.size(), failed.empty() ? "" : "; not: " + join(failed, ", ")),
            failed.empty()};
  }

  Finding generate() {
    const Json results = saccade_json({"generate", model_, "--compare", at("sparse"), "--prompt", "Ann",
                                       "--prompt", "There was", "--max-new-tokens", "60", "--seed", "1"});
    write_atomic(out_ / "generated.json", dump(results, 1) + "\n");
    if (!saves_) return {"texts", "are the same: the mask leaves out nothing", false};
    int64_t same = 0;
    for (const Json& difference : results.at("first_differences")) same += difference.is_null();
    return {"texts", fmt::format("{} of {} continuations with the same seed are the same word for word", same,
                                 results.at("first_differences").size())};
  }

  Finding report() {
    std::vector<std::string> arguments = {"report"};
    for (const char* name : {"compare", "diagnosis", "sparse", "certificate", "bench.json", "generated.json"})
      arguments.push_back(at(name));
    arguments.insert(arguments.end(), {"-o", at("report.html"), "--title", "Saccade demo"});
    saccade(arguments);
    return {"report", at("report.html")};
  }

  // As it can be typed: from where one stands, or its name where the shell finds it.
  static std::string program_text() {
    std::error_code none;
    const fs::path program = fs::read_symlink("/proc/self/exe", none);
    const char* path = std::getenv("PATH");
    std::istringstream folders(path ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');)
      if (fs::equivalent(fs::path(folder) / program.filename(), program, none))
        return program.filename().string();
    const fs::path near = program.lexically_relative(fs::current_path(none));
    return near.empty() || near.native().starts_with("..") ? program.string() : near.string();
  }

  void tell(double seconds) {
    const std::string program = program_text();
    const std::vector<std::string> next = {program + " view " + model_,
                                           program + " explain " + best_ + " --length 8192",
                                           program + " train " + at("recipe.toml") +
                                               " attention=prior data.source=text data.train=YOUR_TEXT.txt"};
    Json json = {{"seconds", seconds},
                 {"report", at("report.html")},
                 {"findings", Json::array()},
                 {"commands", commands_},
                 {"next", next}};
    for (const Finding& found : findings_)
      json["findings"].push_back({{"stage", found.stage}, {"found", found.text}, {"good", found.good}});
    write_atomic(out_ / kMark, dump(json, 1) + "\n");
    if (options_.json) {
      print("{}\n", dump(json, 1));
      return;
    }
    print("\nWhat was found, in {}:\n\n", clock_time(seconds));
    for (const Finding& found : findings_)
      print("  {:<12} {}{}\n", found.stage, found.text, found.good ? "" : "  <- not as hoped");
    print("\nTry next:\n");
    for (const std::string& command : next) print("  {}\n", command);
    print("\nOpen {} in a browser.\n", fs::absolute(out_ / "report.html").string());
  }

  DemoRequest options_;
  fs::path out_;
  int number_ = 0;
  std::string best_, model_;  // the mechanism with the lowest loss, and its run
  bool saves_ = true;         // the sparse mask leaves something out
  std::vector<Finding> findings_;
  std::vector<std::string> commands_;
};

}  // namespace

Work declare_demo(CLI::App& app) {
  const auto options = std::make_shared<DemoRequest>();
  app.add_option("--out", options->out, "Where everything goes; what an earlier demo left there is replaced")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_flag("--quick", options->quick,
               "Less of everything, in half a minute; the results then mean little");
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return Demo(*options).run(); };
}

}  // namespace saccade
