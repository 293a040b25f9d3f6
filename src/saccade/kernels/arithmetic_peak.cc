// So many independent sums that no multiply-add waits for another, and all of them in registers.
#include "saccade/kernels/arithmetic_peak.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "saccade/kernels/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "saccade/kernels/arithmetic_peak.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace saccade::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int kSums = HWY_TARGET == HWY_SCALAR ? 8 : 12;

// Runs `steps` multiply-adds for each sum, and tells how many operations that were.
double multiply_and_add(int64_t steps, float* result) {
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> sums[kSums];
#pragma GCC unroll 16
  for (int s = 0; s < kSums; ++s) sums[s] = hn::Set(d, 1.0F + static_cast<float>(s) + *result);
  const auto factor = hn::Set(d, 0.999F + *result), addend = hn::Set(d, 0.5F);
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (int s = 0; s < kSums; ++s) sums[s] = hn::MulAdd(sums[s], factor, addend);
  }
  auto sum = sums[0];
#pragma GCC unroll 16
  for (int s = 1; s < kSums; ++s) sum = hn::Add(sum, sums[s]);
  *result = hn::GetLane(hn::SumOfLanes(d, sum));  // so that the work is not for nothing
  return 2.0 * static_cast<double>(steps) * kSums * static_cast<double>(hn::Lanes(d));
}

}  // namespace saccade::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace saccade::kernels {
HWY_EXPORT(multiply_and_add);

double arithmetic_peak() {
  choose_target();
  const auto run = HWY_DYNAMIC_DISPATCH(multiply_and_add);
  constexpr int kRounds = 9;
  constexpr int64_t kSteps = 2'000'000;  // some ten milliseconds
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    double operations = 0;
    const auto begin = std::chrono::steady_clock::now();
#pragma omp parallel reduction(+ : operations)
    {
      float result = 0;
      operations = run(kSteps, &result);
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    best = std::max(best, operations / seconds.count());
  }
  return best;
}

}  // namespace saccade::kernels
#endif
