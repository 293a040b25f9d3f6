// Training all scorers together by what the model says in the end. The choice is made soft: a far key's score
// gets the logarithm of a gate between 0 and 1 added, the gate is a sigmoid of how far the estimate is above
// the head's threshold, and it hardens as training goes on; at the end what is computed is the hard choice,
// and only the gradient is the soft one's. Weights of the model stay as they are.
#pragma once

#include "saccade/distill/distillation.h"

namespace saccade {

struct FineTuned {
  bool kept = false;             // the result is better on held-out text, at the density that it had
  int64_t steps = 0;             // of the state that was kept
  double before = 0, after = 0;  // held-out loss, soft choice included: divergence + price * density
  bool stepped_back = false;     // training became unstable, and the best state before that was taken
};

// All numbers of the scorers, thresholds included, by layer; for taking a step back.
using ScorerStates = std::vector<std::vector<at::Tensor>>;
ScorerStates states_of(const Selectors& selectors);
void restore(const Selectors& selectors, const ScorerStates& states);

// Selectors must be low-rank ones. They are left in the best state that held-out text has seen.
FineTuned fine_tune(Transformer model, const Selectors& selectors, const TextWindows& windows,
                    const FineTuning& options, const DistillRun& run);

}  // namespace saccade
