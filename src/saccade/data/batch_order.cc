// Lengths do not change, so batches are cut once; what changes from epoch to epoch is which of the sequences
// of equal length are in them, and their order.
#include "saccade/data/batch_order.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <string>

#include "saccade/base/error.h"
#include "saccade/base/random.h"
#include "saccade/data/permutation.h"

namespace saccade {
namespace {

class ConsecutiveBatches : public BatchOrder {
 public:
  explicit ConsecutiveBatches(int64_t sequences) : count_(sequences) {}
  std::vector<int64_t> sequences(int64_t step) const override {
    std::vector<int64_t> numbers(static_cast<size_t>(count_));
    std::iota(numbers.begin(), numbers.end(), step * count_);
    return numbers;
  }

 private:
  int64_t count_;
};

class BucketedBatches : public BatchOrder {
 public:
  BucketedBatches(const Dataset& data, int64_t tokens, uint64_t seed) : seed_(seed) {
    for (int64_t number = 0; number < data.size(); ++number) lengths_.push_back(data.length(number));
    std::vector<int64_t> sorted;
    for (const SequenceLength& length : lengths_) sorted.push_back(length.longest());
    std::ranges::sort(sorted);
    for (size_t begin = 0; begin < sorted.size();) {
      size_t end = begin + 1;
      while (end < sorted.size() && static_cast<int64_t>(end + 1 - begin) * sorted[end] <= tokens) ++end;
      begins_.push_back(begin);
      begin = end;
    }
  }

  std::vector<int64_t> sequences(int64_t step) const override {
    const auto batches = static_cast<int64_t>(begins_.size());
    const int64_t epoch = step / batches;
    const auto batch = static_cast<size_t>(Permutation(batches, seed_, epoch)(step % batches));
    const std::shared_ptr<const std::vector<int64_t>> order = order_of(epoch);
    const size_t end = batch + 1 < begins_.size() ? begins_[batch + 1] : order->size();
    return {order->begin() + static_cast<std::ptrdiff_t>(begins_[batch]),
            order->begin() + static_cast<std::ptrdiff_t>(end)};
  }

 private:
  std::shared_ptr<const std::vector<int64_t>> order_of(int64_t epoch) const {
    const std::lock_guard lock(mutex_);
    if (epoch == epoch_) return order_;
    RandomStream random = RandomStream(seed_, "buckets").split(std::to_string(epoch));
    // Of the two sides the longer decides; the shorter is kept alike too, but loosely, so that neighbours
    // change.
    struct Place {
      int64_t longest;
      double shorter;
      int64_t number;
    };
    std::vector<Place> places;
    for (size_t number = 0; number < lengths_.size(); ++number)
      places.push_back({lengths_[number].longest(),
                        static_cast<double>(lengths_[number].shortest()) + 3 * random.uniform(),
                        static_cast<int64_t>(number)});
    std::ranges::sort(places, [](const Place& a, const Place& b) {
      return std::tie(a.longest, a.shorter, a.number) < std::tie(b.longest, b.shorter, b.number);
    });
    auto order = std::make_shared<std::vector<int64_t>>();
    for (const Place& place : places) order->push_back(place.number);
    order_ = std::move(order);
    epoch_ = epoch;
    return order_;
  }

  uint64_t seed_;
  std::vector<SequenceLength> lengths_;
  std::vector<size_t> begins_;  // of the batches, in the order of lengths
  mutable std::mutex mutex_;
  mutable int64_t epoch_ = -1;  // that was asked for last, and its order
  mutable std::shared_ptr<const std::vector<int64_t>> order_;
};

}  // namespace

std::shared_ptr<const BatchOrder> consecutive_batches(int64_t sequences) {
  require(sequences >= 1, "data: batches of {} sequences; expected at least 1", sequences);
  return std::make_shared<ConsecutiveBatches>(sequences);
}

std::shared_ptr<const BatchOrder> bucketed_batches(const Dataset& data, int64_t tokens, uint64_t seed) {
  require(data.size() != Dataset::kEndless,
          "data: they have no end, and cannot be sorted by length; expected batches of so many sequences");
  require(data.size() >= 1 && tokens >= 1, "data: batches of {} tokens from {} sequences", tokens,
          data.size());
  return std::make_shared<BucketedBatches>(data, tokens, seed);
}

}  // namespace saccade
