// What a certificate demands of a candidate, and what its measurements say to that.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "saccade/certify/fidelity.h"

namespace saccade {

struct FidelityThresholds {
  double min_accuracy = 0.95;  // of what the baseline gets right, and of what both agree on
  double max_attention_mse = 1e-4;
  double min_gradient_cosine = 0.95;
  double max_kl = 0.001;
  double min_memory_saving = 0.3;
  std::optional<double> max_perplexity_change;  // as a share; none: stated without a verdict
};

enum class Verdict {
  passed,
  failed,
  stated,          // nothing is demanded of it
  not_applicable,  // it could not be measured; `measured` says why
};
std::string_view name_of(Verdict verdict);

struct Criterion {
  std::string name;   // a key: "next_token_kl"
  std::string title;  // for people: "KL to the baseline"
  Verdict verdict = Verdict::stated;
  std::optional<double> value, threshold;
  std::string shown;     // the value as text, with its unit
  std::string demanded;  // "at most 0.001"; empty where nothing is
  std::string measured;  // a sentence: what exactly this is
};

// In the order in which they are shown. A value that is not a number fails.
std::vector<Criterion> judge(const Fidelity& fidelity, const FidelityThresholds& thresholds);

// Nothing failed, and at least one criterion passed.
bool passed(std::span<const Criterion> criteria);
// "certified: all 7 criteria pass", or which do not.
std::string verdict_of(std::span<const Criterion> criteria);

}  // namespace saccade
