// A toy pair of languages: sentences of a small English, and what they are in a made-up language with another
// order of words and endings that agree.
#pragma once

#include <cstdint>
#include <string>

#include "saccade/base/random.h"

namespace saccade {

struct TranslationPair {
  std::string source, target;
};

/// A sentence of 1 to `most_clauses` clauses, and its translation, which follows from it by rules without
/// exceptions. Give each number of sentence its own stream: RandomStream(seed, "train").split("17").
TranslationPair write_translation(int64_t most_clauses, RandomStream random);

}  // namespace saccade
