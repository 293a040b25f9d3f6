// The keys that the heads of a group read together, where few queries make reading the keys most of the work:
// all of them, or those that the list of any of the heads names.
#pragma once

#include <vector>

#include "saccade/kernels/arrays.h"
#include "saccade/kernels/workspace.h"

namespace saccade::kernels {

class StackedKeys {
 public:
  // With lists all queries must have the same one.
  explicit StackedKeys(const Inputs& inputs);

  // The keys of a (sequence, key head) pair.
  int64_t count(int64_t pair) const {
    return picks_ ? counts_[static_cast<size_t>(pair)] : inputs_.shape.keys;
  }
  // Their numbers, ascending; places past the last, up to the end of a panel, repeat it. Null: all keys.
  const int32_t* numbers(int64_t pair) const { return picks_ ? numbers_ + pair * stride_ : nullptr; }

 private:
  void unite(int64_t pair, uint8_t* marks);

  const Inputs& inputs_;
  bool picks_;
  int64_t stride_ = 0;  // of a pair's numbers
  Workspace memory_;
  int32_t* numbers_ = nullptr;
  std::vector<int64_t> counts_;
};

}  // namespace saccade::kernels
