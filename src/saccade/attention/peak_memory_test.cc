// What the counting allocator counts, and what it does not.
#include "saccade/attention/peak_memory.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "saccade/base/error.h"

namespace saccade::peak_memory_test {
namespace {

using at::Tensor;

TEST(PeakMemory, APeakCountsWhatLivesAtOnce) {
  constexpr int64_t kBytes = 1 << 20;
  const auto block = [] { return torch::empty({kBytes}, torch::kChar); };
  EXPECT_EQ(peak_bytes([&] { block(); }), kBytes);
  EXPECT_EQ(peak_bytes([&] { const Tensor a = block(), b = block(); }), 2 * kBytes);
  const auto one_after_the_other = [&] {
    block();
    block();
  };
  EXPECT_EQ(peak_bytes(one_after_the_other), kBytes);
  EXPECT_EQ(peak_bytes([] {}), 0);
}

TEST(PeakMemory, WhatWasThereBeforeDoesNotCount) {
  peak_bytes([] {});  // from here on the allocator counts
  Tensor before = torch::empty({1 << 20}, torch::kChar);
  const int64_t peak = peak_bytes([&] {
    before = Tensor();
    torch::empty({1 << 10}, torch::kChar);
  });
  EXPECT_EQ(peak, 1 << 10);
}

TEST(PeakMemory, WhatWorkLeavesBehindCountsAndOutlivesTheCount) {
  Tensor left;
  EXPECT_EQ(peak_bytes([&] { left = torch::zeros({1000}, torch::kFloat); }), 4000);
  EXPECT_EQ(left.sum().item<float>(), 0);
}

TEST(PeakMemory, AFailureEndsTheCount) {
  EXPECT_THROW(peak_bytes([] { fail("no"); }), Error);
  EXPECT_EQ(peak_bytes([] { torch::empty({64}, torch::kChar); }), 64);
}

}  // namespace
}  // namespace saccade::peak_memory_test
