// Freed blocks wait in a short list: memory fresh from the system costs a page fault for every 4 KiB, which
// is more than the arithmetic of a short sequence.
#include "saccade/kernels/workspace.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

namespace saccade::kernels {
namespace {

constexpr size_t kMostBlocks = 16, kMostBytes = size_t{256} << 20, kAlignment = 4096;

struct Block {
  std::byte* data;
  size_t bytes;
};

struct Pool {
  std::mutex mutex;
  std::vector<Block> free;
  size_t free_bytes = 0;
  int64_t held = 0, peak = 0;
};

Pool& pool() {
  static Pool* const instance = new Pool;  // never destroyed: threads may outlive main
  return *instance;
}

void release(std::byte* data) { ::operator delete (data, std::align_val_t{kAlignment}); }

}  // namespace

Workspace::Workspace(size_t bytes) : needed_(bytes) {
  Pool& shared = pool();
  {
    const std::lock_guard lock(shared.mutex);
    // The smallest block that is large enough and not wastefully so.
    auto best = shared.free.end();
    for (auto it = shared.free.begin(); it != shared.free.end(); ++it)
      if (it->bytes >= bytes && it->bytes <= 2 * bytes + kAlignment &&
          (best == shared.free.end() || it->bytes < best->bytes))
        best = it;
    if (best != shared.free.end()) {
      data_ = best->data;
      bytes_ = best->bytes;
      shared.free_bytes -= bytes_;
      shared.free.erase(best);
    }
  }
  if (!data_) {
    bytes_ = std::max<size_t>((bytes + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
    data_ = static_cast<std::byte*>(::operator new (bytes_, std::align_val_t{kAlignment}));
  }
  const std::lock_guard lock(shared.mutex);
  shared.held += static_cast<int64_t>(needed_);
  shared.peak = std::max(shared.peak, shared.held);
}

Workspace::~Workspace() {
  Pool& shared = pool();
  const std::lock_guard lock(shared.mutex);
  shared.held -= static_cast<int64_t>(needed_);
  if (bytes_ > kMostBytes) {
    release(data_);
    return;
  }
  shared.free.push_back({data_, bytes_});
  shared.free_bytes += bytes_;
  while (shared.free.size() > kMostBlocks || shared.free_bytes > kMostBytes) {
    shared.free_bytes -= shared.free.front().bytes;
    release(shared.free.front().data);
    shared.free.erase(shared.free.begin());
  }
}

int64_t workspace_peak_bytes() {
  const std::lock_guard lock(pool().mutex);
  return pool().peak;
}

void reset_workspace_peak() {
  const std::lock_guard lock(pool().mutex);
  pool().peak = pool().held;
}

}  // namespace saccade::kernels
