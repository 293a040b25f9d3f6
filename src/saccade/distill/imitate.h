// A model with another attention learns to say what the model itself says: chosen weights are trained on the
// divergence between the two, everything else is frozen. With a fixed window and the MLPs free to adapt, this
// is the experiment that learned masks set out from.
#pragma once

#include "saccade/base/json.h"
#include "saccade/distill/teacher.h"

namespace saccade {

struct Imitation {
  int64_t epochs = 100;
  double rate = 1e-4;
  std::vector<std::string> learn = {"mlp"};  // parameters whose names have one of these parts between dots
  std::vector<int64_t> layers;               // in these layers only; empty: in all
  uint64_t seed = 1;
  std::function<void(const Json&)> on_epoch;
  std::function<bool()> stop;
};

struct ImitationEpoch {
  int64_t epoch = 0;                 // 0: before any training
  double learned = 0, held_out = 0;  // divergence
};

// `teachers` speak for the unchanged model, whose head the model still has. The divergence on held-out texts
// (none are needed) is watched. Training stops where a loss is not finite, with the state before it.
std::vector<ImitationEpoch> imitate(Transformer model, std::span<const TokenIds> texts,
                                    std::span<const Teacher> teachers, std::span<const TokenIds> held_out,
                                    std::span<const Teacher> held_out_teachers, const Imitation& options);

}  // namespace saccade
