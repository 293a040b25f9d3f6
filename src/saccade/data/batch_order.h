// Which sequences each step of a training reads. Like the sequences themselves, it is a matter of the step's
// number alone.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "saccade/data/dataset.h"

namespace saccade {

/// All members may be called from several threads.
class BatchOrder {
 public:
  virtual ~BatchOrder() = default;

  /// Numbers for Dataset::read.
  virtual std::vector<int64_t> sequences(int64_t step) const = 0;
};

/// So many at a time, one after another.
std::shared_ptr<const BatchOrder> consecutive_batches(int64_t sequences);

/// Sequences of about the same length together, as many as fill `tokens` with the longest of them: short ones
/// are not padded to the length of a long one. All come once in each epoch, in another order and with other
/// neighbours each time. Throws Error for data without an end.
std::shared_ptr<const BatchOrder> bucketed_batches(const Dataset& data, int64_t tokens, uint64_t seed);

}  // namespace saccade
