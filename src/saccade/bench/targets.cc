// The table of targets. Shapes are 8 heads of width 64 in single precision unless the name says otherwise;
// the longest ones have 2 heads, which changes no ratio and keeps the whole run short.
#include "saccade/bench/targets.h"

#include <cmath>

#include "saccade/base/error.h"

namespace saccade::bench {

namespace {

constexpr std::string_view kPlain = "plain forward", kCausal = "causal forward", kTraining = "training step",
                           kOneHead = "one head, one sequence", kPrior = "learnable prior",
                           kPrograms = "table and tile programs", kWindow = "window 256",
                           kDual = "GPAM and differential", kDecoding = "decoding with grouped heads",
                           kSparse = "sparse at density 0.25", kTuner = "tuned way through lists",
                           kShort = "bf16 storage", kFlex = "compiled FlexAttention";
constexpr double kLinear = 1.1;  // an exponent that still counts as linear

// A decay that reaches across the whole sequence: steeper ones underflow, which slows some rivals.
FormulaSource prior() { return {.name = "prior", .parameters = {{"alpha", 0.01}, {"beta", 1.1}}}; }
FormulaSource shipped(std::string name) { return {.name = std::move(name)}; }

Setup on(FormulaSource formula, Task task, Case shape, at::ScalarType dtype = at::kFloat) {
  return {.formula = std::move(formula), .task = task, .shape = shape, .dtype = dtype};
}

class Builder {
 public:
  // Ours against a rival on the same problem.
  void against(std::string_view row, std::string_view rival, const Setup& setup, double mark,
               Comparison comparison = Comparison::speedup) {
    const std::string what = comparison == Comparison::memory ? "memory" : "time";
    add(row, fmt::format("{}, {} against {}", describe(setup), what, rival), comparison, mark,
        {{"saccade", setup}, {std::string(rival), setup}});
  }
  // Ours against ours on another problem.
  void beside(std::string_view row, const Setup& setup, const Setup& baseline, double mark,
              Comparison comparison) {
    const std::string what = comparison == Comparison::held ? "bytes of keys and values" : "time";
    add(row, fmt::format("{}, {} beside {}", describe(setup), what, difference(setup, baseline)), comparison,
        mark, {{"saccade", setup}, {"saccade", baseline}});
  }
  // Ours as the tuner runs it against both ways that it can choose from.
  void chooses(std::string_view row, const Setup& setup, double mark) {
    Setup picking = setup, hiding = setup;
    picking.sparsity->gather = true;
    hiding.sparsity->gather = false;
    add(row,
        fmt::format("{}, density {}, time beside the better way", describe(setup), setup.sparsity->density),
        Comparison::choice, mark, {{"saccade", setup}, {"saccade", picking}, {"saccade", hiding}});
  }
  void grows(std::string_view row, const std::vector<Setup>& setups, Comparison comparison) {
    std::vector<Entry> entries;
    for (const Setup& setup : setups) entries.push_back({"saccade", setup});
    const std::string what = comparison == Comparison::time_growth ? "time" : "memory";
    add(row,
        fmt::format("{} to n={}, growth of {}", describe(setups.front()), setups.back().shape.keys, what),
        comparison, kLinear, std::move(entries));
  }
  std::vector<Target> take() { return std::move(targets_); }

 private:
  void add(std::string_view row, std::string name, Comparison comparison, double mark,
           std::vector<Entry> entries) {
    targets_.push_back({std::string(row), std::move(name), comparison, mark, std::move(entries)});
  }

  static std::string describe(const Setup& setup) {
    const Case& shape = setup.shape;
    std::string text = fmt::format("{} {} n={}", setup.formula.name, name_of(setup.task), shape.keys);
    if (shape.heads != 8) text += fmt::format(", {} head{}", shape.heads, shape.heads == 1 ? "" : "s");
    if (shape.kv_heads != shape.heads) text += fmt::format(", {} per key head", shape.heads / shape.kv_heads);
    if (shape.head_dim != 64) text += fmt::format(", width {}", shape.head_dim);
    if (setup.dtype == at::kBFloat16) text += ", bf16";
    if (setup.sparsity && setup.sparsity->key_tile == 1)
      text += fmt::format(", keys gathered per {} rows", setup.sparsity->query_tile);
    else if (setup.sparsity)
      text += fmt::format(", {} x {} blocks", setup.sparsity->query_tile, setup.sparsity->key_tile);
    return text;
  }
  static std::string difference(const Setup& setup, const Setup& baseline) {
    if (setup.dtype != baseline.dtype) return "fp32";
    return setup.sparsity ? "our dense" : "our " + baseline.formula.name;
  }

