// Every list marks its keys, and what is marked is gathered.
#include "saccade/kernels/stacked_keys.h"

#include <algorithm>

#include "saccade/kernels/packing.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kAlone = 1 << 13;  // entries that one thread goes through before another has woken up

}  // namespace

StackedKeys::StackedKeys(const Inputs& inputs)
    : inputs_(inputs),
      picks_(inputs.lists && inputs.lists.gather),
      stride_(picks_ ? round_up(inputs.shape.keys + kMostPanel, 64) : 0),
      memory_(static_cast<size_t>(inputs.shape.batch * inputs.shape.key_heads * stride_) *
              (sizeof(int32_t) + sizeof(uint8_t))) {
  if (!picks_) return;
  const Shape& shape = inputs.shape;
  const int64_t pairs = shape.batch * shape.key_heads;
  numbers_ = reinterpret_cast<int32_t*>(memory_.data());
  auto* marks = reinterpret_cast<uint8_t*>(numbers_ + pairs * stride_);
  counts_.resize(static_cast<size_t>(pairs));
#pragma omp parallel for schedule(dynamic) if (pairs > 1 && shape.batch * shape.heads * shape.keys > kAlone)
  for (int64_t pair = 0; pair < pairs; ++pair) unite(pair, marks + pair * stride_);
}

void StackedKeys::unite(int64_t pair, uint8_t* marks) {
  const Shape& shape = inputs_.shape;
  const Lists& lists = inputs_.lists;
  const int64_t batch = pair / shape.key_heads, first_head = pair % shape.key_heads * shape.group();
  std::fill_n(marks, shape.keys, uint8_t{0});
  for (int64_t head = first_head; head < first_head + shape.group(); ++head) {
    const int32_t* starts = lists.starts + batch * lists.batch_stride + head * lists.head_stride;
    for (int64_t entry = starts[0]; entry < starts[1]; ++entry) {
      const int64_t key = lists.keys[entry] * lists.key_tile;
      std::fill(marks + key, marks + std::min(key + lists.key_tile, shape.keys), uint8_t{1});
    }
  }
  int32_t* numbers = numbers_ + pair * stride_;
  int64_t count = 0;
  for (int64_t key = 0; key < shape.keys; ++key) {
    numbers[count] = static_cast<int32_t>(key);
    count += marks[key];
  }
  counts_[static_cast<size_t>(pair)] = count;
  if (count > 0) std::fill_n(numbers + count, kMostPanel, numbers[count - 1]);
}

}  // namespace saccade::kernels
