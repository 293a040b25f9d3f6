// Sequences of a data set as tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "saccade/data/dataset.h"

namespace saccade {

struct Batch {
  at::Tensor ids, targets;  // [batch, tokens]; kNoTarget where the next token is of another document
  at::Tensor documents;     // [batch, tokens]; undefined when each sequence is of one document
  at::Tensor answers;  // [batch, tokens], true where the target can be known for certain; may be undefined
  at::Tensor source,
      source_mask;     // [batch, source tokens], and true where it is no padding; may be undefined
  int64_t first = 0;   // the number of the first sequence, for what is drawn at random
  int64_t scored = 0;  // tokens that have a target

  // Tokens that are read; padding is none, and of a translation its own tokens count.
  int64_t tokens() const { return source.defined() ? scored : ids.numel(); }
};

// The sequences [first, first + count) of a data set.
Batch read_batch(const Dataset& data, int64_t first, int64_t count, bool separate_documents);
// These sequences. They may differ in length: shorter ones are padded at their end, where nobody looks.
Batch read_batch(const Dataset& data, std::span<const int64_t> numbers, bool separate_documents);

}  // namespace saccade
