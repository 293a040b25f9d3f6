// Chains of short operations against the scalar definition of each, for every operand that can be held, for
// every number of vectors, and with results that are read again later.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "saccade/kernels/primitives.h"
#include "saccade/kernels/unit_queue.h"

namespace saccade::kernels {
namespace {

template <class Real>
class Chain : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Chain, Reals);

constexpr int64_t kRows = 7;

// A strip of kRows rows as tiles have them, with numbers that differ everywhere.
template <class Real>
struct Strip {
  explicit Strip(int seed) : numbers(kRows * kTileStride) {
    const std::array<Real, 9> awkward = {0,
                                         Real(-0.0),
                                         1,
                                         -1,
                                         std::numeric_limits<Real>::infinity(),
                                         -std::numeric_limits<Real>::infinity(),
                                         std::numeric_limits<Real>::quiet_NaN(),
                                         2,
                                         Real(0.5)};
    for (size_t at = 0; at < numbers.size(); ++at) {
      const size_t mixed = (at * 2654435761U + static_cast<size_t>(seed) * 40503U) >> 7;
      numbers[at] =
          mixed % 3 == 0 ? awkward[mixed / 3 % awkward.size()] : static_cast<Real>(mixed % 1000) / 100 - 5;
    }
    for (int64_t r = 0; r < kRows; ++r) rows[static_cast<size_t>(r)] = numbers.data() + r * kTileStride;
  }
  View<Real> view() const { return {rows.data(), 1}; }
  std::vector<Real> numbers;
  std::array<const Real*, kRows> rows;
};

template <class Real>
bool same(Real a, Real b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

TYPED_TEST(Chain, EveryOperationWithEveryOperandHeld) {
  using Real = TypeParam;
  const Primitives<Real>& code = primitives<Real>();
  const std::array<Strip<Real>, 3> operands = {Strip<Real>(1), Strip<Real>(2), Strip<Real>(3)};
  int tried = 0;
  for (const Operation& row : operations())
    for (int held = 0; held < row.arity; ++held) {
      const std::optional<int> found = chain_code_of(row.op, held);
      if (!found) continue;
      ++tried;
      ChainStep<Real> step{*found, {}, nullptr};
      size_t others = 0;
      for (int index = 0; index < row.arity; ++index)
        if (index != held) step.other[others++] = operands[static_cast<size_t>(index)].view();
      for (const int64_t vectors : {1, 2, 3, 5, 6, 7, 8, 9, 14, 15}) {
        const int64_t begin = code.lanes, end = begin + vectors * code.lanes;
        std::vector<Real> out(kRows * kTileStride, Real{-77});
        Real* strip = out.data();
        step.out = &strip;
        step.start = operands[static_cast<size_t>(held)].view();
        code.chain({&step, 1, kRows, begin, end});
        for (int64_t at = 0; at < kRows * kTileStride; ++at) {
          const auto place = static_cast<size_t>(at);
          Real want = -77;  // outside of the range nothing is touched
          if (at % kTileStride >= begin && at % kTileStride < end)
            want = dispatch(row.op, [&]<Op op>() {
              return static_cast<Real>(apply<op>(operands[0].numbers[place], operands[1].numbers[place],
                                                 operands[2].numbers[place]));
            });
          ASSERT_TRUE(same(out[place], want))
              << row.name << " with operand " << held << " held, " << vectors << " vectors: " << out[place]
              << " should be " << want << " of " << operands[0].numbers[place] << ", "
              << operands[1].numbers[place] << ", " << operands[2].numbers[place];
        }
      }
    }
  EXPECT_GT(tried, 30);
}

TYPED_TEST(Chain, WhatIsStoredCanBeReadByALaterStep) {
  using Real = TypeParam;
  const Primitives<Real>& code = primitives<Real>();
  Strip<Real> x(4), twice(5), result(6);
  Real* twice_strip = twice.numbers.data();
  Real* result_strip = result.numbers.data();
  const std::array<ChainStep<Real>, 3> steps = {
      ChainStep<Real>{chain_code(Op::add, 0), {x.view(), {}}, &twice_strip, x.view()},
      ChainStep<Real>{chain_code(Op::abs, 0), {}, nullptr},
      ChainStep<Real>{chain_code(Op::subtract, 1), {twice.view(), {}}, &result_strip}};
  code.chain({steps.data(), 3, kRows, 0, kTileKeys});
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kTileKeys; ++c) {
      const auto at = static_cast<size_t>(r * kTileStride + c);
      const Real sum = x.numbers[at] + x.numbers[at];
      ASSERT_TRUE(same(twice.numbers[at], sum));
      ASSERT_TRUE(same(result.numbers[at], sum - std::abs(sum)));
    }
}

TYPED_TEST(Chain, MultipliesAndAddsInOneStep) {
  using Real = TypeParam;
  const Primitives<Real>& code = primitives<Real>();
  const Strip<Real> x(7), y(8), z(9);
  for (const int64_t vectors : {1, 6, 8, 11}) {
    Strip<Real> result(10);
    Real* strip = result.numbers.data();
    const ChainStep<Real> step{kChainMultiplyAdd, {y.view(), z.view()}, &strip, x.view()};
    code.chain({&step, 1, kRows, 0, vectors * code.lanes});
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t c = 0; c < vectors * code.lanes; ++c) {
        const auto at = static_cast<size_t>(r * kTileStride + c);
        const Real product = x.numbers[at] * y.numbers[at], want = product + z.numbers[at],
                   off = 2 * std::numeric_limits<Real>::epsilon() * (1 + std::abs(product));
        ASSERT_TRUE(same(result.numbers[at], want) || std::abs(result.numbers[at] - want) <= off)
            << result.numbers[at] << " should be " << want;
      }
  }
}

TEST(UnitQueue, EveryUnitOnceWhoeverTakesIt) {
  for (const int threads : {1, 2, 3, 7})
    for (const int64_t units : {0, 1, 2, 5, 100}) {
      UnitQueue queue(units, threads);
      std::vector<int> taken(static_cast<size_t>(units));
      // One thread takes from all, as if the others were slow.
      for (int64_t unit = queue.take(threads - 1); unit >= 0; unit = queue.take(threads - 1))
        ++taken[static_cast<size_t>(unit)];
      EXPECT_EQ(taken, std::vector<int>(static_cast<size_t>(units), 1)) << threads << ", " << units;
    }
}

TEST(UnitQueue, AThreadBeginsWithItsOwnShare) {
  UnitQueue queue(10, 2);
  EXPECT_EQ(queue.take(1), 5);
  EXPECT_EQ(queue.take(0), 0);
  EXPECT_EQ(queue.take(1), 6);
}

}  // namespace
}  // namespace saccade::kernels
