// Setting every head so that the model as a whole keeps its budget on text that nothing was learned from:
// the sensitivities say where to save, held-out text says how much of the estimate is true, and what is too
// much is taken back until the budget holds.
#pragma once

#include "saccade/base/json.h"
#include "saccade/distill/sensitivity.h"

namespace saccade {

struct Goal {
  double divergence = 0;  // at most so much per token, in each range of positions; 0: `density` is the goal
  double density = 0;     // at most so many of the pairs
};

struct SolverOptions {
  int64_t tries = 7;
  // The held-out texts are a sample. So many standard deviations of the difference between it and another
  // sample of its size are left free: with 1.64, one text in twenty may need more than the budget.
  double doubt = 1.64;
  std::function<void(const Json&)> on_try;
};

struct RangeResult {
  int64_t begin = 0;
  double divergence = 0, density = 0;
  double margin = 0;  // by which share the divergence of other text may be larger, by `doubt`
};

struct Solution {
  bool found = false;                  // the goal holds on the held-out text
  bool saves = false;                  // and something is left out
  double divergence = 0, density = 0;  // over all held-out tokens and pairs
  std::vector<RangeResult> ranges;
  int64_t dense_heads = 0;  // heads that look at all keys, counted by range
  int64_t tries = 0;
};

// Divergence and density of the model with these selectors, by range.
struct HeldOutMeasure {
  double divergence = 0, density = 0;
  std::vector<RangeResult> ranges;
  std::vector<std::vector<double>> pieces;  // by range: the divergence of every piece of text
};
HeldOutMeasure measure_held_out(Transformer model, const Selectors& selectors,
                                std::span<const TokenIds> texts, std::span<const at::Tensor> dense_hidden);

// Sets every head by the estimate alone: about so much divergence in each range, give or take a factor of
// two.
void set_by_estimate(const Selectors& selectors, const Sensitivity& sensitivity, double divergence);

// Leaves the selectors set to the solution.
Solution solve(Transformer model, const Selectors& selectors, const Sensitivity& sensitivity,
               const Goal& goal, std::span<const TokenIds> held_out, std::span<const at::Tensor> dense_hidden,
               const SolverOptions& options);

}  // namespace saccade
