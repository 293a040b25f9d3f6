// What random features cost: their error against exact attention, memory, time. The tables of
// docs/performer.md are printed from here.
#include <ATen/ops/scaled_dot_product_attention.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "saccade/attention/performer.h"
#include "saccade/attention/testing.h"
#include "saccade/base/text.h"

namespace saccade::performer_cost_test {
namespace {

using test::kInfinity;
using torch::Tensor;

Formula formula_of(bool causal) { return Formula::load(causal ? "causal" : "full"); }

TEST(PerformerCost, ErrorFallsWithTheRootOfTheFeatures) {
  for (const bool causal : {true, false}) {
    const auto table = performer_error_table(
        formula_of(causal),
        {.lengths = {64, 200}, .features = {16, 64, 256, 1024}, .logit_scales = {0.1}, .draws = 8});
    ASSERT_EQ(table.size(), 10u);
    for (size_t first = 1; first < table.size(); first += 5) {
      for (size_t place = first + 1; place < first + 4; ++place)
        EXPECT_LT(table[place].error, 0.75 * table[place - 1].error) << table[place].features << " features";
      const double slope = std::log(table[first + 3].error / table[first].error) / std::log(1024.0 / 16.0);
      EXPECT_NEAR(slope, -0.5, 0.1) << "length " << table[first].length;
    }
  }
}

TEST(PerformerCost, ErrorGrowsWithTheLogits) {
  const auto table = performer_error_table(
      formula_of(true), {.lengths = {128}, .features = {256}, .logit_scales = {0.1, 0.25, 0.5, 1}});
  for (size_t place = 3; place < table.size(); place += 2)
    EXPECT_GT(table[place].error, table[place - 2].error);
  EXPECT_GT(table.back().error, 1) << "docs/performer.md says so";
}

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

double seconds_of(const std::function<void()>& work, int repeats = 3) {
  double fastest = kInfinity;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    fastest =
        std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return fastest;
}

std::vector<Tensor> long_inputs(int64_t heads, int64_t tokens, int64_t width) {
  std::vector<Tensor> inputs;
  for (int place = 0; place < 3; ++place)
    inputs.push_back(torch::randn({1, heads, tokens, width}).requires_grad_());
  return inputs;
}

// Features of all tokens would take 64 MB here, a map of pairs 1 GB. Says something when it runs alone, as
// under ctest: the peak of a process never falls.
TEST(PerformerCost, KeepsNothingLargerThanItsInputs) {
  constexpr int64_t kTokens = 16384;
  const auto inputs = long_inputs(1, kTokens, 8);
  Performer performer(formula_of(true), AttentionOptions{.heads = 1, .head_dim = 8},
                      PerformerOptions{.features = 1024});
  const auto step = [&](int64_t tokens) {
    const auto part = [&](int place) { return inputs[static_cast<size_t>(place)].narrow(2, 0, tokens); };
    torch::autograd::grad({performer->forward(part(0), part(1), part(2)).sum()}, inputs);
  };
  step(256);  // what libraries take for themselves
  const double before = peak_megabytes();
  step(kTokens);
  EXPECT_LE(peak_megabytes() - before, 16);
}

// --- the tables of docs/performer.md; see there for how to print them

TEST(PerformerCost, DISABLED_PrintsErrors) {
  for (const bool causal : {true, false}) {
    const PerformerErrorOptions options;
    std::vector<std::string> header = {causal ? "causal, tokens" : "full, tokens", "logit scale", "mean"};
    for (const int64_t features : options.features) header.push_back(std::to_string(features));
    std::vector<std::string> row;
    fmt::print("| {} |\n|{}\n", join(header, " | "),
               join(std::vector<std::string>(header.size(), "---:|"), ""));
    for (const PerformerError& entry : performer_error_table(formula_of(causal), options)) {
      if (row.empty()) row = {std::to_string(entry.length), fmt::format("{}", entry.logit_scale)};
      row.push_back(fmt::format("{:.2g}", entry.error));
      if (row.size() < header.size()) continue;
      fmt::print("| {} |\n", join(row, " | "));
      row.clear();
    }
    fmt::print("\n");
  }
}

double megabytes_now() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return static_cast<double>(resident * sysconf(_SC_PAGESIZE)) / (1 << 20);
}

using Attend = std::function<Tensor(const std::vector<Tensor>& inputs)>;

// Longer and longer, so that the peak of memory is always that of the last length.
void print_times(const std::string& name, const Attend& attend) {
  for (int64_t tokens = 1024; tokens <= 16384; tokens *= 2) {
    const auto inputs = long_inputs(8, tokens, 64);
    const double before = megabytes_now(), old_peak = peak_megabytes();
    const double forward = seconds_of([&] {
      torch::NoGradGuard no_gradient;
      attend(inputs);
    });
    const double training = seconds_of([&] { torch::autograd::grad({attend(inputs).sum()}, inputs); });
    const double peak = peak_megabytes();
    const std::string memory = peak > old_peak ? fmt::format("{:.0f} MB", peak - before) : "not known";
    fmt::print("| {} | {} | {:.3f} s | {:.2f} s | {:.0f} us | {} |\n", name, tokens, forward, training,
               1e6 * training / static_cast<double>(tokens), memory);
    std::fflush(stdout);
  }
}

TEST(PerformerCost, DISABLED_PrintsTimes) {
  Performer performer(formula_of(true), AttentionOptions{.heads = 8, .head_dim = 64}, PerformerOptions{});
  fmt::print(
      "| | tokens | forward | training step | per token | more memory |\n|---|---:|---:|---:|---:|---:|\n");
  print_times("Performer", [&](const std::vector<Tensor>& inputs) {
    return performer->forward(inputs[0], inputs[1], inputs[2]);
  });
  print_times("exact", [](const std::vector<Tensor>& inputs) {
    return at::scaled_dot_product_attention(inputs[0], inputs[1], inputs[2], {}, 0, true);
  });
}

TEST(PerformerCost, DISABLED_PrintsDecodingTimes) {
  torch::NoGradGuard no_gradient;
  constexpr int64_t kHeads = 8, kWidth = 64;
  const AttentionOptions options{.heads = kHeads, .head_dim = kWidth};
  fmt::print("| tokens before | state | KvCache | exact attention, KvCache |\n|---:|---:|---:|---:|\n");
  for (const int64_t tokens : {256, 1024, 4096, 16384}) {
    Performer performer(formula_of(true), options, PerformerOptions{});
    Attention exact(formula_of(true), options);
    PerformerState state;
    KvCache cache = performer->make_cache();
    const auto prompt = long_inputs(kHeads, tokens, kWidth), fresh = long_inputs(kHeads, 1, kWidth);
    performer->forward(prompt[0], prompt[1], prompt[2], state);
    performer->forward(prompt[0], prompt[1], prompt[2], cache);
    const auto step = [&](auto& module, auto& memory) {
      return 1e3 * seconds_of([&] { module->forward(fresh[0], fresh[1], fresh[2], memory); }, 20);
    };
    const double by_state = step(performer, state), by_cache = step(performer, cache);
    fmt::print("| {} | {:.2f} ms | {:.2f} ms | {:.2f} ms |\n", tokens, by_state, by_cache,
               step(exact, cache));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace saccade::performer_cost_test
