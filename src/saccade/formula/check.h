// From syntax to plan: resolves names, checks types, and lowers every expression into the graph. All errors
// of a file are found in one pass; an expression that is already wrong is not reported twice.
#pragma once

#include <map>
#include <string>

#include "saccade/formula/plan.h"

namespace saccade {

// New values for constants by name; "n" pins the number of keys.
using Overrides = std::map<std::string, double>;

// Fills everything that names and types determine; the analyses (`analysis.h`) fill the rest. The plan is
// meaningless when errors were recorded.
Plan check(const Syntax& syntax, const Overrides& overrides, Diagnostics& diagnostics);

}  // namespace saccade
