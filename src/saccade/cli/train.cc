// `saccade train`: a model from a recipe, with a progress line, or lines for a file; Ctrl-C saves and says
// how to go on.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "saccade/base/error.h"
#include "saccade/base/log.h"
#include "saccade/base/memory.h"
#include "saccade/base/progress.h"
#include "saccade/base/terminal.h"
#include "saccade/base/text.h"
#include "saccade/cli/command.h"
#include "saccade/cli/interrupt.h"
#include "saccade/cli/number_checks.h"
#include "saccade/cli/output.h"
#include "saccade/generate/generation.h"
#include "saccade/generate/translation.h"
#include "saccade/models/bfloat16.h"
#include "saccade/train/plan.h"
#include "saccade/train/recipe_file.h"
#include "saccade/train/run_directory.h"
#include "saccade/train/trainer.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

struct TrainRequest {
  std::string recipe, out;
  std::vector<std::string> overrides;
  bool resume = false, overwrite = false, dry_run = false, json = false, keys = false;
  int threads = 0;
};

ExitCode list_keys(bool json) {
  Table table({"key", "default", "meaning"});
  Json list = Json::array();
  for (const RecipeKey& key : recipe_keys()) {
    table.add({key.key, key.otherwise, key.meaning});
    list.push_back({{"key", key.key}, {"default", key.otherwise}, {"meaning", key.meaning}});
  }
  write_output(json ? dump(list, 2) + "\n" : table.print());
  return ExitCode::success;
}

// A run's folder may stand for its recipe.
Recipe read_recipe(TrainRequest& options) {
  if (!fs::is_directory(options.recipe)) return load_recipe(options.recipe, options.overrides);
  require(fs::exists(fs::path(options.recipe) / "recipe.toml"), "{}: a folder without recipe.toml",
          options.recipe);
  if (options.out.empty()) options.out = options.recipe;
  return load_recipe(fs::path(options.recipe) / "recipe.toml", options.overrides);
}

std::string run_name(const Recipe& recipe) {
  const AttentionChoice& attention = recipe.attention;
  return recipe.name + "-" +
         (recipe.translates() ? attention.title()
                              : fs::path(attention.in(AttentionSlot::decoder)).stem().string());
}

// Everybody in a team must come to the same folder, so the leader alone looks for a free name.
fs::path choose_folder(const TrainRequest& options, const Recipe& recipe, Team& team) {
  if (!options.out.empty()) return options.out;
  const fs::path wanted = fs::path("runs") / run_name(recipe);
  if (options.resume || options.overwrite) return wanted;
  std::array<double, 1> number{0};
  if (team.leads()) {
    const std::string free = RunDirectory::free_name(wanted).string();
    if (free != wanted.string()) number[0] = std::stod(free.substr(wanted.string().size() + 1));
  }
  team.add_up(number);
  return number[0] == 0 ? wanted : fs::path(fmt::format("{}-{:.0f}", wanted.string(), number[0]));
}

std::string validation_text(const Validation& validation) {
  std::string text = fmt::format("validation loss {:.4f}, perplexity {:.3f}", validation.loss(),
                                 std::exp(validation.loss()));
  if (validation.answers > 0) text += fmt::format(", answers {:.1f} %", 100 * validation.answer_accuracy());
  return text;
}

// A person sees a bar, and a line for each validation; a file gets a line for each tenth of the work as well.
class Display {
 public:
  Display(int64_t steps, bool shown) : shown_(shown), progress_(shown ? steps : 0, shown ? "training" : "") {
    if (!shown_) progress_.finish();
  }
  void step(const TrainingStep& step) {
    if (!shown_) return;
    const std::string note = fmt::format("loss {:.4f}  {:.0f} tokens/s", step.loss, step.tokens_per_second);
    progress_.update(step.step, note);
    const bool tenth = step.step * 10 / step.steps != (step.step - 1) * 10 / step.steps;
    if (step.validation)
      log::info("step {}/{}: loss {:.4f}, {}", step.step, step.steps, step.loss,
                validation_text(*step.validation));
    else if (tenth && !is_terminal(Stream::err))
      log::info("step {}/{}: {}", step.step, step.steps, note);
  }

 private:
  bool shown_;
  Progress progress_;
};

// As a shell reads it back.
std::string shell_word(const std::string& text) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || std::strchr("/._-+=:@%,", c); };
  if (!text.empty() && std::ranges::all_of(text, plain)) return text;
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// Some sentences that were held out.
void print_translations(const TrainingResult& result) {
  constexpr size_t kShown = 3;
  const std::vector<TranslationPair>& pairs = result.data->validation_pairs;
  std::vector<std::string> sources;
  for (size_t pair = 0; pair < std::min(kShown, pairs.size()); ++pair) sources.push_back(pairs[pair].source);
  const std::vector<std::string> found =
      translate_lines(result.model, PairEncoder(result.data->tokenizer), sources, {});
  for (size_t pair = 0; pair < sources.size(); ++pair)
    print("\nsource       {}\ntranslation  {}\nreference    {}\n", pairs[pair].source, found[pair],
          pairs[pair].target);
}

