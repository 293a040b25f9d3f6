// What the page shows of a formula while someone writes it: its errors, what it computes, and its weights on
// tokens without content and on random ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "saccade/base/json.h"
#include "saccade/formula/plan.h"

namespace saccade {

// {"formula": text, "values": {name: value or list}, "tokens": n, "heads": n}
//
// A formula with mistakes is an answer, not a failure: {"errors": [{"message", "line", "column", "begin",
// "end"}], "text": all of them with carets}. Otherwise {"summary", "explain", "parameters", "decodes",
// "maps", "curves", "tiles"}; what cannot be shown is null, and "note" says why.
Json answer_formula(const Json& request);

// What the mask does to the tiles of an n x n map: {"side", "rows", "columns", "states": one letter per tile,
// e(mpty), f(ull) or m(ixed), row by row}. Empty tiles are those that the fused path leaves out.
Json tiles_of(const Plan& plan, int64_t tokens, int64_t head, int64_t heads);

// Floats as base64.
std::string packed(const at::Tensor& values);

}  // namespace saccade
