// Texts of any lengths put together into batches, such that each gets the numbers it would get alone.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "saccade/models/transformer.h"

namespace saccade {

using TokenIds = std::vector<int32_t>;

// Texts filled up on the right to the longest.
struct TokenBatch {
  at::Tensor ids, key_mask;  // no mask when all are equally long
};
TokenBatch make_batch(std::span<const TokenIds* const> texts);

// Whether a formula of the model reads n, which filling up would change: then only texts of one length may be
// in a batch.
bool length_matters(Transformer model);

// Ranges [first, end) of neighbouring texts that go into one batch.
std::vector<std::pair<size_t, size_t>> batches_of(std::span<const TokenIds* const> texts, int64_t batch_size,
                                                  bool equal_lengths_only);

}  // namespace saccade
