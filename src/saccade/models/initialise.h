// Weights to start training from.
#pragma once

#include "saccade/models/transformer.h"

namespace saccade {

struct InitialWeights {
  uint64_t seed = 1;
  // Of the normal numbers in matrices; 0: one over the root of their inputs, which suits any width. What a
  // block adds to its input starts smaller by the root of twice the number of layers.
  double deviation = 0.02;
};

// Fills every parameter. A parameter's numbers depend on the seed, its name and its shape alone, so that two
// models with different attention start with the same weights everywhere else. What formulas declare keeps
// its declared value; the matrices of their vectors are drawn like all others.
void initialise(const Transformer& model, const InitialWeights& options);

}  // namespace saccade
