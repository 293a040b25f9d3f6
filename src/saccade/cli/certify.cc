// `saccade certify`: whether a candidate is faithful to its baseline. The measuring and judging is done by
// the certify rung; here are the options, what is loaded, and where the certificate goes.
#include <ATen/Parallel.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/progress.h"
#include "saccade/base/text.h"
#include "saccade/certify/certificate.h"
#include "saccade/cli/attention_option.h"
#include "saccade/cli/command.h"
#include "saccade/cli/number_checks.h"
#include "saccade/cli/output.h"
#include "saccade/evaluate/reader.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMemoryLengths = "1024,2048,4096";

struct CertifyRequest {
  std::string model, candidate, out;
  std::vector<std::string> data, tasks;
  AttentionOption attention;
  FidelityOptions fidelity{.context = 0};
  FidelityThresholds thresholds;
  double max_perplexity_change = 0;
  bool limits_perplexity = false;
  std::string memory_lengths = kMemoryLengths;
  int threads = 0;
  bool json = false;
};

std::vector<int64_t> parse_lengths(const std::string& text) {
  std::vector<int64_t> lengths;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = std::string_view(text).substr(begin, end - begin);
    int64_t length = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), length);
    require(error == std::errc() && rest == word.data() + word.size() && length >= 16 && length <= 1 << 20,
            "--memory-lengths: cannot read '{}'; expected numbers of tokens from 16 on, such as {}",
            printable(text, 60), kMemoryLengths);
    lengths.push_back(length);
    begin = end + 1;
  }
  return lengths;
}

// A word as a shell would need it to be written.
std::string for_shell(const std::string& word) {
  const bool plain = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-_./,=:+@%").find(static_cast<char>(c)) != std::string::npos;
  });
  if (plain) return word;
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string command_of(const CertifyRequest& options) {
  const FidelityOptions& fidelity = options.fidelity;
  const FidelityThresholds &given = options.thresholds, standard;
  const FidelityOptions usual;
  std::vector<std::string> words = {"saccade", "certify", options.model};
  const auto add = [&](const char* name, const std::string& value) {
    words.emplace_back(name);
    words.push_back(value);
  };
  const auto add_changed = [&](const char* name, auto value, auto before) {
    if (value != before) add(name, fmt::format("{}", value));
  };
  if (!options.candidate.empty()) words.push_back(options.candidate);
  if (options.attention.given()) add("--attention", options.attention.formula);
  for (const std::string& pair : options.attention.set) add("--set", pair);
  if (!options.attention.layers.empty()) add("--layers", options.attention.layers);
  for (const std::string& name : options.data) add("--data", name);
  add("--context", std::to_string(fidelity.context));
  add_changed("--max-tokens", fidelity.max_tokens, usual.max_tokens);
  add_changed("--batch-size", fidelity.batch_size, usual.batch_size);
  add_changed("--look-windows", fidelity.look_windows, usual.look_windows);
  add_changed("--look-tokens", fidelity.look_tokens, usual.look_tokens);
  if (options.memory_lengths != kMemoryLengths) add("--memory-lengths", options.memory_lengths);
  for (const std::string& task : options.tasks) add("--task", task);
  add_changed("--min-accuracy", given.min_accuracy, standard.min_accuracy);
  add_changed("--max-attention-mse", given.max_attention_mse, standard.max_attention_mse);
  add_changed("--min-gradient-cosine", given.min_gradient_cosine, standard.min_gradient_cosine);
  add_changed("--max-kl", given.max_kl, standard.max_kl);
  add_changed("--min-memory-saving", given.min_memory_saving, standard.min_memory_saving);
  if (given.max_perplexity_change)
    add("--max-perplexity-change", fmt::format("{}", *given.max_perplexity_change));
  add_changed("--seed", fidelity.seed, usual.seed);
  add("--threads", std::to_string(at::get_num_threads()));
  for (std::string& word : words) word = for_shell(word);
  return join(words, " ");
}

std::vector<DataText> read_texts(const CertifyRequest& options) {
  require(!options.data.empty(), "certify: no text to read; name one with --data");
  std::vector<DataText> texts;
  for (const std::string& name : options.data) {
    texts.push_back({name, read_file(name, kLargestFile)});
    require(!trim(texts.back().content).empty(), "{}: it is empty; expected a text", name);
  }
  return texts;
}

TextModel load_candidate(const CertifyRequest& options, const TextModel& baseline) {
  TextModel candidate =
      options.candidate.empty()
          ? TextModel{baseline.name, Transformer(baseline.model->twin()), baseline.tokenizer}
          : load_text_model(options.candidate);
  // A formula with projections of its own starts with random ones.
  torch::manual_seed(options.fidelity.seed);
  if (options.attention.given()) options.attention.apply(candidate.model, Path::automatic);
  return candidate;
}

