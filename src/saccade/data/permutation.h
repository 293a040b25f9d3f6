// The order in which training goes through its rows: any place of it can be asked for at once, and nothing is
// kept in memory, however many rows there are.
#pragma once

#include <array>
#include <cstdint>

namespace saccade {

/// A pseudo-random order of 0, ..., size-1, given by a seed and the number of the epoch.
class Permutation {
 public:
  Permutation(int64_t size, uint64_t seed, int64_t epoch);

  /// The element at a place; both are in [0, size).
  int64_t operator()(int64_t place) const;

 private:
  uint64_t size_;
  int half_bits_ = 0;
  std::array<uint64_t, 6> keys_{};
};

}  // namespace saccade
