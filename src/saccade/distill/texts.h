// A text cut into windows for different purposes, none of which see the others' tokens: to learn from, to
// measure sensitivities on, and to hold out.
#pragma once

#include "saccade/evaluate/divergence.h"

namespace saccade {

// So many windows of so many tokens.
struct WindowCount {
  int64_t tokens = 0, learn = 0, sense = 0, hold_out = 0;
};

struct TextWindows {
  std::vector<TokenIds> learn, sense, held_out;
};

// Fewer windows of a length where the text is short, but at least one of the first length for each purpose.
// Throws Error when it is too short for that.
TextWindows cut_windows(const TokenIds& text, std::span<const WindowCount> counts);

}  // namespace saccade
