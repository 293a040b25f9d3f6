// `saccade translate`: lines in, as many lines out, in their order.
#include <ATen/Parallel.h>

#include <iostream>

#include "saccade/base/error.h"
#include "saccade/base/json.h"
#include "saccade/base/log.h"
#include "saccade/base/memory.h"
#include "saccade/base/progress.h"
#include "saccade/cli/bleu_option.h"
#include "saccade/cli/command.h"
#include "saccade/cli/number_checks.h"
#include "saccade/cli/output.h"
#include "saccade/cli/path_option.h"
#include "saccade/cli/translation_option.h"
#include "saccade/generate/text_model.h"

namespace saccade {
namespace {

struct TranslateRequest {
  std::string model, input = "-";
  TranslationOption translation;
  int64_t n_best = 1, batch_size = 32;
  Path path = Path::automatic;
  int threads = 0;
  bool json = false;
};

// One line for each line of input: of several translations the number of the line comes first.
void print_line(const TranslateRequest& options, const LineTranslation& line, size_t number) {
  if (options.json) {
    Json best = Json::array();
    for (size_t rank = 0; rank < line.texts.size(); ++rank)
      best.push_back({{"text", line.texts[rank]}, {"score", line.scores[rank]}});
    print("{}\n", dump(Json{{"line", number},
                            {"source_tokens", line.source_tokens},
                            {"read_tokens", line.read_tokens},
                            {"ended", line.ended},
                            {"translations", best}}));
    return;
  }
  if (options.n_best == 1) return print("{}\n", line.texts.empty() ? "" : line.texts.front());
  for (size_t rank = 0; rank < line.texts.size(); ++rank)
    print("{}\t{:.4f}\t{}\n", number, line.scores[rank], line.texts[rank]);
}

ExitCode run(const TranslateRequest& options) {
  keep_freed_memory();
  if (options.threads > 0) at::set_num_threads(options.threads);
  TranslationOptions how = options.translation.options;
  how.n_best = options.n_best;
  how.batch_size = options.batch_size;
  if (how.n_best > how.beams) {
    log::info("--n-best {} needs as many beams; --beams is {} instead of {}", how.n_best, how.n_best,
              how.beams);
    how.beams = how.n_best;
  }
  TextModel model = load_text_model(options.model);
  require(model.model->encoder() != nullptr,
          "{}: this model goes on with a text, and translates none; `saccade generate` uses it",
          options.model);
  model.model->set_path(options.path);
  const PairEncoder encoder(model.tokenizer);
  const std::vector<std::string> lines = read_lines_of(options.input);
  Progress progress(static_cast<int64_t>(lines.size()), "translate");
  // In pieces, so that whoever waits sees lines, and each piece has enough of them to be sorted by length.
  const auto piece = static_cast<size_t>(16 * how.batch_size);
  for (size_t begin = 0; begin < lines.size(); begin += piece) {
    const size_t count = std::min(piece, lines.size() - begin);
    const std::vector<LineTranslation> found =
        translate(model.model, encoder, std::span(lines).subspan(begin, count), how,
                  [&](int64_t done, int64_t) { progress.update(static_cast<int64_t>(begin) + done); });
    for (size_t line = 0; line < count; ++line) print_line(options, found[line], begin + line + 1);
    flush_output();
    warn_about(found, begin);
  }
  progress.finish();
  return ExitCode::success;
}

}  // namespace

Work declare_translate(CLI::App& app) {
  auto options = std::make_shared<TranslateRequest>();
  app.add_option("model", options->model, "The folder of a training, or of a model that translates")
      ->type_name("MODEL")
      ->required();
  app.add_option("--input", options->input, "Lines to translate, also compressed; standard input by default")
      ->type_name("FILE");
  options->translation.declare(app);
  app.add_option("--n-best", options->n_best,
                 "Translations of each line; of several, the line's number, score and text are printed with "
                 "tabs between")
      ->check(CLI::Range(1, 1024));
  app.add_option("--batch-size", options->batch_size, "Lines translated together; the result stays the same")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  declare_path(app, options->path);
  app.add_option("--threads", options->threads, "Threads; torch's choice by default")->check(kAboveZero);
  app.add_flag("--json", options->json, "Print a line of JSON for each line");
  return [options] { return run(*options); };
}

}  // namespace saccade
