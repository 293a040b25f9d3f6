// `saccade eval`: how good a model is, with its own attention and with another swapped in. The measuring is
// done by the evaluate rung; here are the options.
#include <ATen/Parallel.h>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/log.h"
#include "saccade/base/memory.h"
#include "saccade/base/progress.h"
#include "saccade/base/text.h"
#include "saccade/cli/attention_option.h"
#include "saccade/cli/bleu_option.h"
#include "saccade/cli/command.h"
#include "saccade/cli/eval_translation.h"
#include "saccade/cli/output.h"
#include "saccade/cli/path_option.h"
#include "saccade/evaluate/report.h"
#include "saccade/generate/text_model.h"
#include "saccade/models/bfloat16.h"

namespace saccade {
namespace {

struct EvalRequest {
  std::string model;
  std::vector<std::string> data;
  std::string labels;
  std::vector<std::string> label_names;
  int64_t context = 0, stride = 0, batch_size = 4, max_tokens = 0;
  bool extend = false;
  AttentionOption attention;
  BleuOption bleu;
  TranslationOption translation;
  std::string hypotheses, input;
  bool no_baseline = false;
  bool retrieval = false, robustness = false, length_curve = false, masked = false;
  uint64_t seed = 1;
  Path path = Path::automatic;
  int threads = 0;
  std::string dtype = "float";
  bool json = false;
};

struct File {
  std::string name, content;
};

// A model, what it shall read, and how much of it at once.
struct Examination {
  TextModel model;
  int64_t context = 0;
  std::vector<EncodedText> texts;
  std::vector<LabelledText> labelled;
};

OnProgress shown_by(std::optional<Progress>& bar, std::string label) {
  bar.reset();
  return [&bar, label](int64_t done, int64_t total) {
    if (!bar) bar.emplace(total, label);
    bar->update(done);
  };
}

File read_data(const std::string& name) {
  File file{name, read_file(name, kLargestFile)};
  require(!file.content.empty(), "{}: it is empty; expected a text", name);
  return file;
}

void require_head(const EvalRequest& options, const Architecture& architecture) {
  const std::string& name = options.model;
  const bool next = architecture.head == HeadKind::language_model;
  const bool masked = architecture.head == HeadKind::masked_model;
  require(options.labels.empty() || architecture.head == HeadKind::classifier,
          "{}: it has no head for labels, which --labels asks for", name);
  require(!options.masked || masked, "{}: it is no masked model, which --masked asks for", name);
  require(options.data.empty() || next || masked, "{}: it has no head for tokens, which --data asks for",
          name);
  const char* asking = options.retrieval      ? "--retrieval"
                       : options.robustness   ? "--robustness"
                       : options.length_curve ? "--length-curve"
                                              : nullptr;
  require(!asking || next, "{}: it does not predict what comes next, which {} asks for", name,
          asking ? asking : "");
}

Evaluation measure(const EvalRequest& options, const Examination& subject, const std::string& title) {
  const Tokenizer& tokenizer = subject.model.tokenizer;
  const Reader reader = reader_of(subject.model.model, options.batch_size);
  const int64_t context = subject.context;
  std::optional<Progress> bar;
  const auto progress = [&](const char* what) { return shown_by(bar, fmt::format("{}, {}", title, what)); };
  Evaluation result{.attention = title};
  const bool predicts_next = subject.model.model->architecture().head == HeadKind::language_model;
  if (!subject.texts.empty() && predicts_next)
    result.perplexity = measure_perplexity(reader, subject.texts,
                                           {.context = context,
                                            .stride = options.stride,
                                            .batch_size = options.batch_size,
                                            .on_progress = progress("perplexity")});
  if (!subject.texts.empty() && !predicts_next)
    result.masked = measure_masked(reader, tokenizer, subject.texts,
                                   {.context = context,
                                    .batch_size = options.batch_size,
                                    .seed = options.seed,
                                    .on_progress = progress("masked tokens")});
  if (!subject.labelled.empty())
    result.classification = measure_classification(
        subject.model.model, tokenizer, subject.labelled,
        {.context = context, .batch_size = options.batch_size, .on_progress = progress("labels")});
  if (options.robustness)
    result.robustness = measure_robustness(reader, tokenizer, subject.texts,
                                           {.context = context,
                                            .batch_size = options.batch_size,
                                            .seed = options.seed,
                                            .on_progress = progress("robustness")});
  if (options.retrieval)
    result.retrieval = measure_retrieval(
        reader, tokenizer, {.context = context, .seed = options.seed, .on_progress = progress("retrieval")});
  return result;
}

void print_report(const EvalRequest& options, const Examination& subject,
                  std::span<const Evaluation> evaluations) {
  const int64_t parameters = subject.model.model->parameter_count();
  if (options.json) {
    print("{}\n", dump(Json{{"model", options.model},
                            {"parameters", parameters},
                            {"data", options.data},
                            {"dtype", options.dtype},
                            {"threads", at::get_num_threads()},
                            {"evaluations", report_json(evaluations)}},
                       2));
    return;
  }
  int64_t tokens = 0, words = 0, bytes = 0;
  for (const EncodedText& text : subject.texts) {
    tokens += static_cast<int64_t>(text.ids.size()) - text.special;
    words += text.words;
    bytes += text.bytes;
  }
  print("{}: {:.4g} million parameters, {}, {}\n", options.model, static_cast<double>(parameters) / 1e6,
        options.dtype, plural(at::get_num_threads(), "thread"));
  if (tokens > 0)
    print("{}: {}, {}, {}\n", join(options.data, ", "), plural(tokens, "token"), plural(words, "word"),
          plural(bytes, "byte"));
  print("\n{}", report_text(evaluations, {.length_curve = options.length_curve}));
}

// The score of a translation that is there already.
ExitCode score_file(const EvalRequest& options) {
  require(options.bleu.given(), "eval: --hypotheses needs references; name them with --bleu");
  require(options.model.empty(), "eval: --hypotheses has the translations; the model '{}' has nothing to do",
          options.model);
  require(options.input.empty(), "eval: --hypotheses has the translations; --input {} has nothing to do",
          options.input);
  const std::vector<std::string> lines = read_lines_of(options.hypotheses);
  if (options.json)
    print("{}\n", dump(options.bleu.json(lines, options.hypotheses), 2));
  else
    print("{}", options.bleu.text(lines, options.hypotheses));
  return ExitCode::success;
}

ExitCode translate_and_score(const EvalRequest& options) {
  require(!options.input.empty(),
          "eval: --bleu needs what to translate; name it with --input, or give a "
          "translation with --hypotheses");
  require(options.data.empty() && options.labels.empty() && !options.retrieval && !options.attention.given(),
          "eval: --bleu measures translation; it goes with --robustness and --length-curve alone");
  if (options.threads > 0) at::set_num_threads(options.threads);
  TextModel model = load_text_model(options.model);
  require(model.model->encoder() != nullptr,
          "{}: this model goes on with a text, and translates none, which --bleu asks for", options.model);
  model.model->set_path(options.path);
  TranslationEvaluation evaluation{.input = options.input,
                                   .bleu = options.bleu,
                                   .translation = options.translation,
                                   .noise = options.robustness,
                                   .lengths = options.length_curve,
                                   .json = options.json,
                                   .seed = options.seed};
  evaluation.translation.options.extend = options.extend;
  return evaluate_translation(model, evaluation);
}

ExitCode run(const EvalRequest& options) {
  if (!options.hypotheses.empty()) return score_file(options);
  require(!options.model.empty() || !options.bleu.given(),
          "eval: --bleu needs translations; name them with --hypotheses, or give a model and --input");
  require(!options.model.empty(), "eval: which model? For example: saccade eval smollm2 --data valid.txt");
  if (options.dtype == "bfloat16") prepare_bfloat16();
  keep_freed_memory();
  if (options.bleu.given()) return translate_and_score(options);
  require(options.input.empty(), "eval: --input needs references; name them with --bleu");
  require(!options.data.empty() || !options.labels.empty() || options.retrieval,
          "eval: nothing to do; name a text with --data, labelled texts with --labels, sentences with --bleu "
          "and --input, or use --retrieval");
  for (const auto& [wish, name] : {std::pair{options.robustness, "--robustness"},
                                   {options.length_curve, "--length-curve"},
                                   {options.masked, "--masked"}})
    require(!wish || !options.data.empty(), "eval: {} needs a text; name one with --data", name);
  require(!options.no_baseline || options.attention.given(), "eval: --no-baseline is for --attention");
  if (options.threads > 0) at::set_num_threads(options.threads);
  // What is wrong with the small arguments is found before a large model is loaded.
  if (options.attention.given()) options.attention.load();
  std::vector<File> files;
  for (const std::string& name : options.data) files.push_back(read_data(name));
  std::optional<File> labels;
  if (!options.labels.empty()) labels = read_data(options.labels);

  Examination subject{.model = load_text_model(options.model)};
  Transformer& model = subject.model.model;
  const Architecture& architecture = model->architecture();
  require_head(options, architecture);
  subject.context = with_context(
      options.model, [&] { return checked_context(architecture, options.context, options.extend); });
  require(options.stride <= subject.context, "eval: a stride of {}; expected at most the context of {}",
          options.stride, subject.context);
  if (options.dtype != "float") model->to(options.dtype == "double" ? torch::kDouble : torch::kBFloat16);
  model->set_path(options.path);
  for (File& file : files) {
    subject.texts.push_back(
        encode_text(subject.model.tokenizer, file.content, file.name, options.max_tokens));
    file.content = {};
  }
  if (labels)
    subject.labelled = read_labelled(labels->content, labels->name, architecture.labels, options.label_names);

  std::vector<Evaluation> evaluations;
  if (!options.no_baseline) evaluations.push_back(measure(options, subject, "own attention"));
  if (options.attention.given()) {
    options.attention.apply(model, options.path);
    evaluations.push_back(measure(options, subject, options.attention.title()));
  }
  print_report(options, subject, evaluations);
  return ExitCode::success;
}

}  // namespace

Work declare_eval(CLI::App& app) {
  const auto options = std::make_shared<EvalRequest>();
  app.add_option("model", options->model, "A model's directory, GGUF file or name, or the folder of a run")
      ->type_name("MODEL");
  app.add_option("--data", options->data, "Texts to predict; no window reaches from one into the next")
      ->type_name("FILE");
  app.add_option("--context", options->context,
                 "Tokens in a window; the model's own context by default, at most 1024")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 24));
  app.add_option("--stride", options->stride,
                 "Slide the window by so many tokens, and count only those that are new in it; "
                 "by default windows do not overlap")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  app.add_flag("--extend", options->extend, "Allow a context beyond the model's, where positions are rotary");
  app.add_option("--batch-size", options->batch_size,
                 "Windows that are read together; the numbers stay the same")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}))
      ->capture_default_str();
  app.add_option("--max-tokens", options->max_tokens, "Use only so many tokens of each text")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 50));
  options->attention.declare(app);
  options->bleu.declare(app);
  app.add_option("--input", options->input, "With --bleu: what the model shall translate, line by line")
      ->type_name("FILE");
  app.add_option("--beams", options->translation.options.beams, "With --bleu: as for `saccade translate`")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--length-penalty", options->translation.options.length_penalty,
                 "With --bleu: as for `saccade translate`")
      ->capture_default_str();
  app.add_option("--hypotheses", options->hypotheses, "With --bleu: translations to score, without a model")
      ->type_name("FILE");
  app.add_flag("--no-baseline", options->no_baseline,
               "With --attention: leave out the model's own attention");
  app.add_flag("--length-curve", options->length_curve,
               "Show the loss by how many tokens come before; with --bleu, BLEU by sentences in one");
  app.add_flag("--robustness", options->robustness,
               "Show the loss after text with dropped, swapped and mistyped parts; with --bleu, BLEU of such "
               "sources");
  app.add_flag("--retrieval", options->retrieval,
               "Ask for a hidden pass key, and for pairs of words; needs no --data");
  app.add_flag("--masked", options->masked,
               "Predict masked tokens; a masked model does so even without this");
  app.add_option(
         "--labels", options->labels,
         "Texts with labels for a classifier: lines of JSON with text and label, or of text, tab, label")
      ->type_name("FILE");
  app.add_option("--label-names", options->label_names,
                 "The labels' names in order, when the file uses names")
      ->delimiter(',');
  app.add_option("--seed", options->seed, "Seed of what is drawn: masks, damage, pass keys")
      ->capture_default_str();
  declare_path(app, options->path);
  app.add_option("--threads", options->threads, "Threads; torch's choice by default")
      ->check(CLI::Range(1, 1024));
  app.add_option("--dtype", options->dtype, "float, double or bfloat16")
      ->check(CLI::IsMember({"float", "double", "bfloat16"}))
      ->capture_default_str();
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace saccade