  std::vector<Target> targets_;
};

void forward_targets(Builder& build) {
  for (const int64_t n : {512, 1024, 4096})
    build.against(kPlain, "sdpa", on(shipped("full"), Task::forward, self_attention(n)), 1.2);
  for (const int64_t n : {1024, 4096})
    build.against(kPlain, "sdpa", on(shipped("full"), Task::forward, self_attention(n, 8, 128)), 1.1);
  for (const auto& [n, mark] : {std::pair(512, 2.3), {1024, 1.75}, {2048, 1.5}, {4096, 1.35}})
    build.against(kCausal, "sdpa", on(shipped("causal"), Task::forward, self_attention(n)), mark);
}

void training_targets(Builder& build) {
  for (const auto& [n, mark] : {std::pair(512, 2.3), {1024, 1.8}, {4096, 1.5}})
    build.against(kTraining, "sdpa", on(shipped("causal"), Task::training, self_attention(n)), mark);
  for (const int64_t n : {512, 1024, 4096})
    build.against(kTraining, "sdpa", on(shipped("full"), Task::training, self_attention(n)), 1.3);
  for (const auto& [name, mark] : {std::pair("causal", 1.8), {"full", 1.4}})
    build.against(kOneHead, "sdpa", on(shipped(name), Task::training, self_attention(4096, 1)), mark);
}

void prior_targets(Builder& build) {
  std::vector<Setup> lengths;
  for (const int64_t n : {1024, 2048, 4096}) {
    const Setup setup = on(prior(), Task::training, self_attention(n, n == 4096 ? 2 : 8));
    build.against(kPrior, "sdpa-built", setup, 12);
    build.against(kPrior, "sdpa-bias", setup, 5);
    if (n == 4096) build.against(kPrior, "sdpa-built", setup, 50, Comparison::memory);
    lengths.push_back(on(prior(), Task::training, self_attention(n, 2)));
  }
  build.grows(kPrior, lengths, Comparison::memory_growth);
}

void program_targets(Builder& build) {
  for (const Task task : {Task::forward, Task::training}) {
    const Case shape = self_attention(2048);
    const Setup baseline = on(shipped("causal"), task, shape);
    build.beside(kPrograms, on(shipped("alibi"), task, shape), baseline, 1.05, Comparison::cost);
    build.beside(kPrograms, on(five_instructions(), task, shape), baseline, 1.15, Comparison::cost);
    build.beside(kPrograms, on(eight_instructions(), task, shape), baseline, 1.25, Comparison::cost);
  }
}

void window_targets(Builder& build) {
  const auto window = [](int64_t n, int64_t heads) {
    return on({.name = "window", .set = {{"w", 256}}}, Task::forward, self_attention(n, heads));
  };
  build.against(kWindow, "sdpa-mask", window(4096, 8), 15);
  build.against(kWindow, "sdpa-mask", window(16384, 2), 50);
  build.grows(kWindow, {window(4096, 2), window(8192, 2), window(16384, 2)}, Comparison::time_growth);
}

void dual_targets(Builder& build) {
  for (const Task task : {Task::forward, Task::training})
    for (const int64_t n : {1024, 4096, 16384}) {
      const Case shape = self_attention(n, n == 16384 ? 2 : 8);
      const Setup baseline = on(shipped("causal"), task, shape);
      build.beside(kDual, on(shipped("gpam"), task, shape), baseline, 1.6, Comparison::cost);
      build.beside(kDual, on(shipped("diff"), task, shape), baseline, 1.8, Comparison::cost);
    }
}

void decoding_targets(Builder& build) {
  const Setup step = on(shipped("causal"), Task::decoding, self_attention(4096, 8, 64, 1));
  build.against(kDecoding, "sdpa", step, 3);
  build.against(kDecoding, "sdpa-folded", step, 1.7);
}

void sparse_targets(Builder& build) {
  for (const Task task : {Task::forward, Task::training}) {
    const Setup dense = on(shipped("full"), task, self_attention(8192, 2));
    const auto sparse = [&](int64_t query_tile, int64_t key_tile, double mark) {
      Setup setup = dense;
      setup.sparsity = {.density = 0.25, .query_tile = query_tile, .key_tile = key_tile};
      build.beside(kSparse, setup, dense, 1 / mark, Comparison::cost);
    };
    sparse(16, 1, 2.5);
    sparse(64, 1, 2.5);
    sparse(64, 64, 3);
  }
}

void tuner_targets(Builder& build) {
  for (const Task task : {Task::forward, Task::training})
    for (const double density : {0.1, 0.5, 0.9}) {
      Setup setup = on(shipped("causal"), task, self_attention(2048, 4));
      setup.sparsity = {.density = density, .query_tile = 64, .key_tile = 1};
      build.chooses(kTuner, setup, 1.03);
    }
}

void short_targets(Builder& build) {
  const auto both = [&](Task task, const Case& shape) {
    build.beside(kShort, on(shipped("causal"), task, shape, at::kBFloat16),
                 on(shipped("causal"), task, shape), 1, Comparison::cost);
  };
  for (const int64_t n : {1024, 4096}) both(Task::forward, self_attention(n));
  for (const int64_t n : {1024, 4096}) both(Task::training, self_attention(n));
  const Case step = self_attention(4096, 8, 64, 1);
  both(Task::decoding, step);
  build.beside(kShort, on(shipped("causal"), Task::decoding, step, at::kBFloat16),
               on(shipped("causal"), Task::decoding, step), 0.5, Comparison::held);
}

}  // namespace

FormulaSource five_instructions() {
  return {.name = "five instructions", .text = R"(
mask  = causal
score = max(abs(s * 0.9 + 0.1 * h), 0.2) - 0.001 * j
)"};
}

FormulaSource eight_instructions() {
  return {.name = "eight instructions", .text = R"(
mask  = causal
score = min(max(abs(s * 0.9 + 0.1 * h) - 0.001 * d, 0.1), 20) * 0.98 + 0.001 * j
)"};
}

bool is_met(Comparison comparison, double value, double mark) {
  const bool at_least = comparison == Comparison::speedup || comparison == Comparison::memory;
  return at_least ? value >= mark : value <= mark;  // neither holds for a NaN
}

std::string value_text(Comparison comparison, double value) {
  const bool exponent = comparison == Comparison::time_growth || comparison == Comparison::memory_growth;
  return exponent ? fmt::format("n^{:.2f}", value) : fmt::format("{:.2f}x", value);
}

std::string mark_text(Comparison comparison, double mark) {
  const bool at_least = comparison == Comparison::speedup || comparison == Comparison::memory;
  return (at_least ? ">= " : "<= ") + value_text(comparison, mark);
}

std::vector<TargetRow> target_rows() {
  return {{kPlain},
          {kCausal},
          {kTraining},
          {kOneHead},
          {kPrior},
          {kPrograms},
          {kWindow},
          {kDual},
          {kDecoding},
          {kSparse},
          {kTuner},
          {kShort},
          {kFlex, "bench/peers.py --targets"}};
}

std::vector<Target> targets(std::string_view only) {
  Builder build;
  for (const auto part : {forward_targets, training_targets, prior_targets, program_targets, window_targets,
                          dual_targets, decoding_targets, sparse_targets, tuner_targets, short_targets})
    part(build);
  std::vector<Target> all = build.take();
  std::erase_if(all, [&](const Target& target) {
    return target.row.find(only) == std::string::npos && target.name.find(only) == std::string::npos;
  });
  return all;
}

}  // namespace saccade::bench
