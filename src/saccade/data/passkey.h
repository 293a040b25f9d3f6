// A number hidden among sentences that say nothing, and asked for at the end. The text alone; the evaluation
// of models uses it as well.
#pragma once

#include <cstdint>
#include <string>

#include "saccade/base/random.h"

namespace saccade {

/// How many sentences of filling there are before they come again.
size_t passkey_filling_count();

/// All of them, once.
std::string passkey_filling();

struct Passkey {
  std::string key;  // five digits
  size_t start;     // the sentence that the filling begins with
};
Passkey draw_passkey(RandomStream& random);

/// The text up to the place where the number should be said, without the space before it. At depth 0 the
/// number comes before the filling, at depth 1 after it.
std::string passkey_prompt(const Passkey& passkey, int64_t sentences, double depth);

}  // namespace saccade
