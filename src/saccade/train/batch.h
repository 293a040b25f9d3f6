// Sequences of a data set as tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "saccade/data/dataset.h"

namespace saccade {

struct Batch {
  at::Tensor ids, targets;  // [batch, tokens]; kNoTarget where the next token is of another document
  at::Tensor documents;     // [batch, tokens]; undefined when each sequence is of one document
  at::Tensor answers;  // [batch, tokens], true where the target can be known for certain; may be undefined
  int64_t first = 0;   // the number of the first sequence
  int64_t scored = 0;  // tokens that have a target

  int64_t tokens() const { return ids.numel(); }
};

// The sequences [first, first + count) of a data set.
Batch read_batch(const Dataset& data, int64_t first, int64_t count, bool separate_documents);

}  // namespace saccade
