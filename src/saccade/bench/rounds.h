// The measurement itself: contestants take turns (A B C A B C ...), so that a machine that is busy for a
// while slows all of them alike. The first round warms up, and since its time does not count it is also the
// one in which memory is counted and results are compared.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace saccade::bench {

// What a run computes, by name: "output", and in a training step the gradients by "query", "alpha" and so on.
using Results = std::vector<std::pair<std::string, at::Tensor>>;

struct Contestant {
  std::string name;
  std::function<Results()> run;
  int64_t held_bytes = 0;  // of what it keeps between runs: keys and values
  int equal_to = -1;       // the contestant, earlier in the list, whose results these must be; -1: none
};

struct RoundOptions {
  int64_t repeats = 7;         // rounds that count, at most
  int64_t fewest = 3;          // and at least, whatever they take
  double seconds = 1e9;        // no further round is begun after this time
  double shortest = 0.01;      // what is faster is run several times in a row, and their mean counts
  bool count_memory = true;    // in the first round
  bool compare_values = true;  // in the first round
};

struct Measurement {
  std::vector<double> seconds;  // of each round
  int64_t bytes = 0;            // peak, beyond what was there before
  double error = -1;            // the largest relative difference; -1: there was nothing to compare
  std::string failure;          // why it could not run; then all else is empty
};

std::vector<Measurement> measure(const std::vector<Contestant>& contestants, const RoundOptions& options);

// The largest difference between results of the same name, in units of the largest magnitude of `expected`;
// -1 when they have no name in common. Not finite where one of them has a NaN.
double relative_error(const Results& found, const Results& expected);

// Round by round, the time of one divided by the time of the other: steadier than a ratio of medians.
std::vector<double> ratios(const Measurement& above, const Measurement& below);

}  // namespace saccade::bench
