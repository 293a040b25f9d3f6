// Hands out units of work. Every thread has a share of neighbouring units, so that it works on what it has
// itself packed and what is still in its cache; a thread that is done takes from the shares of others.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace saccade::kernels {

class UnitQueue {
 public:
  UnitQueue(int64_t units, int threads) : shares_(static_cast<size_t>(threads)) {
    for (int thread = 0; thread < threads; ++thread) {
      Share& share = shares_[static_cast<size_t>(thread)];
      share.next = units * thread / threads;
      share.end = units * (thread + 1) / threads;
    }
  }

  // The next unit for a thread, or -1 when none is left.
  int64_t take(int thread) {
    const auto count = static_cast<int>(shares_.size());
    for (int turn = 0; turn < count; ++turn) {
      Share& share = shares_[static_cast<size_t>((thread + turn) % count)];
      if (share.next.load(std::memory_order_relaxed) >= share.end) continue;
      const int64_t unit = share.next++;
      if (unit < share.end) return unit;
    }
    return -1;
  }

 private:
  struct alignas(64) Share {  // a cache line of its own
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  std::vector<Share> shares_;
};

}  // namespace saccade::kernels
