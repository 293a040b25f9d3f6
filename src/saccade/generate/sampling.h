// Which token comes next, from the logits of one sequence: the filters that people know from `transformers`,
// in its order (repetition penalty, temperature, top-k, top-p, min-p), then one draw. Plain numbers, no
// tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "saccade/base/random.h"

namespace saccade {

struct SamplingOptions {
  double temperature = 0.8;  // 0: always the most likely token, of equally likely ones the lowest id
  int64_t top_k = 0;         // only the k most likely, and what ties with the last of them; 0: all
  double top_p = 1;          // only the fewest most likely tokens that together reach this probability
  double min_p = 0;          // only tokens at least this share as likely as the most likely one
  // Logits of tokens that occurred are divided by it if positive, otherwise multiplied.
  double repetition_penalty = 1;

  // Throws Error for values without a meaning.
  void check() const;
};

struct Candidate {
  int64_t token;
  double probability;
};

// The tokens that may be chosen. `history` is the prompt and what was generated since. With temperature 0,
// the one token. Throws Error when the logits hold a NaN or nothing but -infinity.
std::vector<Candidate> candidates(std::span<const float> logits, const SamplingOptions& options,
                                  std::span<const int64_t> history);

// Draws one of them; with temperature 0, `random` is not used.
int64_t choose_token(std::span<const float> logits, const SamplingOptions& options, RandomStream& random,
                     std::span<const int64_t> history);

}  // namespace saccade
