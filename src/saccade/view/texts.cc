// The special tokens that a tokenizer puts around a text are part of what the model reads, and are shown.
#include "saccade/view/texts.h"

#include <torch/types.h>

#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/text/piece.h"

namespace saccade {

ViewedText read_text(const TextModel& model, const std::string& text, int64_t most) {
  const std::vector<int32_t> ids = model.tokenizer.encode(text);
  const auto count = static_cast<int64_t>(ids.size());
  require(count > 0, "view: the text has no tokens; expected at least one");
  const int64_t longest = std::min(most, model.model->architecture().context);
  require(count <= longest, "view: the text has {}; at most {} are shown", plural(count, "token"), longest);
  ViewedText result;
  result.ids = torch::tensor(std::vector<int64_t>(ids.begin(), ids.end()), torch::kLong);
  for (const int32_t id : ids) result.pieces.push_back(piece_of(model.tokenizer, id));
  return result;
}

}  // namespace saccade
