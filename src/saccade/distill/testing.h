// A text for the small random models of this rung's tests.
#pragma once

#include "saccade/base/random.h"
#include "saccade/base/testing.h"
#include "saccade/distill/distillation.h"
#include "saccade/sparse/testing.h"

namespace saccade {

inline TokenIds random_text(int64_t tokens, uint64_t seed = 1) {
  RandomStream random(seed, "text");
  TokenIds text;
  for (int64_t index = 0; index < tokens; ++index) text.push_back(static_cast<int32_t>(random.below(60)));
  return text;
}

}  // namespace saccade
