// `saccade diagnose`: a look inside a model, or inside a training run. The measuring is done by the diagnose
// rung; here are the options, what is read, and where the results go.
#include <ATen/Parallel.h>

#include <algorithm>
#include <filesystem>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/memory.h"
#include "saccade/base/text.h"
#include "saccade/cli/attention_option.h"
#include "saccade/cli/command.h"
#include "saccade/cli/output.h"
#include "saccade/data/source.h"
#include "saccade/diagnose/capture_file.h"
#include "saccade/diagnose/charts.h"
#include "saccade/diagnose/diagnosis.h"
#include "saccade/diagnose/history.h"
#include "saccade/diagnose/table.h"
#include "saccade/formula/identify.h"
#include "saccade/generate/text_model.h"
#include "saccade/models/checkpoint_folders.h"
#include "saccade/text/piece.h"
#include "saccade/train/recipe_file.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTokens = 256;  // in a window, unless said otherwise

struct DiagnoseRequest {
  std::string model, data, out, capture;
  int64_t tokens = 0, batch_size = 4;
  AttentionOption attention;
  uint64_t seed = 1;
  int threads = 0;
  bool json = false;
};

// What a person named: a model, or a run with its newest checkpoint.
struct Subject {
  std::string model;  // for load_text_model
  fs::path run;       // empty: no run
};

struct Text {
  std::string name, content;
};

constexpr const char* kSomeText =
    R"(The harbour town had two clocks, and they had never agreed. The one on the customs house ran four minutes fast,
because the old keeper believed that ships should be hurried; the one on the church ran three minutes slow, because
the priest did not like to begin before everybody was seated. People who lived between the two learned to carry a
third time in their heads, and it was this time that they used for bread, for school and for quarrels.

When Marta came to repair the clocks she asked the mayor which of them was right. The mayor looked at his own watch,
which had stopped in the spring, and said that it depended on whom she asked. So Marta asked. The baker told her that
the church was right on Sundays. The pilot told her that only the tide was ever right, and that it came fifty minutes
later every day, whatever the clocks might say. The teacher drew a line on the board and explained that an error that
stays the same is no error at all, since one can always subtract it.

Marta wrote everything down. In the evening she climbed the tower of the church, opened the case and found that there
was nothing wrong with the wheels. They were clean, well oiled and a little worn. Somebody had tied a small bag of
sand to the pendulum. She climbed the stairs of the customs house the next morning and found that somebody had filed
away a little of the other pendulum, not much, perhaps the width of a fingernail.

"Shall I take the sand away?" she asked the mayor. "Shall I add some brass to the other?" The mayor called a meeting.
It began, by the third time, at seven. The fishermen wanted the fast clock to stay fast; the farmers wanted the slow
clock to stay slow; and the children, who had not been asked, wanted a third clock, with a face that one could see
from the school. In the end they voted for the third clock, and for leaving the other two exactly as they were.

Marta built it over the winter. It had a copper face and a bell that was tuned to the note between the other two
bells, and on the first day of March it began to strike. For a week the whole town listened. Then the keeper of the
customs house was seen on a ladder, with a file in his pocket, and the priest was seen behind him, with a bag of sand.
)";

// What the model shall read. Without --data, a training's own validation text, or some sentences.
Text text_to_look_at(const DiagnoseRequest& options, const fs::path& run) {
  std::error_code none;
  if (options.data.empty() && fs::exists(run / "recipe.toml", none)) {
    const Recipe recipe = load_recipe(run / "recipe.toml");
    const Data data = open_data(recipe.data, recipe.seed, Tokenizer::from_file(run));
    if (!data.validation_texts.empty()) return {"its validation data", join(data.validation_texts, "\n")};
  }
  if (options.data.empty()) return {"a built-in story", kSomeText};
  Text text{options.data, read_file(options.data, kLargestFile)};
  require(!trim(text.content).empty(), "{}: it is empty; expected a text", options.data);
  return text;
}

Subject subject_of(const std::string& name) {
  std::error_code none;
  if (!fs::is_directory(checkpoints_of(name), none)) return {name, {}};
  const std::optional<fs::path> newest = newest_model(name);
  require(newest.has_value(), "diagnose: {} has no checkpoint yet; expected a model in step-<number>",
          checkpoints_of(name).string());
  return {newest->string(), name};
}

// Windows of the text, each with the tokens that the tokenizer puts around a text.
at::Tensor windows_of(const Tokenizer& tokenizer, const Text& text, int64_t tokens, int64_t batch_size) {
  // Only the beginning is read, and no token of a language has more bytes than this on average.
  const size_t enough = static_cast<size_t>(tokens * batch_size) * 64;
  std::vector<int32_t> ids = tokenizer.encode(std::string_view(text.content).substr(0, enough), false);
  const std::vector<int32_t> around = tokenizer.encode("");
  const SpecialIds& special = tokenizer.special_ids();
  const auto is = [](const std::optional<int32_t>& id, int32_t other) { return id && *id == other; };
  std::vector<int32_t> before, after;
  for (const int32_t id : around) (is(special.sep, id) || is(special.eos, id) ? after : before).push_back(id);
  const auto fixed = static_cast<int64_t>(before.size() + after.size());
  require(tokens > fixed, "diagnose: --tokens {}; {} of them would be special tokens", tokens, fixed);
  require(!ids.empty(), "{}: there are no tokens in it", text.name);
  const int64_t inside = std::min<int64_t>(tokens - fixed, static_cast<int64_t>(ids.size()));
  const int64_t count = std::min<int64_t>(batch_size, static_cast<int64_t>(ids.size()) / inside);
  std::vector<int64_t> all;
  for (int64_t window = 0; window < count; ++window) {
    all.insert(all.end(), before.begin(), before.end());
    const auto first = ids.begin() + window * inside;
    all.insert(all.end(), first, first + inside);
    all.insert(all.end(), after.begin(), after.end());
  }
  return torch::tensor(all, torch::kLong).view({count, -1});
}

