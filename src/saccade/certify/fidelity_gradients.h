// Whether two models learn alike: the angle between the gradients of their losses, layer by layer.
#pragma once

#include <span>
#include <vector>

#include "saccade/evaluate/questions.h"
#include "saccade/models/transformer.h"

namespace saccade {

// Cosines of the baseline's gradient and the candidate's. Two gradients of 0 are alike; of 0 and another they
// are not.
struct LayerCosines {
  double input = 0;    // by what enters the attention, through the attention alone
  double weights = 0;  // by the four projections together, as one long vector
  double query = 0, key = 0, value = 0, output = 0;  // by the rows of each

  double lowest() const;  // of input and weights; NaN if one of them is
};

struct GradientFidelity {
  int64_t windows = 0, longest = 0;
  double baseline_loss = 0, candidate_loss = 0;  // mean over the questions, in nats
  std::vector<LayerCosines> layers;

  double lowest() const;  // over the layers
  double mean() const;    // of the layers' lowest
};

// Of the mean loss over the windows' questions. Both models must have the same layers and widths. What they
// are is left as it was: weights, gradients and `requires_grad`.
GradientFidelity compare_gradients(Transformer baseline, Transformer candidate,
                                   std::span<const Sequence> windows, const OnProgress& on_progress = {});

}  // namespace saccade
