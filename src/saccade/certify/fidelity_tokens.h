// Two models that predict the same tokens: how far apart their distributions are, token by token, and how
// often each is right.
#pragma once

#include "saccade/evaluate/questions.h"
#include "saccade/models/transformer.h"

namespace saccade {

// The usual figures of a list of numbers. All are NaN if one of the numbers is not finite: a mean that leaves
// out what went wrong would hide it.
struct TokenSpread {
  double mean = 0, median = 0, p99 = 0, largest = 0;
};
// The p-th quantile is the smallest number that at least a share p of them does not exceed.
TokenSpread spread_of(std::vector<double> values);

struct TokenFidelity {
  int64_t windows = 0;
  int64_t same_top1 = 0;      // places where both find the same token most likely
  std::vector<double> kl;     // KL(baseline || candidate) in nats at each place that was compared
  Tally baseline, candidate;  // the answers to the windows' questions
  bool all_places = false;    // not only those with a question

  int64_t tokens() const { return static_cast<int64_t>(kl.size()); }
  double agreement() const { return static_cast<double>(same_top1) / static_cast<double>(tokens()); }
  double accuracy_kept() const { return candidate.accuracy() / baseline.accuracy(); }
  // 0.02: the candidate's perplexity is two per cent higher.
  double perplexity_change() const { return std::exp(candidate.mean_nll() - baseline.mean_nll()) - 1; }
};

struct TokenOptions {
  int64_t batch_size = 4;
  bool all_places = false;  // compare at every real token instead of those with a question
  OnProgress on_progress;
};

// Both models must have a head for the same tokens. Logits become double before anything is computed from
// them, and only those of a few rows are held at once.
TokenFidelity compare_tokens(Transformer baseline, Transformer candidate, std::span<const Sequence> windows,
                             const TokenOptions& options = {});

}  // namespace saccade
