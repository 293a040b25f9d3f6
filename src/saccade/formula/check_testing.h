// What the tests of names and types share: a formula's errors, and its outputs as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "saccade/formula/formula.h"

namespace saccade {

// The messages of all errors, in their order.
inline std::vector<std::string> errors(std::string_view text, const Overrides& set = {}) {
  try {
    Formula::parse(text, {.name = "my.attn", .set = set});
    return {};
  } catch (const FormulaError& error) {
    std::vector<std::string> result;
    for (const Diagnostic& diagnostic : error.diagnostics()) result.push_back(diagnostic.message);
    return result;
  }
}

// The errors as a user sees them.
inline std::string shown(std::string_view text, const Overrides& set = {}) {
  try {
    Formula::parse(text, {.name = "my.attn", .set = set});
    return "no error";
  } catch (const FormulaError& error) {
    return error.what();
  }
}

inline Plan plan_of(std::string_view text, const Overrides& set = {}) {
  return Formula::parse(text, {.name = "my.attn", .set = set}).plan();
}

inline std::string mask_of(std::string_view text) {
  const Plan plan = plan_of(text);
  return plan.graph.print(plan.mask, {});
}

inline std::string score_of(std::string_view text, const Overrides& set = {}) {
  const Plan plan = plan_of(text, set);
  return plan.graph.print(plan.score, {});
}

}  // namespace saccade
