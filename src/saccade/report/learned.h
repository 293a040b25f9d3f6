// What goes on inside a model, layer by layer and head by head: plots of a diagnosis, as `diagnose` writes it
// and as a training does in each line of diagnostics.jsonl.
#pragma once

#include <string>
#include <vector>

#include "saccade/report/field.h"
#include "saccade/report/fragment.h"

namespace saccade {

/// A diagnosis with the name of what was diagnosed.
struct NamedDiagnosis {
  std::string name;
  Field field;
};

/// Rank by layer, gradient norms, measures of heads as maps, what formulas learned. What a diagnosis does not
/// have is left out.
void add_ranks(Fragment& body, const std::vector<NamedDiagnosis>& found);
void add_gradients(Fragment& body, const std::vector<NamedDiagnosis>& found);
void add_heads(Fragment& body, const std::vector<NamedDiagnosis>& found);
/// Where each head of a layer has an alpha and a beta, the curves -|alpha d|^beta; and the weights by
/// distance alone, where they were measured.
void add_learned(Fragment& body, const std::vector<NamedDiagnosis>& found);

}  // namespace saccade
