// Adds to a formula a mask that is given per call, or takes one away, by writing it into the formula's text.
// A caller's mask then is an input like any other: gradients, skipped tiles and conformance follow from the
// formula as always, and no path of attention needs to know of a second kind of mask.
#pragma once

#include <cstdint>
#include <string>

#include "saccade/formula/formula.h"

namespace saccade {

enum class PairMask {
  allowed,  // Boolean; false hides the pair
  added,    // a number added to every scaled dot product, s and further streams alike; -inf hides the pair
};

struct MaskedFormula {
  Formula formula;
  std::string input;  // the new input's name: one that the formula did not have
};

// The input is [batch, head, query, key]. The formula's params, vectors and tokens stay as they are, under
// their names and in their order.
MaskedFormula with_pair_mask(const Formula& formula, PairMask kind);

// The same with an input [batch, token] of whole numbers, the document that each token belongs to: a pair of
// different documents is hidden.
MaskedFormula with_documents(const Formula& formula);

// The same with an input [head, tiles, keys] of numbers that are added to every scaled dot product: one list
// of them for each `tile` neighbouring queries.
MaskedFormula with_tile_gate(const Formula& formula, int64_t tile);

// The same formula where tokens may look ahead: `causal` is taken out of the mask, and all else stays. For an
// encoder, and for a decoder that looks at an encoder's output: there nothing is still to come.
Formula without_causal(const Formula& formula);

}  // namespace saccade
