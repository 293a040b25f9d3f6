// Measurements side by side, for people and for programs: one column per attention, and how much the last
// differs from the first.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "saccade/base/json.h"
#include "saccade/evaluate/classification.h"
#include "saccade/evaluate/masked.h"
#include "saccade/evaluate/perplexity.h"
#include "saccade/evaluate/retrieval.h"
#include "saccade/evaluate/robustness.h"

namespace saccade {

// All that was measured of a model with one attention. All evaluations of a report have measured the same.
struct Evaluation {
  std::string attention;  // "own", or the name of the formula that was swapped in
  std::optional<Perplexity> perplexity;
  std::optional<Masked> masked;
  std::optional<Classification> classification;
  std::optional<Robustness> robustness;
  std::optional<Retrieval> retrieval;
};

struct ReportOptions {
  bool length_curve = false;
};

std::string report_text(std::span<const Evaluation> evaluations, const ReportOptions& options);
Json report_json(std::span<const Evaluation> evaluations);

}  // namespace saccade
