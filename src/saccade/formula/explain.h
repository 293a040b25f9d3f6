// Says in words what a plan holds: what the formula computes, its derivatives, how often each part runs, what
// is skipped, whether it decodes and why, and what it costs at a given length.
#pragma once

#include <string>

#include "saccade/base/json.h"
#include "saccade/formula/formula.h"

namespace saccade {

struct ExplainOptions {
  int64_t length = 4096;  // n, for tiles and costs
  int64_t tile = 64;      // side of a tile
  int64_t width = 64;     // d_k and d_v, for costs
  bool program = false;   // list the instructions too
};

// Sections with a title line each, indented by two blanks.
std::string explain(const Formula& formula, const ExplainOptions& options);
Json explain_json(const Formula& formula, const ExplainOptions& options);

}  // namespace saccade
