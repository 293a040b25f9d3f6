// Candidates carry their logit until the last moment: every filter only compares, so that nothing is
// normalised twice. Top-p takes from a heap, since a sorted vocabulary would cost more than all other steps
// together.
#include "saccade/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "saccade/base/error.h"

namespace saccade {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

struct Scored {
  int64_t token;
  double logit;
};

// Of equally likely tokens the one with the lower id counts as more likely, so that the order is total.
bool less_likely(const Scored& a, const Scored& b) {
  return a.logit != b.logit ? a.logit < b.logit : a.token > b.token;
}

void penalise(std::vector<Scored>& scored, std::span<const int64_t> history, double penalty) {
  std::vector<int64_t> seen(history.begin(), history.end());
  std::ranges::sort(seen);
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (const int64_t token : seen) {
    if (token < 0 || token >= static_cast<int64_t>(scored.size())) continue;
    double& logit = scored[static_cast<size_t>(token)].logit;
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

void keep_top_k(std::vector<Scored>& scored, int64_t k) {
  if (k <= 0 || k >= static_cast<int64_t>(scored.size())) return;
  std::vector<double> logits;
  logits.reserve(scored.size());
  for (const Scored& each : scored) logits.push_back(each.logit);
  std::nth_element(logits.begin(), logits.begin() + (k - 1), logits.end(), std::greater<>());
  const double last = logits[static_cast<size_t>(k - 1)];
  std::erase_if(scored, [&](const Scored& each) { return each.logit < last; });
}

// Logits here are differences to the best one.
void keep_top_p(std::vector<Scored>& scored, double top_p) {
  if (top_p >= 1) return;
  double total = 0;
  for (const Scored& each : scored) total += std::exp(each.logit);
  std::vector<Scored> heap = std::move(scored);
  std::ranges::make_heap(heap, less_likely);
  scored.clear();
  for (double mass = 0; !heap.empty() && (scored.empty() || mass < top_p * total);) {
    std::ranges::pop_heap(heap, less_likely);
    mass += std::exp(heap.back().logit);
    scored.push_back(heap.back());
    heap.pop_back();
  }
}

}  // namespace

void SamplingOptions::check() const {
  require(temperature >= 0 && std::isfinite(temperature),
          "generate: the temperature is {}; expected 0 or more", temperature);
  require(top_k >= 0, "generate: top-k is {}; expected 0 (all tokens) or more", top_k);
  require(top_p > 0 && top_p <= 1, "generate: top-p is {}; expected more than 0, at most 1", top_p);
  require(min_p >= 0 && min_p <= 1, "generate: min-p is {}; expected 0 to 1", min_p);
  require(repetition_penalty > 0 && std::isfinite(repetition_penalty),
          "generate: the repetition penalty is {}; expected more than 0", repetition_penalty);
}

std::vector<Candidate> candidates(std::span<const float> logits, const SamplingOptions& options,
                                  std::span<const int64_t> history) {
  std::vector<Scored> scored;
  scored.reserve(logits.size());
  for (size_t token = 0; token < logits.size(); ++token) {
    require(!std::isnan(logits[token]), "generate: the model's logits hold a NaN, for token {}", token);
    scored.push_back({static_cast<int64_t>(token), logits[token]});
  }
  if (options.repetition_penalty != 1) penalise(scored, history, options.repetition_penalty);
  const auto top = std::ranges::max_element(scored, less_likely);
  require(top != scored.end() && std::isfinite(top->logit),
          "generate: the largest of the model's {} logits is {}; expected a finite number", logits.size(),
          top == scored.end() ? kNothing : top->logit);
  if (options.temperature == 0) return {{top->token, 1}};

  // Differences to the best, since a small temperature would make the logits themselves infinite.
  const double best = top->logit;
  for (Scored& each : scored) each.logit = (each.logit - best) / options.temperature;
  keep_top_k(scored, options.top_k);
  keep_top_p(scored, options.top_p);
  if (options.min_p > 0)
    std::erase_if(scored, [&](const Scored& each) { return std::exp(each.logit) < options.min_p; });

  double total = 0;
  std::vector<Candidate> result;
  result.reserve(scored.size());
  for (const Scored& each : scored) {
    const double weight = std::exp(each.logit);
    if (weight == 0) continue;
    total += weight;
    result.push_back({each.token, weight});
  }
  for (Candidate& each : result) each.probability /= total;
  return result;
}

int64_t choose_token(std::span<const float> logits, const SamplingOptions& options, RandomStream& random,
                     std::span<const int64_t> history) {
  const std::vector<Candidate> among = candidates(logits, options, history);
  if (among.size() == 1) return among.front().token;
  double left = random.uniform();
  for (const Candidate& each : among) {
    left -= each.probability;
    if (left < 0) return each.token;
  }
  return among.back().token;  // the probabilities summed to a little less than 1
}

}  // namespace saccade
