// How different the tokens of a sequence still are: in a deep stack of attention they may come to point all
// in the same direction (rank collapse, oversmoothing), after which there is nothing left to attend to.
#pragma once

#include <ATen/core/Tensor.h>

namespace saccade {

// Of the tokens X [tokens, width] of a sequence, with singular values s1 >= s2 >= ...; the mean over
// sequences. NaN: not defined, as the similarity of a single token.
struct RankMeasures {
  double stable_rank;     // |X|F^2 / s1^2: 1 when one direction has it all
  double effective_rank;  // exp of the entropy of s / sum(s): how many directions are in use
  // The same two after the mean token was taken away: of what tells tokens apart.
  double centred_stable_rank, centred_effective_rank;
  double mean_residual;      // |X - 1 mean|F / |X|F: 0 when all tokens are equal
  double rank_one_residual;  // |X - best matrix of rank one|F / |X|F: 0 when all lie on one line
  double cosine;             // of two different tokens, mean over all pairs
  double token_norm;         // mean length of a token's vector
  // Part of |X|F^2 that the longest token has. Near 1, that token alone decides all ranks above.
  double longest_share;
};

// `x` is [batch, tokens, width]; computed in double precision.
RankMeasures measure_rank(const at::Tensor& x);

}  // namespace saccade
