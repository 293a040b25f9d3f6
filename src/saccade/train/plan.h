// What a training would take, before anything is trained: parameters, work, memory, time on this machine.
#pragma once

#include <string>

#include "saccade/base/json.h"
#include "saccade/train/recipe.h"

namespace saccade {

struct TrainingPlan {
  int64_t vocabulary = 0, parameters = 0, embedding_parameters = 0, formula_parameters = 0;
  int64_t tokens_per_step = 0;
  double tokens = 0;  // of the whole training
  // Operations for one token, forward: two for each weight of a product, and those of attention at the
  // recipe's length. Training takes three times as many, or four when blocks are computed again.
  double forward_flops = 0, attention_flops = 0, flops = 0;  // the last: of the whole training
  int64_t weight_bytes = 0, gradient_bytes = 0, optimiser_bytes = 0, average_bytes = 0;
  int64_t activation_bytes = 0;  // of what is computed at once, from the measurement
  int64_t gradient_message_bytes =
      0;  // that each process sends and receives in a step, when there are several

  // Measured here: a forward and backward pass over random tokens.
  int64_t measured_tokens = 0;
  double measured_seconds = 0;
  int threads = 1;

  double tokens_per_second() const { return static_cast<double>(measured_tokens) / measured_seconds; }
  double flops_per_second() const { return flops / tokens * tokens_per_second(); }
  double seconds() const { return tokens / tokens_per_second(); }
  int64_t bytes() const {
    return weight_bytes + gradient_bytes + optimiser_bytes + average_bytes + activation_bytes;
  }
};

// Needs the size of the vocabulary, not the data. Throws Error when it cannot be known.
TrainingPlan plan_training(const Recipe& recipe);

Json to_json(const TrainingPlan& plan);
std::string describe(const Recipe& recipe, const TrainingPlan& plan);

}  // namespace saccade
