// A transformer that answers questions about tokens, batch by batch, without ever holding the logits of a
// whole window.
#pragma once

#include "saccade/evaluate/questions.h"
#include "saccade/models/transformer.h"

namespace saccade {

// A reader that keeps the model, with the attention and the precision that it has at each call. Sequences of
// one batch are filled up to the longest; those of other lengths are kept apart when a formula reads n, which
// the filling would change. So a batch gives the numbers that its sequences give one by one.
Reader reader_of(Transformer model, int64_t batch_size = 4);

// The logits of a classifier for texts of any lengths, [texts, labels], in double precision or single.
at::Tensor classify(Transformer model, std::span<const std::vector<int32_t>> texts, int64_t batch_size = 4);

// How long a window may be: `wanted`, or for 0 what the model was made for, at most 1024. Throws Error for
// more than the model was made for; `extend` allows it where positions are rotary.
int64_t checked_context(const Architecture& architecture, int64_t wanted, bool extend = false);

}  // namespace saccade
