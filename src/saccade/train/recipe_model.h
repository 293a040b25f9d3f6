// The model that a recipe describes, with the recipe's formulas in its slots.
#pragma once

#include "saccade/models/transformer.h"
#include "saccade/train/recipe.h"

namespace saccade {

// With weights that are not yet set. Throws Error for a formula that cannot be trained: one that needs an
// input, or with which a token might see what it should predict.
Transformer make_model(const Recipe& recipe, const Architecture& architecture);

}  // namespace saccade
