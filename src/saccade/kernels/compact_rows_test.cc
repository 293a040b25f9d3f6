#include "saccade/kernels/compact_rows.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "saccade/base/random.h"
#include "saccade/kernels/few_rows.h"

namespace saccade::kernels {
namespace {

// Random blocks, and the numbers that they stand for.
struct Weights {
  std::vector<std::byte> bytes;
  std::vector<double> numbers;
};

Weights random_weights(CompactKind kind, int64_t columns, int64_t depth, RandomStream& random) {
  Weights weights;
  for (int64_t block = 0; block < columns * depth / kCompactBlock; ++block) {
    std::vector<std::byte> bytes(static_cast<size_t>(compact_bytes(kind)));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
    const float scale = static_cast<float>(random.uniform()), offset = static_cast<float>(random.normal());
    std::memcpy(bytes.data(), &scale, sizeof(scale));
    std::memcpy(bytes.data() + sizeof(scale), &offset, sizeof(offset));
    for (size_t k = 0; k < 32; ++k) {
      double integer = 0;
      if (kind == CompactKind::eight_bits) {
        integer = static_cast<int8_t>(bytes[8 + k]);
      } else {
        const auto pair = static_cast<uint8_t>(bytes[8 + k % 16]);
        integer = k < 16 ? pair & 15 : pair >> 4;
      }
      weights.numbers.push_back(static_cast<double>(scale) * integer + static_cast<double>(offset));
    }
    weights.bytes.insert(weights.bytes.end(), bytes.begin(), bytes.end());
  }
  return weights;
}

TEST(CompactRows, EqualsTheWidenedWeights) {
  RandomStream random(1, "compact rows");
  for (const CompactKind kind : {CompactKind::four_bits, CompactKind::eight_bits})
    for (int64_t rows = 1; rows <= kFewRows; ++rows)
      for (const int64_t depth : {32, 96, 576})
        for (const int64_t columns : {1, 5, 130}) {
          omp_set_num_threads(static_cast<int>(1 + columns % 3));
          const Weights weights = random_weights(kind, columns, depth, random);
          std::vector<float> x(static_cast<size_t>(rows * depth)), bias(static_cast<size_t>(columns));
          for (float& number : x) number = static_cast<float>(random.normal());
          for (float& number : bias) number = static_cast<float>(random.normal());
          const bool biased = columns != 5;
          const int64_t stride = columns + 3;
          std::vector<float> out(static_cast<size_t>(rows * stride), 7);
          multiply_compact_rows(kind, x.data(), rows, depth, weights.bytes.data(), columns,
                                biased ? bias.data() : nullptr, out.data(), stride);
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c) {
              double want = biased ? static_cast<double>(bias[static_cast<size_t>(c)]) : 0, size = 1;
              for (int64_t k = 0; k < depth; ++k) {
                const double term = static_cast<double>(x[static_cast<size_t>(r * depth + k)]) *
                                    weights.numbers[static_cast<size_t>(c * depth + k)];
                want += term;
                size += std::fabs(term);
              }
              ASSERT_NEAR(static_cast<double>(out[static_cast<size_t>(r * stride + c)]), want, 2e-6 * size)
                  << "kind " << static_cast<int>(kind) << ", " << rows << " x " << depth << " x " << columns;
            }
          ASSERT_EQ(out[static_cast<size_t>(columns)], 7) << "wrote beside the result";
        }
  omp_set_num_threads(1);
}

}  // namespace
}  // namespace saccade::kernels
