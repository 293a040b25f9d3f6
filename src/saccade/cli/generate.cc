// `saccade generate`: continues prompts with a model, or with two beside each other. The generating is done
// by the generate rung; here are the options and what a person sees.
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <map>
#include <utility>

#include "saccade/base/error.h"
#include "saccade/base/json.h"
#include "saccade/base/log.h"
#include "saccade/base/memory.h"
#include "saccade/base/terminal.h"
#include "saccade/base/text.h"
#include "saccade/cli/attention_option.h"
#include "saccade/cli/command.h"
#include "saccade/cli/output.h"
#include "saccade/cli/path_option.h"
#include "saccade/cli/text_view.h"
#include "saccade/formula/identify.h"
#include "saccade/generate/generation.h"
#include "saccade/generate/text_model.h"

namespace saccade {
namespace {

struct GenerateRequest {
  std::string model, compare;
  std::vector<std::string> prompts;
  bool lines = false;
  GenerationOptions generation;
  bool ignore_end = false;
  AttentionOption attention;
  Path path = Path::automatic;
  int threads = 0;
  bool json = false;
  bool chance = false;  // an option that only sampling reads was given
};

const std::map<std::string, Overflow> kOverflows = {
    {"refuse", Overflow::refuse}, {"slide", Overflow::slide}, {"extend", Overflow::extend}};

constexpr int kNarrowest = 40;  // columns of a terminal that can hold two texts

// What one model made of all prompts.
struct Told {
  std::string model, attention;
  Tokenizer tokenizer;
  Generation generation;
  std::string title() const { return fmt::format("{}, {}", model, attention); }
};

std::vector<std::string> read_prompts(const GenerateRequest& options) {
  if (!options.prompts.empty()) {
    require(!options.lines, "generate: --lines reads standard input; it cannot be given with --prompt");
    return options.prompts;
  }
  require(::isatty(STDIN_FILENO) == 0,
          "generate: no prompt given; use --prompt, or send a text to standard input");
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  if (options.lines) {
    const std::vector<std::string_view> lines = split_lines(text);
    require(!lines.empty(), "generate: standard input has no lines; expected a prompt in each");
    return {lines.begin(), lines.end()};
  }
  // The end of the line that `echo` adds is not meant.
  if (text.ends_with('\n')) text.pop_back();
  return {text};
}

// "causal", or "causal, sink_window w=128" when layers differ.
std::string describe_attention(const Transformer& model) {
  std::vector<std::string> names;
  for (int64_t layer = 0; layer < model->architecture().layers; ++layer) {
    const Formula& formula = model->formula(layer);
    std::string name = mechanism_name(formula);
    for (const auto& [constant, value] : formula.overrides()) name += fmt::format(" {}={}", constant, value);
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return join(names, ", ");
}

Told tell(TextModel& text_model, const GenerateRequest& options, const std::vector<std::string>& prompts,
          const OnText& on_text = {}) {
  text_model.model->set_path(options.path);
  GenerationOptions generation = options.generation;
  if (!options.ignore_end) generation.end_ids = text_model.end_ids();
  return {.model = text_model.name,
          .attention = describe_attention(text_model.model),
          .tokenizer = text_model.tokenizer,
          .generation = generate(text_model.model, text_model.tokenizer, prompts, generation, on_text)};
}

void show_speed(const Told& told) {
  const Speed& speed = told.generation.speed;
  const auto rate = [](double value) { return fmt::format("{:.{}f}/s", value, value < 10 ? 1 : 0); };
  std::string line = fmt::format("{}: prefill {}, {}; {}", told.title(), plural(speed.prompt_tokens, "token"),
                                 rate(speed.prefill_rate()), plural(speed.new_tokens, "new token"));
  if (speed.decoded_tokens > 0) line += ", " + rate(speed.decode_rate());
  log::info("{}", line);
}

Json to_json(const Told& told, const GenerateRequest& options, const std::vector<std::string>& prompts) {
  Json texts = Json::array();
  for (const Generated& each : told.generation.texts) {
    Json text{{"prompt", prompts[each.prompt]},
              {"text", each.text},
              {"prompt_ids", each.prompt_ids},
              {"ids", each.ids},
              {"finish", name_of(each.finish)}};
    if (options.generation.beams > 1) text["score"] = each.score;
    texts.push_back(std::move(text));
  }
  const Speed& speed = told.generation.speed;
  return {{"model", told.model},
          {"attention", told.attention},
          {"seed", options.generation.seed},
          {"texts", texts},
          {"speed",
           {{"prompt_tokens", speed.prompt_tokens},
            {"prefill_tokens_per_second", speed.prefill_rate()},
            {"new_tokens", speed.new_tokens},
            {"decode_tokens_per_second", speed.decode_rate()}}}};
}

// As a person or a program gets it.
std::string readable(std::string_view text) {
  return is_terminal(Stream::out) ? harmless(text) : std::string(text);
}

ExitCode run_one(const GenerateRequest& options, const std::vector<std::string>& prompts) {
  TextModel model = load_text_model(options.model);
  if (options.attention.given()) options.attention.apply(model.model, options.path);
  const bool streams = prompts.size() == 1 && !options.json && options.generation.n_best == 1;
  bool begun = false;
  const OnText on_text = [&](size_t, std::string_view text) {
    if (!std::exchange(begun, true)) write_output(readable(prompts.front()));
    write_output(readable(text));
    flush_output();
  };
  const Told told = tell(model, options, prompts, streams ? on_text : OnText());
  if (options.json) {
    print("{}\n", dump(to_json(told, options, prompts), 2));
  } else if (streams) {
    if (!begun) write_output(readable(prompts.front()));
    print("\n");
  } else {
    bool first = true;
    for (const Generated& each : told.generation.texts) {
      if (!std::exchange(first, false)) print("\n");
      if (options.generation.n_best > 1) print("score {:.4f}\n", each.score);
      print("{}{}\n", readable(prompts[each.prompt]), readable(each.text));
    }
  }
  flush_output();
  show_speed(told);
  return ExitCode::success;
}

// The place, counted from 1, of the first new token that is not the same; 0 when all are. Tokens are compared
// as written, since two models may number them differently.
size_t first_difference(const Told& one, const Generated& a, const Told& other, const Generated& b) {
  const auto same = [&](int32_t id, int32_t other_id) {
    const std::string_view token = one.tokenizer.token_of(id);
    return token == other.tokenizer.token_of(other_id) && (!token.empty() || id == other_id);
  };
  const auto [at, other_at] = std::mismatch(a.ids.begin(), a.ids.end(), b.ids.begin(), b.ids.end(), same);
  const bool all = at == a.ids.end() && other_at == b.ids.end();
  return all ? 0 : static_cast<size_t>(at - a.ids.begin()) + 1;
}

std::string token_at(const Told& told, const Generated& text, size_t place) {
  if (place > text.ids.size()) return "the end";
  const int32_t id = text.ids[place - 1];
  return fmt::format("'{}'", printable(told.tokenizer.decode(std::span(&id, 1), false)));
}

ExitCode run_two(const GenerateRequest& options, const std::vector<std::string>& prompts) {
  TextModel model = load_text_model(options.model);
  const Told one = tell(model, options, prompts);
  if (options.compare != options.model) model = load_text_model(options.compare);
  if (options.attention.given()) options.attention.apply(model.model, options.path);
  const Told other = tell(model, options, prompts);

  const bool columns = is_terminal(Stream::out) && terminal_width(Stream::out) >= kNarrowest;
  Json differences = Json::array();
  for (size_t index = 0; index < one.generation.texts.size(); ++index) {
    const Generated &a = one.generation.texts[index], &b = other.generation.texts[index];
    const size_t place = first_difference(one, a, other, b);
    differences.push_back(place == 0 ? Json() : Json(place));
    if (options.json) continue;
    if (index > 0) print("\n");
    print("{}\n\n", readable(prompts[a.prompt]));
    const TitledText left{one.title(), a.text}, right{other.title(), b.text};
    write_output(columns ? side_by_side(left, right, terminal_width(Stream::out)) : one_by_one(left, right));
    if (place == 0)
      print("\nAll {} are the same.\n", plural(static_cast<int64_t>(a.ids.size()), "new token"));
    else
      print("\nThey first differ at new token {}: {} and {}.\n", place, token_at(one, a, place),
            token_at(other, b, place));
  }
  if (options.json)
    print("{}\n", dump({{"models", {to_json(one, options, prompts), to_json(other, options, prompts)}},
                        {"first_differences", differences}},
                       2));
  flush_output();
  show_speed(one);
  show_speed(other);
  return ExitCode::success;
}

ExitCode run(const GenerateRequest& options) {
  const GenerationOptions& generation = options.generation;
  require(generation.beams == 1 || !options.chance,
          "generate: beam search leaves nothing to chance; --temperature, --top-k, --top-p and --min-p "
          "cannot be given "
          "with --beams {}",
          generation.beams);
  require(options.compare.empty() || generation.n_best == 1,
          "generate: --compare shows one text; --n-best is {}", generation.n_best);
  // A mistake in the formula is told before a model is read.
  if (options.attention.given()) options.attention.load();
  keep_freed_memory();
  const std::vector<std::string> prompts = read_prompts(options);
  if (options.threads > 0) at::set_num_threads(options.threads);
  return options.compare.empty() ? run_one(options, prompts) : run_two(options, prompts);
}

void declare_choice(CLI::App& app, GenerateRequest& options) {
  SamplingOptions& sampling = options.generation.sampling;
  const auto number = [&](const char* name, auto& value, double low, double high, const char* what) {
    return app.add_option(name, value, what)->check(CLI::Range(low, high))->capture_default_str();
  };
  const auto of_chance = [&](CLI::Option* option) {
    option->each([&options](const std::string&) { options.chance = true; });
  };
  of_chance(number("--temperature", sampling.temperature, 0, 1000,
                   "How much is left to chance; 0: always the most likely token"));
  of_chance(number("--top-k", sampling.top_k, 0, 1e9, "Only the k most likely tokens; 0: all"));
  of_chance(
      number("--top-p", sampling.top_p, 1e-9, 1, "Only the most likely tokens that together reach this"));
  of_chance(
      number("--min-p", sampling.min_p, 0, 1, "Only tokens this share as likely as the most likely one"));
  number("--repetition-penalty", sampling.repetition_penalty, 1e-6, 1000,
         "Make tokens that occurred less likely by this factor; 1: do not");
  app.add_option("--seed", options.generation.seed, "The same seed draws the same text")
      ->capture_default_str();
}

}  // namespace

Work declare_generate(CLI::App& app) {
  const auto options = std::make_shared<GenerateRequest>();
  GenerationOptions& generation = options->generation;
  const auto count = [&](const char* name, int64_t& value, int64_t most, const char* what) {
    app.add_option(name, value, what)->check(CLI::Range(int64_t{1}, most))->capture_default_str();
  };
  app.add_option("model", options->model, "A model's directory, GGUF file or name, or the folder of a run")
      ->type_name("MODEL")
      ->required();
  const auto one_each = [](CLI::Option* option) {
    return option->expected(1)->take_all()->allow_extra_args(false);
  };
  one_each(app.add_option("-p,--prompt", options->prompts,
                          "What to continue; may be given again. Without it, standard input is the prompt"));
  app.add_flag("--lines", options->lines, "Every line of standard input is a prompt");
  count("-n,--max-new-tokens", generation.max_new_tokens, 1 << 24, "Tokens of a continuation, at most");
  declare_choice(app, *options);
  one_each(app.add_option("--stop", generation.stop, "End before this text; may be given again"));
  app.add_flag("--ignore-end", options->ignore_end, "Go on after a token that ends a text");
  count("--beams", generation.beams, 1024, "Beam search with so many beams; 1: none");
  app.add_option("--length-penalty", generation.length_penalty,
                 "Of beams: more than 0 favours long texts, less than 0 short ones")
      ->capture_default_str();
  app.add_flag("--early-stopping", generation.early_stopping,
               "Of beams: end when as many texts as beams have ended");
  count("--n-best", generation.n_best, 1024, "Of beams: print so many texts for each prompt");
  count("--batch-size", generation.batch_size, 4096, "Prompts that are computed together");
  options->attention.declare(app);
  app.add_option(
         "--compare", options->compare,
         "Show the texts of this model beside those of the first; --attention is then for this one only")
      ->type_name("MODEL");
  app.add_option_function<std::string>(
         "--overflow", [&generation](const std::string& name) { generation.overflow = kOverflows.at(name); },
         "When prompt and continuation exceed the model's context. refuse: an error before anything is "
         "computed. "
         "slide: the oldest tokens of a prompt that is too long are dropped; whenever the context is full, "
         "its older "
         "half is forgotten and the rest computed anew. extend: go on, beyond what the model was made for")
      ->check(CLI::IsMember(kOverflows))
      ->default_str("refuse");
  declare_path(app, options->path);
  app.add_option("--threads", options->threads, "Threads; torch's choice by default")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace saccade
