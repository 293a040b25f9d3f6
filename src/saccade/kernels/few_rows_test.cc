#include "saccade/kernels/few_rows.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <vector>

#include "saccade/base/random.h"

namespace saccade::kernels {
namespace {

// Whole numbers, so that sums are exact in any order.
std::vector<float> whole(RandomStream& random, int64_t count) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = static_cast<float>(random.below(9)) - 4;
  return numbers;
}

TEST(FewRows, EqualsPlainLoops) {
  RandomStream random(1, "few rows");
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    for (int64_t rows = 1; rows <= kFewRows; ++rows)
      for (const int64_t depth : {1, 15, 16, 33, 576})
        for (const int64_t columns : {1, 3, 4, 7, 130})
          for (const bool biased : {false, true}) {
            const auto x = whole(random, rows * depth), weight = whole(random, columns * depth),
                       bias = whole(random, columns);
            std::vector<float> out(static_cast<size_t>(rows * columns), -1);
            multiply_few_rows(x.data(), rows, depth, weight.data(), columns, biased ? bias.data() : nullptr,
                              out.data());
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t c = 0; c < columns; ++c) {
                float want = biased ? bias[static_cast<size_t>(c)] : 0;
                for (int64_t k = 0; k < depth; ++k)
                  want += x[static_cast<size_t>(r * depth + k)] * weight[static_cast<size_t>(c * depth + k)];
                ASSERT_EQ(out[static_cast<size_t>(r * columns + c)], want)
                    << rows << " x " << depth << " x " << columns << ", row " << r << ", column " << c;
              }
          }
  }
  omp_set_num_threads(1);
}

}  // namespace
}  // namespace saccade::kernels
