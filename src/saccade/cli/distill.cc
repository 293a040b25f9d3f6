// `saccade distill`: makes a model's attention sparse within a budget. The work is done by the distill rung;
// here are the options and what a person sees.
#include <ATen/Parallel.h>

#include <map>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/log.h"
#include "saccade/base/memory.h"
#include "saccade/base/progress.h"
#include "saccade/base/terminal.h"
#include "saccade/base/text.h"
#include "saccade/cli/attention_option.h"
#include "saccade/cli/command.h"
#include "saccade/cli/interrupt.h"
#include "saccade/cli/number_checks.h"
#include "saccade/cli/output.h"
#include "saccade/distill/attention_time.h"
#include "saccade/distill/distillation.h"
#include "saccade/distill/frontier.h"
#include "saccade/distill/imitate.h"
#include "saccade/evaluate/perplexity.h"
#include "saccade/generate/text_model.h"
#include "saccade/report/chart.h"

namespace saccade {
namespace {

struct DistillRequest {
  std::string model, data, out, scorers;
  AttentionOption attention;
  Imitation imitation;
  DistillOptions distill;
  int64_t context = 0, snippets = 4;
  bool resume = false, no_decoding = false, frontier = false, crossover = false, json = false;
  int threads = 0;
};

const std::map<std::string, SelectorKind> kKinds = {{"gate", SelectorKind::gate},
                                                    {"indexer", SelectorKind::indexer},
                                                    {"token_gate", SelectorKind::token_gate},
                                                    {"span", SelectorKind::span},
                                                    {"full_or_local", SelectorKind::full_or_local}};

// A bar for each stage, and a line for what was found. A file gets a line for each quarter of a stage as
// well.
class Display {
 public:
  void progress(std::string_view stage, int64_t done, int64_t total) {
    if (stage != stage_) {
      bar_.reset();
      bar_.emplace(total, stage);
      stage_ = stage;
      quarter_ = 0;
    }
    bar_->update(done);
    const int64_t quarter = total > 0 ? 4 * done / total : 0;
    if (quarter > quarter_ && !is_terminal(Stream::err)) log::info("{}: {} of {}", stage, done, total);
    quarter_ = quarter;
  }
  void event(const Json& event) {
    if (!event.contains("try")) return;
    bar_.reset();
    stage_.clear();
    log::info("{}, try {}: divergence {:.6f} at density {:.4f}{}", event["stage"].get<std::string>(),
              event["try"].get<int64_t>(), event["divergence"].get<double>(), event["density"].get<double>(),
              event["holds"].get<bool>() ? ", within the budget" : "");
  }
  void finish() { bar_.reset(); }

