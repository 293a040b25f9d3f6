// A text as the page shows it: its ids, and one piece of text for each.
#pragma once

#include <string>
#include <vector>

#include "saccade/generate/text_model.h"

namespace saccade {

struct ViewedText {
  at::Tensor ids;                   // [tokens]
  std::vector<std::string> pieces;  // what each token stands for, blanks included
};

// Throws Error for a text without tokens, and for one that is longer than `most` or the model's context.
ViewedText read_text(const TextModel& model, const std::string& text, int64_t most);

}  // namespace saccade
