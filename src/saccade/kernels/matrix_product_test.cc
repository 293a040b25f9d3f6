// Products of matrices against sums in double, for awkward sizes, both layouts of each factor, with biases
// and sums.
#include "saccade/kernels/matrix_product.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <limits>
#include <vector>

#include "saccade/base/random.h"

namespace saccade::kernels {
namespace {

// A matrix with gaps between its rows or columns, which hold NaN.
struct Sample {
  Sample(int64_t rows, int64_t columns, bool transposed, RandomStream& random) {
    const int64_t stride = (transposed ? rows : columns) + 3;
    numbers.assign(static_cast<size_t>(stride * (transposed ? columns : rows)),
                   std::numeric_limits<float>::quiet_NaN());
    matrix = {numbers.data(), rows, columns, transposed ? 1 : stride, transposed ? stride : 1};
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        numbers[static_cast<size_t>(r * matrix.row_stride + c * matrix.column_stride)] =
            static_cast<float>(random.uniform() * 2 - 1);
  }
  float at(int64_t r, int64_t c) const {
    return numbers[static_cast<size_t>(r * matrix.row_stride + c * matrix.column_stride)];
  }
  std::vector<float> numbers;
  Matrix matrix;
};

TEST(MatrixProduct, EqualsSumsInDouble) {
  RandomStream random(1, "matrices");
  for (const int64_t rows : {1, 5, 12, 13, 97, 200})
    for (const int64_t depth : {1, 7, 64, 257, 600})
      for (const int64_t columns : {1, 31, 32, 33, 130, 530})
        for (const int layout : {0, 1, 2, 3}) {
          if ((rows + depth + columns + layout) % 3 != 0 && rows * depth * columns > 100000) continue;
          const Sample a(rows, depth, layout & 1, random), b(depth, columns, layout & 2, random);
          const bool add = layout == 1, biased = layout == 2;
          std::vector<float> bias(static_cast<size_t>(columns));
          for (float& x : bias) x = static_cast<float>(random.uniform());
          const int64_t stride = columns + 5;
          std::vector<float> out(static_cast<size_t>(rows * stride), 0.25F);
          multiply(a.matrix, b.matrix, biased ? bias.data() : nullptr, add, out.data(), stride);
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < stride; ++c) {
              const float got = out[static_cast<size_t>(r * stride + c)];
              if (c >= columns) {
                ASSERT_EQ(got, 0.25F) << "the gap between rows was written to";
                continue;
              }
              double want = add ? 0.25 : biased ? static_cast<double>(bias[static_cast<size_t>(c)]) : 0;
              for (int64_t k = 0; k < depth; ++k)
                want += static_cast<double>(a.at(r, k)) * static_cast<double>(b.at(k, c));
              ASSERT_NEAR(got, want, 2e-7 * static_cast<double>(depth) + 2e-6)
                  << rows << " x " << depth << " x " << columns << ", layout " << layout << " at " << r
                  << ", " << c;
            }
        }
}

TEST(MatrixProduct, TheSameBitsWithAnyNumberOfThreads) {
  RandomStream random(2, "matrices");
  const int before = omp_get_max_threads();
  for (const auto& [rows, depth, columns] :
       {std::array<int64_t, 3>{70, 700, 300}, {1000, 64, 40}, {40, 2000, 700}}) {
    const Sample a(rows, depth, false, random), b(depth, columns, true, random);
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 2, 3, 5}) {
      omp_set_num_threads(threads);
      results.emplace_back(static_cast<size_t>(rows * columns));
      multiply(a.matrix, b.matrix, nullptr, false, results.back().data(), columns);
    }
    for (const auto& result : results) EXPECT_EQ(result, results[0]);
  }
  omp_set_num_threads(before);
}

TEST(MatrixProduct, EmptyOnes) {
  std::vector<float> out(6, 7.0F);
  const std::vector<float> bias = {1, 2, 3};
  multiply({out.data(), 0, 4, 4, 1}, {out.data(), 4, 3, 3, 1}, nullptr, false, out.data(), 3);
  EXPECT_EQ(out, std::vector<float>(6, 7.0F));
  multiply({bias.data(), 2, 0, 1, 1}, {bias.data(), 0, 3, 3, 1}, bias.data(), false, out.data(), 3);
  EXPECT_EQ(out, (std::vector<float>{1, 2, 3, 1, 2, 3}));
}

}  // namespace
}  // namespace saccade::kernels
