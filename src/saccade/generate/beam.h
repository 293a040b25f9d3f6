// Beam search: the most likely continuations, as far as a bounded number of unfinished ones finds them. It
// knows logits only, so that it serves language models and encoder-decoders alike. Scores and the time to end
// are those of `transformers`.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace saccade {

struct BeamOptions {
  int64_t beams = 4;  // unfinished continuations of each sequence that are followed
  int64_t n_best = 1;
  int64_t max_new_tokens = 100;
  std::vector<int64_t> limits;  // the same for each sequence by itself; empty: max_new_tokens for all
  double length_penalty = 1;    // score = sum of log-probabilities / length ^ length_penalty
  // End as soon as there are `beams` finished ones; otherwise when no unfinished one could be better at its
  // length.
  bool early_stopping = false;
  std::vector<int64_t> end_ids;
};

struct Hypothesis {
  std::vector<int64_t> ids;    // the new tokens, with the end
  double log_probability = 0;  // the sum over them
  double score = 0;
  bool ended = false;  // by one of end_ids
};

// Row r continues what was row rows[r] of the call before with the token ids[r]; returns logits [rows,
// vocabulary]. The rows of a sequence that is done are not among them.
using BeamStep = std::function<at::Tensor(const at::Tensor& ids, const at::Tensor& rows)>;

// `logits` [sequences, vocabulary] are those of the first new token. For each sequence the n_best hypotheses,
// or fewer if there are no more, best first. A sequence's result does not depend on the others.
std::vector<std::vector<Hypothesis>> beam_search(const at::Tensor& logits, const BeamStep& step,
                                                 const BeamOptions& options);

}  // namespace saccade