Certificate certify(CertifyRequest options) {
  // What is wrong with the small arguments is found before a large model is loaded.
  require(!options.candidate.empty() || options.attention.given(),
          "certify: nothing to compare {} with; name a candidate, or a formula with --attention",
          options.model);
  if (options.attention.given()) options.attention.load();
  options.fidelity.memory_lengths = parse_lengths(options.memory_lengths);
  if (options.limits_perplexity) options.thresholds.max_perplexity_change = options.max_perplexity_change;
  options.fidelity.passkey = std::ranges::find(options.tasks, "passkey") != options.tasks.end();
  options.fidelity.recall = std::ranges::find(options.tasks, "recall") != options.tasks.end();
  const std::vector<DataText> texts = read_texts(options);

  TextModel baseline = load_text_model(options.model);
  TextModel candidate = load_candidate(options, baseline);
  for (const TextModel* each : {&baseline, &candidate})
    options.fidelity.context = with_context(
        each->name, [&] { return checked_context(each->model->architecture(), options.fidelity.context); });
  options.fidelity.look_tokens = std::min(options.fidelity.look_tokens, options.fidelity.context);
  std::optional<Progress> bar;
  options.fidelity.progress = [&](const std::string& what) -> OnProgress {
    bar.reset();
    return [&bar, what](int64_t done, int64_t total) {
      if (!bar) bar.emplace(total, what);
      bar->update(done);
    };
  };

  Certificate certificate{.options = options.fidelity,
                          .thresholds = options.thresholds,
                          .threads = at::get_num_threads(),
                          .command = command_of(options)};
  certificate.fidelity = measure_fidelity(baseline, candidate, texts, options.fidelity);
  bar.reset();
  certificate.options.progress = nullptr;
  certificate.criteria = judge(certificate.fidelity, options.thresholds);
  certificate.baseline = identify_model(baseline, find_model(options.model));
  certificate.candidate =
      identify_model(candidate, find_model(options.candidate.empty() ? options.model : options.candidate));
  if (options.attention.given()) {
    certificate.candidate.attention = options.attention.title();
    certificate.candidate.formula = options.attention.load().resolved();
  }
  for (const std::string& name : options.data) certificate.data.push_back(identify_file(name, name));
  return certificate;
}

ExitCode run(const CertifyRequest& options) {
  // Freed memory is not kept, as other commands do: it would count as held where memory is measured.
  if (options.threads > 0) at::set_num_threads(options.threads);
  const Certificate certificate = certify(options);
  const std::string json = dump(to_json(certificate), 2) + "\n";
  if (!options.out.empty()) {
    make_directories(options.out);
    write_atomic(fs::path(options.out) / "certificate.json", json);
    write_atomic(fs::path(options.out) / "certificate.html", to_page(certificate));
  }
  if (options.json) {
    write_output(json);
  } else {
    print("{} beside {}, {} of {}\n\n",
          certificate.candidate.attention.empty() ? certificate.candidate.name
                                                  : certificate.candidate.attention,
          certificate.baseline.name, plural(certificate.fidelity.text_tokens, "token"),
          join(options.data, ", "));
    write_output(to_text(certificate));
    if (!options.out.empty()) print("Written to {}: certificate.json and certificate.html.\n", options.out);
  }
  return passed(certificate.criteria) ? ExitCode::success : ExitCode::check_failed;
}

void declare_thresholds(CLI::App& app, CertifyRequest& options) {
  FidelityThresholds& thresholds = options.thresholds;
  const auto share = [&](const char* name, double& value, const char* what) {
    app.add_option(name, value, what)->check(CLI::Range(-1.0, 2.0))->capture_default_str();
  };
  const auto size = [&](const char* name, double& value, const char* what) {
    return app.add_option(name, value, what)->check(kNotBelowZero);
  };
  share("--min-accuracy", thresholds.min_accuracy,
        "Share of the baseline's accuracy to keep, and of tokens on which both must agree");
  size("--max-attention-mse", thresholds.max_attention_mse, "Mean squared difference of attention weights")
      ->capture_default_str();
  share("--min-gradient-cosine", thresholds.min_gradient_cosine, "Cosine of gradients in every layer");
  size("--max-kl", thresholds.max_kl, "Mean KL to the baseline, in nats")->capture_default_str();
  share("--min-memory-saving", thresholds.min_memory_saving,
        "Share of the attention's memory to save against the naive path");
  size("--max-perplexity-change", options.max_perplexity_change,
       "Share by which perplexity may rise; nothing is demanded by default")
      ->each([&options](const std::string&) { options.limits_perplexity = true; });
}

}  // namespace

Work declare_certify(CLI::App& app) {
  const auto options = std::make_shared<CertifyRequest>();
  FidelityOptions& fidelity = options->fidelity;
  app.add_option("model", options->model,
                 "The baseline: a model's directory, GGUF file or name, or the folder of a run")
      ->type_name("MODEL")
      ->required();
  app.add_option("candidate", options->candidate,
                 "The model to certify, named in the same ways; with --attention it may be left out")
      ->type_name("CANDIDATE");
  options->attention.declare(app);
  app.add_option("--data", options->data,
                 "Texts that both models read; no window reaches from one into the next")
      ->type_name("FILE");
  app.add_option("--context", fidelity.context,
                 "Tokens in a window; the model's own context by default, at most 1024")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 24));
  app.add_option("--max-tokens", fidelity.max_tokens, "Use only so many tokens of each text")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 50));
  app.add_option("--batch-size", fidelity.batch_size,
                 "Windows that are read together; the numbers stay the same")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}))
      ->capture_default_str();
  app.add_option("--look-windows", fidelity.look_windows,
                 "Windows in which attention weights and gradients are compared")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}))
      ->capture_default_str();
  app.add_option("--look-tokens", fidelity.look_tokens, "Tokens of these windows")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 16))
      ->capture_default_str();
  app.add_option("--memory-lengths", options->memory_lengths,
                 "Tokens at which the attention's memory is measured; empty: not at all")
      ->type_name("LIST")
      ->capture_default_str();
  app.add_option("--task", options->tasks, "Also find again what was hidden in a text: passkey, recall")
      ->check(CLI::IsMember({"passkey", "recall"}))
      ->delimiter(',');
  declare_thresholds(app, *options);
  app.add_option("--out", options->out, "Where certificate.json and certificate.html go")->type_name("DIR");
  app.add_option("--seed", fidelity.seed, "Seed of what is drawn: masks, pass keys, a formula's projections")
      ->capture_default_str();
  app.add_option("--threads", options->threads, "Threads; torch's choice by default")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace saccade
