// Keys and values ready for the products: a store packs whole heads for all tiles to share, a packer one
// block for one tile alone.
#pragma once

#include <memory>

#include "saccade/kernels/forward_tile.h"
#include "saccade/kernels/workspace.h"

namespace saccade::kernels {

template <class Real>
class KeyPacker {
 public:
  explicit KeyPacker(const CallContext<Real>& context);

  // Numbers of scratch that a block needs.
  int64_t size() const { return size_; }
  // Whether so many rows are too few to be worth panels, and keys can be read where they are.
  bool few(int64_t rows) const { return keys_in_place_ && rows <= context_.code.few_rows; }
  // A (sequence, key head) pair's keys [begin, end), at most kTileKeys of them.
  void pack(KeyBlock<Real>& block, int64_t pair, Range keys, bool few, Real* scratch) const;
  // The same for single keys anywhere; `picked` must live as long as the block.
  void pick(KeyBlock<Real>& block, int64_t pair, const int32_t* picked, int64_t count, bool few,
            Real* scratch) const;

 private:
  const CallContext<Real>& context_;
  template <class KeyOf>
  void point(KeyBlock<Real>& block, size_t vector, int64_t pair, const KeyOf& key_of) const;

  int64_t size_ = 0;
  bool values_in_place_, keys_in_place_;
  bool narrow_values_;  // read in bfloat16: for few queries a copy takes longer than it saves
};

template <class Real>
class KeyStore {
 public:
  explicit KeyStore(const CallContext<Real>& context);

  // How many (sequence, key head) pairs it holds at a time.
  int64_t capacity() const { return capacity_; }
  // Packs the pairs [first, first + count), in parallel.
  void pack(int64_t first, int64_t count);
  // The block of keys from `key` on, which must be at the beginning of a panel.
  void fill(KeyBlock<Real>& block, int64_t pair, int64_t key, int64_t count) const;

 private:
  const CallContext<Real>& context_;
  int64_t capacity_ = 1, first_ = 0;
  int64_t padded_keys_ = 0, pair_size_ = 0;
  std::vector<int64_t> offsets_;  // of each key vector's panels within a pair
  int64_t value_offset_ = 0;
  bool values_in_place_;
  int64_t value_stride_;  // of copies
  std::unique_ptr<Workspace> memory_;
};

}  // namespace saccade::kernels
