// Measures targets. Those that share a task and a shape are one group: what they have in common is measured
// once, and all of it in turns.
#pragma once

#include <functional>

#include "saccade/base/json.h"
#include "saccade/bench/statistics.h"
#include "saccade/bench/targets.h"

namespace saccade::bench {

// A contestant that differs from ours by more computes something else, or one of the two is wrong: then a
// time says nothing. Gradients of learned parameters are long sums, which torch takes in single precision.
inline constexpr double kLargestError = 5e-3;

struct Outcome {
  Target target;
  Summary value;      // of the processes; of one process, the spread of its rounds
  double error = -1;  // the largest difference from the rival's results; -1: it computes something else
  // Of useful work, where the target is about our time: what ours reached, and what would reach the mark.
  double gigaflops = 0, needed_gigaflops = 0;
  std::string failure;  // why there is no value
  bool agrees() const { return error <= kLargestError; }
  bool met() const {
    return failure.empty() && agrees() && is_met(target.comparison, value.median, target.mark);
  }
};

// In this process.
std::vector<Outcome> try_targets(const std::vector<Target>& targets, const RoundOptions& rounds,
                                 const std::function<void(int64_t, int64_t)>& progress = {});

// In so many processes one after the other, with the median of their values: `arguments` make this program do
// the above and print the outcomes as JSON.
std::vector<Outcome> try_in_processes(const std::vector<Target>& targets, int64_t processes,
                                      const std::vector<std::string>& arguments);

Json to_json(const std::vector<Outcome>& outcomes);

}  // namespace saccade::bench
