// Turns, stopwatch and comparison.
#include "saccade/bench/rounds.h"

#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "saccade/attention/peak_memory.h"

namespace saccade::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The mean time of `times` runs in a row. Results are dropped inside: giving memory back is part of the cost.
double stopwatch(const Contestant& contestant, int64_t times) {
  const auto begin = Clock::now();
  for (int64_t index = 0; index < times; ++index) contestant.run();
  return seconds_since(begin) / static_cast<double>(times);
}

bool is_expected(const std::vector<Contestant>& contestants, size_t index) {
  return std::ranges::any_of(contestants,
                             [&](const Contestant& c) { return c.equal_to == static_cast<int>(index); });
}

// The first line of what torch says; the rest is a stack.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// The warm-up round. Keeps only those results that later contestants are compared with.
std::vector<Measurement> first_round(const std::vector<Contestant>& contestants, const RoundOptions& options,
                                     std::vector<double>& seconds) {
  std::vector<Measurement> measurements(contestants.size());
  std::vector<Results> kept(contestants.size());
  for (size_t index = 0; index < contestants.size(); ++index) {
    const Contestant& contestant = contestants[index];
    Measurement& measurement = measurements[index];
    try {
      Results results;
      const auto run = [&] { results = contestant.run(); };
      const auto begin = Clock::now();
      if (options.count_memory)
        measurement.bytes = peak_bytes(run);
      else
        run();
      seconds[index] = seconds_since(begin);
      if (!options.compare_values) continue;
      const int other = contestant.equal_to;
      if (other >= 0 && measurements[static_cast<size_t>(other)].failure.empty())
        measurement.error = relative_error(results, kept[static_cast<size_t>(other)]);
      if (is_expected(contestants, index)) kept[index] = std::move(results);
    } catch (const std::exception& error) {
      measurement = {.failure = first_line(error.what())};
    }
  }
  return measurements;
}

}  // namespace

std::vector<Measurement> measure(const std::vector<Contestant>& contestants, const RoundOptions& options) {
  std::vector<double> once(contestants.size());
  std::vector<Measurement> measurements = first_round(contestants, options, once);
  std::vector<int64_t> times(contestants.size(), 1);
  const auto runs = [&](size_t index) { return measurements[index].failure.empty(); };
  for (size_t index = 0; index < contestants.size(); ++index) {
    if (!runs(index) || once[index] > 10 * options.shortest) continue;
    const double warm = stopwatch(contestants[index], 1);  // the first run says little about a short one
    times[index] = std::clamp<int64_t>(std::llround(options.shortest / std::max(warm, 1e-7)), 1, 1000);
  }
  const auto begin = Clock::now();
  for (int64_t round = 0; round < options.repeats; ++round) {
    if (round >= options.fewest && seconds_since(begin) > options.seconds) break;
    // Of three or more, another one begins each time, and every second round goes the other way about: who
    // runs after whom shows in the caches.
    const auto count = static_cast<int64_t>(contestants.size());
    for (int64_t turn = 0; turn < count; ++turn) {
      const int64_t place = count < 3 ? turn : round % 2 == 0 ? round + turn : round - turn + count;
      const auto index = static_cast<size_t>(place % count);
      if (runs(index)) measurements[index].seconds.push_back(stopwatch(contestants[index], times[index]));
    }
  }
  return measurements;
}

double relative_error(const Results& found, const Results& expected) {
  double worst = -1;
  for (const auto& [name, tensor] : found) {
    const auto other = std::ranges::find(expected, name, &Results::value_type::first);
    if (other == expected.end() || !tensor.defined() || !other->second.defined()) continue;
    const at::Tensor a = tensor.detach().to(torch::kDouble), b = other->second.detach().to(torch::kDouble);
    if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
    if (a.numel() == 0) continue;
    const double scale = std::max(b.abs().max().item<double>(), 1e-30);
    const double error = (a - b).abs().max().item<double>() / scale;
    if (std::isnan(error)) return error;
    worst = std::max(worst, error);
  }
  return worst;
}

std::vector<double> ratios(const Measurement& above, const Measurement& below) {
  std::vector<double> result;
  for (size_t round = 0; round < std::min(above.seconds.size(), below.seconds.size()); ++round)
    result.push_back(above.seconds[round] / below.seconds[round]);
  return result;
}

}  // namespace saccade::bench
