// How much a model's predictions suffer when what it has read is damaged: the first half of each window is
// corrupted, the second half stays clean and is what counts.
#pragma once

#include <string>

#include "saccade/evaluate/perplexity.h"

namespace saccade {

enum class Corruption { none, token_drop, token_swap, typos };
std::string_view name_of(Corruption corruption);

struct RobustnessOptions {
  int64_t context = 1024;  // tokens in a window before it is damaged
  int64_t windows = 32;    // at most, spread evenly over the texts
  int64_t batch_size = 4;
  std::vector<double> rates = {0.05, 0.1, 0.2};
  uint64_t seed = 1;
  OnProgress on_progress;
};

struct RobustnessPoint {
  Corruption corruption;
  double rate;
  Tally scored;
};

struct Robustness {
  RobustnessOptions options;
  int64_t windows = 0;
  std::vector<RobustnessPoint> points;  // the first is without damage

  std::string convention() const;
};

// All points score the same tokens. Throws Error when no text has four tokens.
Robustness measure_robustness(const Reader& reader, const Tokenizer& tokenizer,
                              std::span<const EncodedText> texts, const RobustnessOptions& options);

}  // namespace saccade
