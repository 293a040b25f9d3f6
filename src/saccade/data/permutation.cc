// A Feistel network is a bijection of the numbers of 2k bits, whatever it does to each half. Of these there
// are fewer than four times as many as wanted: what falls outside is sent through again until it falls
// inside.
#include "saccade/data/permutation.h"

#include <algorithm>
#include <bit>
#include <string>

#include "saccade/base/error.h"
#include "saccade/base/random.h"
#include "saccade/data/hash.h"

namespace saccade {

Permutation::Permutation(int64_t size, uint64_t seed, int64_t epoch) : size_(static_cast<uint64_t>(size)) {
  invariant(size > 0 && epoch >= 0, "an order needs something to put in order");
  const int bits = 64 - std::countl_zero(size_ - 1);
  half_bits_ = std::max(1, (bits + 1) / 2);
  RandomStream random = RandomStream(seed, "order").split(std::to_string(epoch));
  for (uint64_t& key : keys_) key = random.next();
}

int64_t Permutation::operator()(int64_t place) const {
  invariant(place >= 0 && static_cast<uint64_t>(place) < size_, "a place beyond the end of an order");
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<uint64_t>(place);
  do {
    uint64_t left = value >> half_bits_, right = value & mask;
    for (const uint64_t key : keys_) {
      const uint64_t next = (left ^ hash_number(right ^ key)) & mask;
      left = right;
      right = next;
    }
    value = left << half_bits_ | right;
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

}  // namespace saccade
