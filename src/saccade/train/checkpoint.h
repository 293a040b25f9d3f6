// A training's state on disk: a model directory that any command can load, with the optimiser's memory beside
// it.
#pragma once

#include <filesystem>

#include "saccade/text/tokenizer.h"
#include "saccade/train/optimiser.h"

namespace saccade {

// What a training counts.
struct TrainingCounters {
  int64_t step = 0;  // steps that are done
  double best_loss = 0;
  int64_t best_step = -1;        // -1: nothing was validated
  int64_t without_progress = 0;  // validations since then
  double seconds = 0;            // of training, over all its parts
};

// A running average of all parameters, which often is the better model; empty when there is none.
class WeightAverage {
 public:
  WeightAverage(const Transformer& model, double decay);
  void update(int64_t step);
  // Exchanges the model's weights and the averaged ones.
  void swap();
  bool active() const { return decay_ > 0; }
  const std::map<std::string, at::Tensor>& values() const { return values_; }

 private:
  Transformer model_;
  double decay_;
  std::map<std::string, at::Tensor> values_;
};

struct TrainingState {
  Transformer model;
  Optimiser& optimiser;
  WeightAverage& average;
  TrainingCounters& counters;
};

// Into an empty folder. The model that is written is the average, if there is one.
void write_training_state(const TrainingState& state, const Tokenizer& tokenizer,
                          const std::filesystem::path& folder);
// Bit for bit what was written. Throws Error when it does not fit the model.
void read_training_state(const TrainingState& state, const std::filesystem::path& folder);

}  // namespace saccade
