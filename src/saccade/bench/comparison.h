// Formulas beside the rivals that compute the same, over lengths: times, useful work, memory, differences and
// growth, as data. How it is shown is a matter of report.h.
#pragma once

#include <functional>

#include "saccade/bench/scene.h"
#include "saccade/bench/statistics.h"
#include "saccade/kernels/kernels.h"

namespace saccade::bench {

struct ComparisonOptions {
  std::vector<FormulaSource> formulas;
  std::vector<int64_t> lengths = {512, 1024, 2048};
  std::vector<Task> tasks = {Task::forward, Task::training};
  int64_t batch = 1, heads = 8, kv_heads = 0, width = 64;
  at::ScalarType dtype = at::kFloat;
  Path path = Path::automatic;
  double epsilon = 0;               // leave out tiles of less than this share of their rows' weight
  std::vector<std::string> rivals;  // none: all that compute the same, and SDPA as a yardstick
  RoundOptions rounds;
};

struct ComparisonRow {
  std::string formula;
  Task task;
  int64_t length;
  std::string contestant;
  std::string path;  // which of ours ran; empty for a rival
  Summary seconds;
  Summary ratio;                   // its time / ours, round by round
  double useful_gigaflops;         // per second
  int64_t bytes;                   // peak, beyond what was there before
  double error;                    // against ours; -1: not compared
  std::string failure;             // why there are no numbers
  kernels::ForwardReport skipped;  // of ours, in one forward pass
};

struct GrowthRow {
  std::string formula;
  Task task;
  std::string contestant;
  double time, memory;  // exponents of n
};

// `progress` is called after each group of rows with how many of how many are done.
std::vector<ComparisonRow> compare(const ComparisonOptions& options,
                                   const std::function<void(int64_t, int64_t)>& progress = {});

// For everything that ran at two lengths or more.
std::vector<GrowthRow> growth(const std::vector<ComparisonRow>& rows);

// What this machine makes of a product of two 2048 x 2048 float matrices, with torch's threads.
struct Peak {
  double gigaflops;   // per second
  double cores;       // so many ran at a time: fewer than threads when they had to share
  double arithmetic;  // gigaflops of multiply-adds that load and store nothing: no product can be faster
};
Peak measure_peak();

}  // namespace saccade::bench
