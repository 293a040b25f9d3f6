// The learning rate by step: up in a straight line, then down to a share of its highest value.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "saccade/train/recipe.h"

namespace saccade {

// Of step 0, 1, 2, ...
inline double learning_rate(const TrainOptions& options, int64_t step) {
  if (step < options.warmup)
    return options.lr * static_cast<double>(step + 1) / static_cast<double>(options.warmup);
  if (options.schedule == "constant") return options.lr;
  const double length = static_cast<double>(std::max<int64_t>(1, options.steps - options.warmup));
  const double share = std::min(1.0, static_cast<double>(step - options.warmup) / length);
  const double fall =
      options.schedule == "linear" ? 1 - share : 0.5 * (1 + std::cos(std::numbers::pi * share));
  return options.lr * (options.min_lr + (1 - options.min_lr) * fall);
}

}  // namespace saccade
