// Padding stands behind the text, where a causal model does not look and the mask hides it from others.
#include "saccade/evaluate/batches.h"

#include <algorithm>

#include "saccade/base/error.h"

namespace saccade {

TokenBatch make_batch(std::span<const TokenIds* const> texts) {
  const auto shorter = [](const auto* a, const auto* b) { return a->size() < b->size(); };
  const auto [shortest, longest] = std::minmax_element(texts.begin(), texts.end(), shorter);
  const auto rows = static_cast<int64_t>(texts.size()), width = static_cast<int64_t>((*longest)->size());
  TokenBatch batch{.ids = torch::zeros({rows, width}, torch::kLong)};
  if ((*shortest)->size() < (*longest)->size()) batch.key_mask = torch::zeros({rows, width}, torch::kBool);
  for (int64_t row = 0; row < rows; ++row) {
    const TokenIds& text = *texts[static_cast<size_t>(row)];
    std::copy(text.begin(), text.end(), batch.ids.data_ptr<int64_t>() + row * width);
    if (batch.key_mask.defined())
      std::fill_n(batch.key_mask.data_ptr<bool>() + row * width, text.size(), true);
  }
  return batch;
}

bool length_matters(Transformer model) {
  for (int64_t layer = 0; layer < model->architecture().layers; ++layer)
    if (model->formula(layer).plan().uses_length()) return true;
  return false;
}

std::vector<std::pair<size_t, size_t>> batches_of(std::span<const TokenIds* const> texts, int64_t batch_size,
                                                  bool equal_lengths_only) {
  require(batch_size > 0, "evaluate: batches of {} texts; expected at least 1", batch_size);
  for (const TokenIds* text : texts) require(!text->empty(), "evaluate: a text without tokens");
  std::vector<std::pair<size_t, size_t>> batches;
  for (size_t first = 0; first < texts.size(); first = batches.back().second) {
    size_t end = first + 1;
    while (end < texts.size() && end - first < static_cast<size_t>(batch_size) &&
           (!equal_lengths_only || texts[end]->size() == texts[first]->size()))
      ++end;
    batches.emplace_back(first, end);
  }
  return batches;
}

}  // namespace saccade