 private:
  std::string stage_;
  int64_t quarter_ = 0;
  std::optional<Progress> bar_;
};

void print_solution(const char* what, const Solution& solution) {
  print("{:<12} density {:.4f}, divergence {:.6f} on held-out text\n", what, solution.density,
        solution.divergence);
  for (const RangeResult& range : solution.ranges)
    print(
        "{:<12} positions from {:>5}: density {:.4f}, divergence {:.6f}; {:.0f} % more are foreseen for "
        "other text\n",
        "", range.begin, range.density, range.divergence, 100 * range.margin);
}

void print_times(const std::vector<AttentionTime>& times, const Selectors& selectors) {
  for (const AttentionTime& time : times) {
    print("{:<12} {:>5} tokens: {:.2f} times as fast as dense attention, choosing included", "speed",
          time.tokens, time.dense / time.sparse);
    if (time.next_sparse > 0)
      print("; {:.2f} for one new token, which reads {:.0f} % of the bytes",
            time.next_dense / time.next_sparse, 100 * time.next_sparse_bytes / time.next_dense_bytes);
    print("\n");
  }
  if (times.empty()) return;
  const SelectionOptions& set = selectors[0]->options();
  print("{:<12} with fewer than {} keys all are looked at, and with fewer than {} in decoding\n", "",
        set.min_keys, set.min_cached);
}

void print_result(const DistillRequest& options, const DistillResult& result) {
  print_solution("tiles", result.solution);
  if (result.decoding) print_solution("decoding", *result.decoding);
  print("{:<12} {:.6f} on text that was learned from; the gap to held-out text is {:+.6f}\n", "learned",
        result.learned_divergence, result.solution.divergence - result.learned_divergence);
  print("{:<12} choosing takes {:.1f} % of dense attention's arithmetic at the longest window\n", "cost",
        100 * result.selection_cost);
  print_times(result.times, result.selectors);
  print("{:<12} {}\n", "time", clock_time(result.seconds));
  if (!result.solution.found)
    print("\nThe budget does not hold on held-out text with anything left out: all keys are looked at.\n");
  else if (!result.solution.saves)
    print("\nThe budget holds, but hardly anything can be left out within it: sparsity does not pay here.\n");
  if (!options.out.empty()) print("\nwritten to {}\n", options.out);
}

// Both axes are logarithms: what matters spans orders of magnitude.
std::string frontier_chart(const Frontier& frontier, const std::string& model) {
  LineChart chart{.title = "Divergence against density",
                  .subtitle = fmt::format("{}, windows of {} tokens, held-out text", model, frontier.tokens),
                  .x_label = "density (share of pairs that is kept)",
                  .y_label = "divergence per token (nats)",
                  .log_x = true,
                  .log_y = true};
  for (const FrontierCurve& curve : frontier.curves) {
    Series series{.name = curve.name, .markers = true};
    for (const FrontierPoint& at : curve.points) {
      if (at.divergence <= 0) continue;
      series.x.push_back(at.density);
      series.y.push_back(at.divergence);
    }
    chart.series.push_back(std::move(series));
  }
  return to_svg(chart);
}

void print_frontier(const Frontier& frontier, const std::vector<double>& goals) {
  std::vector<std::string> header{"selector"};
  for (const double goal : goals) header.push_back(fmt::format("KL {:g}", goal));
  header.emplace_back("what it keeps");
  Table table(header);
  for (const FrontierCurve& curve : frontier.curves) {
    std::vector<std::string> row{curve.name};
    for (const double goal : goals) {
      const std::optional<double> density = curve.density_at(goal);
      row.push_back(density ? fmt::format("{:.3f}", *density) : "-");
    }
    row.push_back(curve.meaning);
    table.add(row);
  }
  print("density at which each reaches a divergence, windows of {} tokens of held-out text\n\n{}",
        frontier.tokens, table.print());
  if (!frontier.decomposition) return;
  const Decomposition& parts = *frontier.decomposition;
  print(
      "\nat density {:.3f} the divergence is {:.6f}:\n"
      "  {:.6f} even if the true weights chose for each query\n"
      "  {:+.6f} by one list for a tile of queries\n"
      "  {:+.6f} by mistakes of the learned scores\n"
      "  {:+.6f} by weighing near keys for some queries only\n",
      parts.density, parts.best + parts.granularity + parts.mistakes + parts.approximation, parts.best,
      parts.granularity, parts.mistakes, parts.approximation);
}

ExitCode run_frontier(const DistillRequest& options, const TextModel& text_model, const TokenIds& ids,
                      DistillRun run, Display& display) {
  FrontierOptions frontier_options{.distill = options.distill};
  if (frontier_options.distill.goal.divergence == 0) frontier_options.distill.goal.divergence = 0.001;
  run.directory.clear();
  const Frontier frontier = measure_frontier(text_model.model, ids, frontier_options, run);
  display.finish();
  if (!options.out.empty()) {
    make_directories(options.out);
    write_atomic(std::filesystem::path(options.out) / "frontier.json", dump(to_json(frontier), 2) + "\n");
    write_atomic(std::filesystem::path(options.out) / "frontier.svg",
                 frontier_chart(frontier, options.model));
  }
  if (options.json)
    print("{}\n", dump(to_json(frontier), 2));
  else
    print_frontier(frontier, frontier_options.goals);
  return ExitCode::success;
}

// A sparse model that is there already: only from which length on it chooses is measured and set, as another
// machine needs it.
ExitCode run_crossover(const DistillRequest& options, const TextModel& text_model, const TokenIds& ids) {
  require(is_sparse_directory(options.model),
          "distill: --crossover: '{}' is no sparse model; expected a folder that distill has written",
          options.model);
  const SparseFiles files = load_sparse(options.model);
  const Selectors selectors = selectors_of(text_model.model);
  detach(text_model.model);
  const int64_t longest = std::min(options.distill.longest, text_model.model->architecture().context);
  require(std::min<int64_t>(longest, std::ssize(ids)) >= kShortestTimed,
          "distill: --crossover: the text has {} tokens and the model reads {}; expected at least {} of both",
          std::ssize(ids), text_model.model->architecture().context, kShortestTimed);
  const std::vector<AttentionTime> times = set_crossover(text_model.model, selectors, ids, longest);
  const std::string out = options.out.empty() ? options.model : options.out;
  save_sparse(out, files.base, selectors, files.notes);
  if (options.json) {
    Json json{{"model", options.model},
              {"out", out},
              {"min_keys", selectors[0]->options().min_keys},
              {"min_cached", selectors[0]->options().min_cached},
              {"times", Json::array()}};
    for (const AttentionTime& time : times) json["times"].push_back(to_json(time));
    print("{}\n", dump(json, 2));
  } else {
    print_times(times, selectors);
    print("\nwritten to {}\n", out);
  }
  return ExitCode::success;
}

std::string imitation_chart(const std::vector<ImitationEpoch>& epochs, const std::string& title) {
  Series learned{.name = "learned from"}, held_out{.name = "held out"};
  for (const ImitationEpoch& epoch : epochs) {
    for (const auto& [series, value] : {std::pair{&learned, epoch.learned}, {&held_out, epoch.held_out}}) {
      series->x.push_back(static_cast<double>(epoch.epoch));
      series->y.push_back(value);
    }
  }
  LineChart chart{.title = "Divergence from the dense model",
                  .subtitle = title,
                  .x_label = "epoch",
                  .y_label = "KL per token (nats)",
                  .log_y = true};
  chart.series.push_back(learned);
  if (epochs.front().held_out > 0) chart.series.push_back(held_out);
  return to_svg(chart);
}

// The whole model, with what it has learned, its attention and its tokenizer.
ExitCode run_imitation(const DistillRequest& options, TextModel& text_model, const TokenIds& ids) {
  const int64_t tokens = options.context > 0 ? options.context : 128;
  const TextWindows windows = cut_windows(
      ids, std::vector<WindowCount>{
               {.tokens = tokens, .learn = options.snippets, .sense = 0, .hold_out = options.snippets}});
  const FineTuning& tuning = options.distill.fine_tuning;
  const std::vector<Teacher> teachers =
      tuning.teacher.empty()
          ? teachers_of(text_model.model, windows.learn)
          : stored_teachers(text_model.model, windows.learn, tuning.likely_tokens, tuning.teacher);
  const std::vector<Teacher> held_out = teachers_of(text_model.model, windows.held_out);
  options.attention.apply(text_model.model, Path::automatic);
  Imitation imitation = options.imitation;
  imitation.seed = options.distill.seed;
  imitation.stop = [] { return interrupt_wanted(); };
  std::optional<Progress> bar;
  bar.emplace(imitation.epochs, "epochs");
  imitation.on_epoch = [&](const Json& event) {
    bar->update(event["epoch"], fmt::format("KL {:.4f}", event["divergence"].get<double>()));
    if (event["epoch"].get<int64_t>() % 10 == 0)
      log::info("epoch {}: divergence {:.4f}, {:.4f} on held-out text", event["epoch"].get<int64_t>(),
                event["divergence"].get<double>(), event["held_out"].get<double>());
  };
  const std::vector<ImitationEpoch> epochs =
      imitate(text_model.model, windows.learn, teachers, windows.held_out, held_out, imitation);
  bar.reset();
  Json json{{"model", options.model},
            {"attention", options.attention.title()},
            {"tokens", tokens},
            {"texts", windows.learn.size()}};
  for (const ImitationEpoch& epoch : epochs)
    json["epochs"].push_back(
        {{"epoch", epoch.epoch}, {"divergence", epoch.learned}, {"held_out", epoch.held_out}});
  if (!options.out.empty()) {
    const std::filesystem::path out = options.out;
    save_model(text_model.model, out);
    write_atomic(out / "tokenizer.json", text_model.tokenizer.to_json());
    write_atomic(out / "tokenizer_config.json", text_model.tokenizer.config_json());
    write_atomic(out / "imitation.json", dump(json, 2) + "\n");
    write_atomic(out / "imitation.svg",
                 imitation_chart(epochs, fmt::format("{} with {}, {} of {} tokens", options.model,
                                                     options.attention.title(),
                                                     plural(std::ssize(windows.learn), "text"), tokens)));
  }
  if (options.json)
    print("{}\n", dump(json, 2));
  else
    print(
        "divergence on the texts learned from  {:.4f} -> {:.4f} after epoch {}\non held-out texts            "
        "      "
        "   {:.4f} -> {:.4f}\n",
        epochs.front().learned, epochs.back().learned, epochs.back().epoch, epochs.front().held_out,
        epochs.back().held_out);
  return ExitCode::success;
}

ExitCode run(DistillRequest options) {
  keep_freed_memory();
  if (options.threads > 0) at::set_num_threads(options.threads);
  Goal& goal = options.distill.goal;
  const bool imitates = options.attention.given();
  require(imitates || options.frontier || options.crossover || (goal.divergence > 0) != (goal.density > 0),
          "distill: give either --kl or --density");
  options.distill.decoding = !options.no_decoding;
  const std::string content = read_file(options.data, kLargestFile);
  TextModel text_model = load_text_model(options.model);
  const EncodedText text = encode_text(text_model.tokenizer, content, options.data);
  if (imitates) {
    watch_interrupts();
    return run_imitation(options, text_model, text.ids);
  }
  if (options.crossover) return run_crossover(options, text_model, text.ids);
  check(options.distill);
  if (options.context > 0) {
    require(options.context % options.distill.selection.query_tile == 0,
            "distill: a context of {}; expected a multiple of the query tile of {}", options.context,
            options.distill.selection.query_tile);
    options.distill.windows = {{.tokens = options.context, .learn = 24, .sense = 4, .hold_out = 12}};
  }
  watch_interrupts();
  Display display;
  const DistillRun events{.directory = options.out,
                          .base = options.model,
                          .scorers = options.scorers,
                          .resume = options.resume,
                          .on_event = [&](const Json& event) { display.event(event); },
                          .on_progress = [&](std::string_view stage, int64_t done,
                                             int64_t total) { display.progress(stage, done, total); },
                          .stop = [] { return interrupt_wanted(); }};
  if (options.frontier) return run_frontier(options, text_model, text.ids, events, display);
  const DistillResult result = distill(text_model.model, text.ids, options.distill, events);
  display.finish();
  if (result.stopped) {
    log::warn("stopped; go on with --resume");
    return ExitCode::interrupted;
  }
  if (options.json) {
    Json json{{"model", options.model},
              {"out", options.out},
              {"options", to_json(options.distill)},
              {"held_out", to_json(result.solution)},
              {"learned_divergence", result.learned_divergence},
              {"selection_cost", result.selection_cost},
              {"seconds", result.seconds}};
    if (result.decoding) json["decoding"] = to_json(*result.decoding);
    print("{}\n", dump(json, 2));
  } else {
    print_result(options, result);
  }
  return result.solution.found ? ExitCode::success : ExitCode::check_failed;
}

}  // namespace

Work declare_distill(CLI::App& app) {
  const auto options = std::make_shared<DistillRequest>();
  DistillOptions& distill = options->distill;
  app.add_option("model", options->model, "A model's directory, GGUF file or name, or the folder of a run")
      ->type_name("MODEL")
      ->required();
  app.add_option("--data", options->data, "A text to learn from; its last part is held out")
      ->type_name("FILE")
      ->required();
  auto* kl = app.add_option("--kl", distill.goal.divergence,
                            "Leave out as much as keeps the KL divergence per token below this")
                 ->check(kAboveZero);
  app.add_option("--density", distill.goal.density, "Keep this share of the pairs, at the lowest divergence")
      ->check(CLI::Range(1e-6, 1.0))
      ->excludes(kl);
  app.add_option("--out", options->out, "The folder to write; it then is a model")->type_name("DIR");
  app.add_flag("--frontier", options->frontier,
               "Measure divergence against density for learned and other selectors instead");
  app.add_flag("--crossover", options->crossover,
               "Instead: time a sparse MODEL on this machine, and set from which length on it chooses keys");
  app.add_flag("--resume", options->resume, "Go on with an interrupted run in --out");
  app.add_option_function<std::string>(
         "--selector", [&distill](const std::string& name) { distill.kind = kKinds.at(name); },
         "gate (groups of queries), indexer (single queries), token_gate (keys alone, evicted from the "
         "cache), span or full_or_local (distance alone)")
      ->check(CLI::IsMember(kKinds))
      ->default_str(std::string(name_of(distill.kind)));
  app.add_option("--context", options->context,
                 "Windows of so many tokens only; by default 1024 and 4096, as the model's context allows")
      ->check(CLI::Range(int64_t{16}, int64_t{1} << 20));
  distill.selection.visit([&](const std::string& name, int64_t& value, const char* meaning) {
    std::string option = "--" + name;
    std::ranges::replace(option, '_', '-');
    app.add_option(option, value, fmt::format("Selection: {}", meaning))
        ->check(kNotBelowZero)
        ->capture_default_str();
  });
  app.add_option("--rank", distill.scorer.rank, "Numbers that stand for a group of queries or a key")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--pool", distill.pool, "Queries of a group")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--samples", distill.samples, "Queries of a group whose near keys are scored exactly")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--steps", distill.scorer.steps, "Training steps of each layer")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  app.add_option("--rate", distill.scorer.rate, "Learning rate, relative to the size of what learns")
      ->check(kAboveZero)
      ->capture_default_str();
  app.add_option("--scorers", options->scorers,
                 "Take the scorers that this run has learned, and only set them anew")
      ->type_name("DIR");
  FineTuning& tuning = distill.fine_tuning;
  app.add_option("--fine-tune", tuning.steps,
                 "Fine-tuning: so many steps that train all scorers together by the model's output")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  app.add_option("--fine-tune-rate", tuning.rate, "Fine-tuning: learning rate")
      ->check(kAboveZero)
      ->capture_default_str();
  app.add_option("--output-weight", tuning.output, "Fine-tuning: weight of the output's divergence")
      ->check(kNotBelowZero)
      ->capture_default_str();
  app.add_option("--hidden-weight", tuning.hidden, "Fine-tuning: weight of the distance of hidden states")
      ->check(kNotBelowZero)
      ->capture_default_str();
  app.add_option("--map-weight", tuning.maps, "Fine-tuning: weight of the attention maps' divergence")
      ->check(kNotBelowZero)
      ->capture_default_str();
  app.add_option("--density-price", tuning.density, "Fine-tuning: what keeping all pairs costs beside these")
      ->check(kNotBelowZero)
      ->capture_default_str();
  app.add_option(
         "--teacher", tuning.teacher,
         "Training by output: what the dense model says of the texts is read from this file, or written "
         "into it where there is none")
      ->type_name("FILE");
  app.add_option("--likely-tokens", tuning.likely_tokens,
                 "With --teacher: so many of the most likely tokens are written; all others count as one")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  options->attention.declare(app);
  app.get_option("--attention")
      ->description("Instead: swap in this formula, and train the model to imitate itself through it");
  app.add_option("--epochs", options->imitation.epochs,
                 "With --attention: train the model to imitate itself for so many rounds")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  app.add_option("--snippets", options->snippets, "With --attention: texts to learn from")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--learn", options->imitation.learn,
                 "With --attention: what learns, such as mlp, projection, output, attention")
      ->delimiter(',');
  app.add_option("--learning-rate", options->imitation.rate, "With --attention: learning rate")
      ->check(kAboveZero)
      ->capture_default_str();
  app.add_flag_callback(
      "--always", [&distill] { distill.longest = 0; },
      "Choose keys at every length, also where dense attention is faster");
  app.add_flag("--no-decoding", options->no_decoding,
               "Learn nothing for single queries: decoding looks at all keys");
  app.add_option("--seed", distill.seed, "Seed of everything that is drawn")->capture_default_str();
  app.add_option("--threads", options->threads, "Threads; torch's choice by default")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace saccade
