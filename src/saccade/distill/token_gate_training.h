// Training the gate of one layer to foresee, from a token's key and value alone, the largest weight that a
// later query will give it. Nothing passes through the model: a layer learns from its own attention.
#pragma once

#include <span>

#include "saccade/distill/lessons.h"
#include "saccade/sparse/token_gate.h"

namespace saccade {

// One text, with n tokens.
struct GateLesson {
  at::Tensor key, value;  // [key heads, n, width]
  at::Tensor target;      // [heads, n]: the largest weight over groups of later queries to which it is far
  at::Tensor known;       // [n], bool: enough queries come later to tell
};

// `inputs` is one text without padding; its length must be a multiple of the query tile. The weight of a
// group of queries is that of a Lesson.
GateLesson make_gate_lesson(const Formula& formula, const PairInputs& inputs, const LessonOptions& options);

struct GateTraining {
  int64_t hidden = 32;
  int64_t steps = 300;
  double rate = 0.01;
  int64_t tokens_at_once = 512;
  uint64_t seed = 1;
};

// The mean loss over heads and known tokens: Huber's, of the logarithm.
double gate_loss(const TokenGate& gate, std::span<const GateLesson> lessons);

// A gate that has learned from these, and its mean losses in the first and the last tenth of the steps.
struct TrainedGate {
  TokenGate gate;
  double first_loss = 0, last_loss = 0;
};
TrainedGate train_gate(std::span<const GateLesson> lessons, const GateTraining& options);

}  // namespace saccade