void print_sample(const Recipe& recipe, const TrainingResult& result) {
  if (recipe.sample.tokens == 0) return;
  if (recipe.translates()) return print_translations(result);
  GenerationOptions options;
  const int64_t prompt_tokens =
      static_cast<int64_t>(result.data->tokenizer.encode(recipe.sample.prompt).size());
  options.max_new_tokens =
      std::min(recipe.sample.tokens, result.model->architecture().context - prompt_tokens);
  options.sampling.temperature = recipe.sample.temperature;
  options.seed = recipe.seed;
  if (options.max_new_tokens < 1) return;
  const Generation generation =
      generate(result.model, result.data->tokenizer, {recipe.sample.prompt}, options);
  print("\nsample\n  {}{}\n", recipe.sample.prompt, generation.texts.front().text);
}

void print_result(const Recipe& recipe, const TrainingResult& result) {
  print("run         {}\n", result.directory.string());
  print("parameters  {}, of which {} belong to the formula '{}'\n", result.parameters,
        result.formula_parameters, recipe.attention.title());
  print("training    {} after {} in {}, loss {:.4f}, {:.0f} tokens/s\n", name_of(result.end),
        plural(result.step, "step"), clock_time(result.seconds), result.loss, result.tokens_per_second);
  if (result.validation.tokens > 0) print("result      {}\n", validation_text(result.validation));
  if (result.best_step >= 0) print("best        {:.4f} after step {}\n", result.best_loss, result.best_step);
}

ExitCode dry_run(const Recipe& recipe, bool json) {
  const TrainingPlan plan = plan_training(recipe);
  if (json)
    print("{}\n", dump(to_json(plan), 2));
  else
    print("{}", describe(recipe, plan));
  return ExitCode::success;
}

ExitCode train_in_team(const TrainRequest& options, const Recipe& recipe, Team& team) {
  const fs::path folder = choose_folder(options, recipe, team);
  watch_interrupts();
  Display display(recipe.train.steps, team.leads() && !options.json);
  const TrainingResult result = train(recipe,
                                      {.directory = folder,
                                       .resume = options.resume,
                                       .overwrite = options.overwrite,
                                       .on_step = [&](const TrainingStep& step) { display.step(step); },
                                       .on_message = [](const std::string& text) { log::info("{}", text); },
                                       .interrupted = [] { return interrupt_wanted(); }},
                                      team);
  if (!team.leads()) return ExitCode::success;
  if (options.json)
    print("{}\n", dump(to_json(result), 2));
  else
    print_result(recipe, result);
  const std::string again = fmt::format("saccade train {} --resume", shell_word(folder.string()));
  if (result.end == TrainingEnd::interrupted) {
    log::info("saved; to go on: {}", again);
    return ExitCode::interrupted;
  }
  if (result.end == TrainingEnd::not_finite) {
    log::error("training stopped at {}. Checkpoints before it stay in {}", result.problem, folder.string());
    return ExitCode::check_failed;
  }
  if (!options.json) print_sample(recipe, result);
  return ExitCode::success;
}

ExitCode run(TrainRequest options) {
  if (options.keys) return list_keys(options.json);
  require(!options.recipe.empty(), "train: which recipe? For example: saccade train recipes/tiny.toml");
  if (options.threads > 0) at::set_num_threads(options.threads);
  keep_freed_memory();
  const Recipe recipe = read_recipe(options);
  if (recipe.train.dtype == "bfloat16") prepare_bfloat16();
  if (options.dry_run) return dry_run(recipe, options.json);
  const std::unique_ptr<Team> team = make_team();
  try {
    return train_in_team(options, recipe, *team);
  } catch (const std::exception& error) {
    // Where there are several, the team ends all of them before anybody else could say why.
    if (team->size() > 1) log::error("{}", error.what());
    throw;
  }
}

}  // namespace

Work declare_train(CLI::App& app) {
  auto options = std::make_shared<TrainRequest>();
  app.add_option("recipe", options->recipe, "A .toml file, or the folder of a run")->type_name("RECIPE|RUN");
  app.add_option("overrides", options->overrides,
                 "Keys of the recipe with other values: train.steps=500 attention=prior");
  app.add_option("--out", options->out,
                 "Folder of the run; runs/<name>-<attention> by default, numbered if it is taken");
  app.add_flag("--resume", options->resume, "Go on from the newest checkpoint");
  app.add_flag("--overwrite", options->overwrite, "Start again in a folder that has a run");
  app.add_flag("--dry-run", options->dry_run, "Only say what it would take: parameters, work, memory, time");
  app.add_flag("--keys", options->keys, "List all keys of a recipe");
  app.add_option("--threads", options->threads, "Threads; torch's choice by default")->check(kAboveZero);
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace saccade