History history_of(const Subject& subject) {
  const fs::path file = subject.run / "diagnostics.jsonl";
  std::error_code none;
  if (subject.run.empty() || !fs::exists(file, none)) return {};
  return read_history(read_file(file, kLargestFile), file.string());
}

// The attention weights of the first window.
AttentionCapture capture_of(const DiagnoseRequest& options, const TextModel& model, const at::Tensor& ids) {
  const int64_t layers = model.model->architecture().layers;
  CaptureOptions wanted;
  if (options.capture != "all") wanted.layers = parse_layers(options.capture, layers);
  std::vector<std::string> tokens;
  for (int64_t index = 0; index < ids.size(1); ++index)
    tokens.push_back(piece_of(model.tokenizer, static_cast<int32_t>(ids[0][index].item<int64_t>())));
  AttentionCapture file = to_file(capture_attention(model.model, ids[0], wanted), std::move(tokens));
  file.model = options.model;
  file.attention =
      options.attention.given() ? options.attention.title() : mechanism_name(model.model->formula(0));
  file.data = options.data;
  return file;
}

ExitCode run(const DiagnoseRequest& options) {
  keep_freed_memory();
  if (options.threads > 0) at::set_num_threads(options.threads);
  // What is wrong with the small arguments is found before a large model is loaded.
  if (options.attention.given()) options.attention.load();
  const Subject subject = subject_of(options.model);
  const Text text = text_to_look_at(options, subject.run);
  const History history = history_of(subject);
  TextModel model = load_text_model(subject.model);
  const int64_t context = model.model->architecture().context;
  const int64_t tokens = options.tokens > 0 ? options.tokens : std::min<int64_t>(kTokens, context);
  require(tokens <= context, "diagnose: --tokens {}; {} was made for at most {}", tokens, subject.model,
          context);
  // A formula with projections of its own starts with random ones.
  torch::manual_seed(options.seed);
  if (options.attention.given()) options.attention.apply(model.model, Path::automatic);
  const at::Tensor ids = windows_of(model.tokenizer, text, tokens, options.batch_size);
  const Diagnosis diagnosis = diagnose(model.model, ids);

  const std::string title = fmt::format("{}{}, {} x {} tokens of {}", subject.model,
                                        options.attention.given() ? " with " + options.attention.title() : "",
                                        ids.size(0), ids.size(1), text.name);
  Json json = {{"model", subject.model}, {"data", text.name}};
  if (options.attention.given()) json["attention"] = options.attention.title();
  json.update(to_json(diagnosis));
  const fs::path out = !options.out.empty()  ? fs::path(options.out)
                       : subject.run.empty() ? fs::path()
                                             : subject.run / "diagnosis";
  require(options.capture.empty() || !out.empty(), "diagnose: --capture writes a file; --out says where");
  std::vector<Picture> pictures;
  if (!out.empty()) {
    pictures = draw(diagnosis, title);
    for (Picture& picture : draw(history, options.model)) pictures.push_back(std::move(picture));
    // The list says which pictures belong to this diagnosis; an earlier one may have left others.
    json["pictures"] = Json::array();
    for (const Picture& picture : pictures) json["pictures"].push_back(picture.file);
    make_directories(out);
    for (const Picture& picture : pictures) write_atomic(out / picture.file, picture.svg);
    write_atomic(out / "diagnosis.json", dump(json) + "\n");
    if (!options.capture.empty())
      write_atomic(out / "attention.json", dump(to_json(capture_of(options, model, ids))) + "\n");
  }
  if (options.json) {
    print("{}\n", dump(json));
    return ExitCode::success;
  }
  print("{}\n\n{}", title, table_of(diagnosis));
  if (history.entries.size() > 1)
    print("\nTraining measured {} from step {} to {}.\n",
          plural(static_cast<int64_t>(history.entries.size()), "time"), history.entries.front().step,
          history.entries.back().step);
  if (!out.empty())
    print("\nWritten to {}: diagnosis.json and {}.\n", out.string(),
          plural(static_cast<int64_t>(pictures.size()), "picture"));
  return ExitCode::success;
}

}  // namespace

Work declare_diagnose(CLI::App& app) {
  const auto options = std::make_shared<DiagnoseRequest>();
  app.add_option(
         "model", options->model,
         "A model's directory, GGUF file or name; or the directory of a training run, of which the newest "
         "checkpoint is taken")
      ->type_name("MODEL|RUN")
      ->required();
  app.add_option("--data", options->data, "A text to read; a short built-in story by default")
      ->type_name("FILE");
  app.add_option("--tokens", options->tokens,
                 "Tokens in a window; 256 by default, or the model's context if that is shorter")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 16));
  app.add_option("--batch-size", options->batch_size, "Windows to read, fewer if the text is short")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}))
      ->capture_default_str();
  app.add_option(
         "--out", options->out,
         "Where diagnosis.json and the pictures go; for a run its folder diagnosis, otherwise nowhere")
      ->type_name("DIR");
  app.add_option(
         "--capture", options->capture,
         "Also write the attention weights of these layers in the first window, such as 0-5,7 or all, to "
         "attention.json")
      ->type_name("LIST");
  options->attention.declare(app);
  app.add_option("--seed", options->seed, "Seed of projections that --attention brings along")
      ->capture_default_str();
  app.add_option("--threads", options->threads, "Threads; torch's choice by default")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace saccade
