// Training the scorer of one layer to foresee what attention gives far keys. Nothing passes through the
// model: a layer learns from its own lessons.
#pragma once

#include <map>
#include <span>

#include "saccade/distill/lessons.h"
#include "saccade/sparse/low_rank.h"

namespace saccade {

struct ScorerTraining {
  int64_t rank = 32;
  int64_t steps = 100;
  double rate = 0.02;           // times the typical size of each tensor's numbers
  int64_t groups_at_once = 64;  // of a lesson in one step
  int64_t lessons_at_once = 3;
  uint64_t seed = 1;
};

// A start that needs no training: the best products of `rank` numbers for queries and keys of these
// covariances, through the roots of which the scores' errors are seen.
LowRankScorer starting_scorer(std::span<const PairInputs> texts, int64_t rank, int64_t pool, int64_t samples);

// The estimates of a lesson are off by so much: the sum over far keys of y - t log y, less what a perfect
// estimate has, for an average group and head.
double scorer_loss(const LowRankScorer& scorer, const Lesson& lesson);

// The gradient of the sum of all heads' losses, by the names that LowRankScorer gives its tensors.
std::map<std::string, at::Tensor> scorer_gradients(const LowRankScorer& scorer, const Lesson& lesson);

// Trains in place; returns the mean losses of the first and the last tenth of the steps.
struct TrainedScorer {
  double first_loss = 0, last_loss = 0;
};
TrainedScorer train_scorer(LowRankScorer& scorer, std::span<const Lesson> lessons,
                           const ScorerTraining& options);

}  // namespace saccade
