// How much memory a piece of work takes at its peak, beyond what was there before: tensors are counted by an
// allocator that stands in for torch's own, and the kernels' workspace by its own counter.
#pragma once

#include <cstdint>
#include <functional>

namespace saccade {

// Runs the work and returns its peak. What it leaves behind counts too: an output, gradients. Memory that
// libraries take past torch's allocator, such as a matrix library's packing buffers, is not seen. From the
// first call on the process uses the counting allocator; outside such calls it only passes requests on.
int64_t peak_bytes(const std::function<void()>& work);

// Bytes that this machine can still give to a process; 0 when it does not say.
int64_t available_bytes();

}  // namespace saccade
