// Showing what was measured: as tables for people, as JSON for scripts.
#pragma once

#include "saccade/base/json.h"
#include "saccade/bench/comparison.h"
#include "saccade/bench/trial.h"

namespace saccade::bench {

// What the numbers were measured on.
struct Circumstances {
  int threads;
  Peak peak;
};

std::string comparison_text(const ComparisonOptions& options, const Circumstances& circumstances,
                            const std::vector<ComparisonRow>& rows);
Json comparison_json(const ComparisonOptions& options, const Circumstances& circumstances,
                     const std::vector<ComparisonRow>& rows);

std::string targets_text(const Circumstances& circumstances, const std::vector<Outcome>& outcomes);

}  // namespace saccade::bench
