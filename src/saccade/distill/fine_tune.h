// Training all scorers together by what the model says in the end. The choice is made soft: a far key's score
// gets the logarithm of a gate between 0 and 1 added, the gate is a sigmoid of how far the estimate is above
// the head's threshold, and it hardens as training goes on; at the end what is computed is the hard choice,
// and only the gradient is the soft one's. Weights of the model stay as they are.
#pragma once

#include "saccade/distill/distillation.h"

namespace saccade {

struct FineTuning {
  int64_t steps = 40;
  double rate = 0.003;    // times the typical size of each tensor's numbers; thresholds in logarithms
  double output = 1;      // weight of the divergence of what the model says
  double hidden = 0;      // weight of the squared distance of what leaves each block, relative to its size
  double maps = 0;        // weight of the divergence of attention's own weights from the estimates
  double density = 0.02;  // price of a kept pair; it is adapted so that the density stays what it was
  double first_temperature = 1, last_temperature = 0.2;
  double hard_share = 0.25;  // of the steps, at the end, that compute the hard choice
  int64_t watch_every = 10;  // steps between looks at held-out text
  double unstable = 2;       // a held-out loss so many times the first's ends training
};

struct FineTuned {
  bool kept = false;             // the result is better on held-out text, at the density that it had
  int64_t steps = 0;             // of the state that was kept
  double before = 0, after = 0;  // held-out loss, soft choice included: divergence + price * density
  bool stepped_back = false;     // training became unstable, and the best state before that was taken
};

// Selectors must be low-rank ones. They are left in the best state that held-out text has seen.
FineTuned fine_tune(Transformer model, const Selectors& selectors, const TextWindows& windows,
                    const FineTuning& options, const DistillRun& run);

}  // namespace saccade
