#include "saccade/attention/rotary.h"

#include <gtest/gtest.h>

#include "saccade/attention/testing.h"

namespace saccade::rotary_test {
namespace {

using test::close;
using test::rounding;
using test::Seeded;
using torch::Tensor;

constexpr uint64_t kSeed = 20240603;

// The definition, one pair of numbers at a time.
Tensor turned(const Tensor& vectors, const Tensor& positions, const RotaryOptions& options) {
  Tensor result = vectors.clone();
  const int64_t width = vectors.size(3), dims = options.dims ? options.dims : width;
  for (int64_t b = 0; b < vectors.size(0); ++b)
    for (int64_t h = 0; h < vectors.size(1); ++h)
      for (int64_t token = 0; token < vectors.size(2); ++token)
        for (int64_t pair = 0; pair < dims / 2; ++pair) {
          const int64_t first = options.interleaved ? 2 * pair : pair,
                        second = options.interleaved ? first + 1 : pair + dims / 2;
          const auto position =
              (positions.dim() == 2 ? positions[b][token] : positions[token]).item<int64_t>();
          const double angle =
              static_cast<double>(position) *
              std::pow(options.base, -2.0 * static_cast<double>(pair) / static_cast<double>(dims));
          const double x = vectors[b][h][token][first].item<double>(),
                       y = vectors[b][h][token][second].item<double>();
          result[b][h][token][first] = x * std::cos(angle) - y * std::sin(angle);
          result[b][h][token][second] = x * std::sin(angle) + y * std::cos(angle);
        }
  return result;
}

// The angle of the last position carries the rounding error of a product of that size.
double tolerance(const Tensor& vectors, const Tensor& positions) {
  return rounding(torch::kDouble, 8, test::largest(vectors) * (1 + test::largest(positions)));
}

TEST(Rotary, TurnsEachPairByItsAngle) {
  Seeded random(kSeed);
  for (const bool interleaved : {false, true})
    for (const int64_t dims : {0, 2, 6}) {
      const RotaryOptions options{.base = 1000, .dims = dims, .interleaved = interleaved};
      const Tensor vectors = random.normal({2, 3, 4, 8});
      const Tensor offset = torch::arange(5, 9, torch::kLong), scattered = random.integers({2, 4}, 0, 5000);
      for (const Tensor& positions : {offset, scattered, scattered.narrow(0, 0, 1).expand({2, 4})})
        EXPECT_TRUE(close(rotate(vectors, positions, options), turned(vectors, positions, options),
                          tolerance(vectors, positions)))
            << "interleaved " << interleaved << ", dims " << dims << ", seed " << kSeed;
    }
}

TEST(Rotary, OnePositionListServesTheWholeBatch) {
  Seeded random(kSeed);
  const Tensor vectors = random.normal({3, 2, 4, 6}), positions = torch::arange(4, torch::kLong);
  EXPECT_TRUE(torch::equal(rotate(vectors, positions.unsqueeze(0), {}), rotate(vectors, positions, {})));
}

TEST(Rotary, LeavesPositionZeroAndTheOtherNumbersAlone) {
  Seeded random(kSeed);
  const Tensor vectors = random.normal({1, 2, 3, 8});
  EXPECT_TRUE(torch::equal(rotate(vectors, torch::zeros({3}, torch::kLong), {}), vectors));
  const Tensor partly = rotate(vectors, torch::arange(1, 4, torch::kLong), {.dims = 4});
  EXPECT_TRUE(torch::equal(partly.narrow(-1, 4, 4), vectors.narrow(-1, 4, 4)));
}

TEST(Rotary, DotProductsDependOnDistancesAlone) {
  Seeded random(kSeed);
  const Tensor query = random.normal({1, 1, 1, 16}), key = random.normal({1, 1, 1, 16});
  for (const bool interleaved : {false, true}) {
    const RotaryOptions options{.interleaved = interleaved};
    const auto product = [&](int64_t i, int64_t j) {
      return (rotate(query, torch::tensor({i}), options) * rotate(key, torch::tensor({j}), options))
          .sum()
          .item<double>();
    };
    for (const int64_t shift : {1, 17, 4096}) {
      const double size = test::largest(query) * test::largest(key) * 16;
      EXPECT_NEAR(product(9 + shift, 2 + shift), product(9, 2),
                  rounding(torch::kDouble, 16, size * static_cast<double>(10 + shift)));
    }
    EXPECT_GT(std::fabs(product(9, 2) - product(9, 3)), 1e-3);  // and they do depend on it
  }
}

TEST(Rotary, ShortDtypesAreRoundedOnce) {
  Seeded random(kSeed);
  const Tensor vectors = random.normal({1, 2, 5, 8}, torch::kFloat),
               positions = torch::arange(100000, 100005, torch::kLong);
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    const Tensor stored = vectors.to(dtype), result = rotate(stored, positions, {});
    EXPECT_EQ(result.scalar_type(), dtype);
    EXPECT_TRUE(torch::equal(result, rotate(stored.to(torch::kFloat), positions, {}).to(dtype)));
  }
  // Far positions keep all the digits of a float, because angles are made in double.
  EXPECT_TRUE(close(rotate(vectors, positions, {}), turned(vectors.to(torch::kDouble), positions, {}),
                    rounding(torch::kFloat, 4, test::largest(vectors))));
}

TEST(Rotary, GradientTurnsBack) {
  Seeded random(kSeed);
  for (const bool interleaved : {false, true}) {
    const RotaryOptions options{.dims = 4, .interleaved = interleaved};
    const Tensor vectors = random.leaf({1, 2, 3, 6}), upstream = random.normal({1, 2, 3, 6}),
                 positions = torch::arange(7, 10, torch::kLong);
    rotate(vectors, positions, options).backward(upstream);
    EXPECT_TRUE(close(vectors.grad(), turned(upstream, -positions, options), tolerance(upstream, positions)));
  }
}

TEST(Rotary, NeighboursInOnePassAreTheSame) {
  torch::manual_seed(1);
  const torch::Tensor whole = torch::randn({2, 3, 70, 24});
  for (const RotaryOptions& options :
       {RotaryOptions{}, RotaryOptions{.base = 500, .dims = 10}, RotaryOptions{.interleaved = true},
        RotaryOptions{.dims = 4, .frequencies = {0.5, 0.01}}})
    for (const int64_t first : {0, 1, 63, 64, 4000})
      for (const torch::Tensor& vectors : {whole, whole.transpose(1, 2), whole.narrow(2, 5, 3)}) {
        const torch::Tensor expected =
            rotate(vectors, torch::arange(first, first + vectors.size(2), torch::kLong), options);
        EXPECT_TRUE(torch::allclose(rotate_from(vectors, first, options), expected, 1e-6, 1e-6))
            << "from " << first;
      }
}

TEST(Rotary, FrequenciesTakeThePlaceOfTheBase) {
  const torch::Tensor vectors = torch::randn({1, 1, 5, 4}), positions = torch::arange(5, torch::kLong);
  EXPECT_TRUE(torch::equal(rotate(vectors, positions, {.base = 100}),
                           rotate(vectors, positions, {.frequencies = {1, 0.1}})));
  EXPECT_THROW(rotate(vectors, positions, {.frequencies = {1}}), Error);
}

TEST(Rotary, RefusesAnOddNumberAndTooManyNumbers) {
  const Tensor vectors = torch::zeros({1, 1, 2, 5}), positions = torch::arange(2);
  EXPECT_EQ(test::error_of([&] { rotate(vectors, positions, {}); }),
            "rotary: 5 of 5 numbers cannot be turned in pairs; expected an even number up to 5");
  EXPECT_EQ(test::error_of([&] { rotate(vectors, positions, {.dims = 6}); }),
            "rotary: 6 of 5 numbers cannot be turned in pairs; expected an even number up to 5");
}

}  // namespace
}  // namespace saccade::rotary_test
