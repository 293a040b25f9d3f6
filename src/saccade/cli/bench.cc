// `saccade bench`: time of a formula's attention beside torch's own on the same shapes, in one process and
// interleaved, so that a busy machine slows both alike. Times are medians; ratios are what to look at.
#include <ATen/Parallel.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>

#include "saccade/attention/attention.h"
#include "saccade/base/error.h"
#include "saccade/base/json.h"
#include "saccade/base/progress.h"
#include "saccade/base/text.h"
#include "saccade/certify/problem.h"
#include "saccade/cli/command.h"
#include "saccade/cli/formula_options.h"
#include "saccade/cli/output.h"

namespace saccade {
namespace {

using torch::Tensor;

struct Options {
  FormulaOptions formula;
  std::vector<int64_t> lengths = {128, 256, 512, 1024};
  int64_t heads = 8;
  int64_t width = 64;
  int64_t repeats = 7;
  bool json = false;
};

double seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Timing {
  double ours, torch;       // medians
  double fastest, slowest;  // of ours / torch in single rounds
};

// A, B, A, B, ...: one warm-up round, then `repeats` that count.
Timing interleave(const std::function<void()>& ours, const std::function<void()>& rival, int64_t repeats) {
  std::vector<double> our_times, rival_times, ratios;
  for (int64_t round = 0; round <= repeats; ++round) {
    const double a = seconds(ours), b = seconds(rival);
    if (round == 0) continue;
    our_times.push_back(a);
    rival_times.push_back(b);
    ratios.push_back(a / b);
  }
  return {median(our_times), median(rival_times), std::ranges::min(ratios), std::ranges::max(ratios)};
}

struct Row {
  std::string formula, work;
  int64_t length;
  Timing timing;
};

std::vector<Row> measure(const Options& options, const std::string& file, int64_t length) {
  const Formula formula = options.formula.load(file);
  const Case c{.heads = options.heads,
               .kv_heads = options.heads,
               .queries = length,
               .keys = length,
               .head_dim = options.width,
               .value_dim = options.width};
  AttentionOptions attention_options = options_of(c);
  Attention attention(formula, attention_options);
  Problem problem = make_problem(formula, c, torch::kFloat);
  for (Tensor* tensor : {&problem.query, &problem.key, &problem.value}) tensor->requires_grad_(true);
  const bool causal = formula.plan().decoding.possible;
  const auto ours = [&] {
    return attention->forward(problem.query, problem.key, problem.value, problem.call);
  };
  const auto torch_sdpa = [&] {
    return at::scaled_dot_product_attention(problem.query, problem.key, problem.value, {}, 0, causal);
  };
  const auto forward_only = [](const auto& f) {
    return [&f] {
      torch::NoGradGuard no_gradient;
      f();
    };
  };
  const auto training_step = [&](const auto& f) {
    return [&f, &problem] {
      torch::autograd::grad({f().sum()}, {problem.query, problem.key, problem.value});
    };
  };
  return {
      {file, "forward", length, interleave(forward_only(ours), forward_only(torch_sdpa), options.repeats)},
      {file, "training step", length,
       interleave(training_step(ours), training_step(torch_sdpa), options.repeats)}};
}

ExitCode run(const Options& options) {
  std::vector<std::string> files = options.formula.files;
  if (files.empty()) files = {"causal", "prior"};
  for (const std::string& file : files) options.formula.load(file);
  std::vector<Row> rows;
  Progress progress(static_cast<int64_t>(files.size() * options.lengths.size()), "bench");
  for (const std::string& file : files)
    for (int64_t length : options.lengths) {
      for (Row& row : measure(options, file, length)) rows.push_back(std::move(row));
      progress.update(static_cast<int64_t>(rows.size() / 2), file);
    }
  progress.finish();
  if (options.json) {
    Json list = Json::array();
    for (const Row& row : rows)
      list.push_back({{"formula", row.formula},
                      {"work", row.work},
                      {"n", row.length},
                      {"seconds", row.timing.ours},
                      {"sdpa_seconds", row.timing.torch},
                      {"ratio", row.timing.ours / row.timing.torch},
                      {"ratio_low", row.timing.fastest},
                      {"ratio_high", row.timing.slowest}});
    print("{}\n", dump(list, 2));
    return ExitCode::success;
  }
  print(
      "{} heads of width {}, {}, median of {}; the rival is torch's scaled_dot_product_attention, causal "
      "where the formula is\n\n",
      options.heads, options.width, plural(at::get_num_threads(), "thread"), options.repeats);
  Table table({"formula", "path", "n", "work", "ms", "SDPA ms", "ours / SDPA", "spread"});
  for (const Row& row : rows)
    table.add({row.formula, std::string(name_of(choose_path(options.formula.load(row.formula)).path)),
               std::to_string(row.length), row.work, fmt::format("{:.2f}", 1e3 * row.timing.ours),
               fmt::format("{:.2f}", 1e3 * row.timing.torch),
               fmt::format("{:.2f}x", row.timing.ours / row.timing.torch),
               fmt::format("{:.2f}-{:.2f}", row.timing.fastest, row.timing.slowest)});
  write_output(table.print());
  return ExitCode::success;
}

}  // namespace

Work declare_bench(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  options->formula.declare(app, true);
  app.add_option("-n,--length", options->lengths, "Numbers of tokens")
      ->check(CLI::Range(int64_t{1}, int64_t{16384}))
      ->capture_default_str();
  app.add_option("--heads", options->heads, "Number of heads")
      ->check(CLI::Range(int64_t{1}, int64_t{256}))
      ->capture_default_str();
  app.add_option("--width", options->width, "Width of a head")
      ->check(CLI::Range(int64_t{1}, int64_t{256}))
      ->capture_default_str();
  app.add_option("--repeats", options->repeats, "Rounds that count")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}))
      ->capture_default_str();
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace saccade
