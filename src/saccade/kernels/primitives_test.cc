// Moving, multiplying and summing strips, against plain loops, for every number of rows.
#include "saccade/kernels/primitives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "saccade/base/random.h"
#include "saccade/kernels/arithmetic_peak.h"
#include "saccade/kernels/packing.h"
#include "saccade/kernels/storage.h"

namespace saccade::kernels {
namespace {

template <class Real>
class Strips : public ::testing::Test {
 public:
  // Small whole numbers: every order of summation gives the same.
  std::vector<Real> whole(int64_t count) {
    std::vector<Real> result;
    while (std::ssize(result) < count) result.push_back(static_cast<Real>(random_.below(17)) - 8);
    return result;
  }
  std::vector<Real> nan(int64_t count) const {
    return std::vector<Real>(static_cast<size_t>(count), std::numeric_limits<Real>::quiet_NaN());
  }

  const Primitives<Real>& code_ = primitives<Real>();
  RandomStream random_{1, "strips"};
};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Strips, Reals);

// --- storage ---

// The value of 16 bits, from the definition of the format.
double value_of(uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
  double result = exponent == 0
                      ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                      : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  if (exponent == (1 << exponent_bits) - 1)
    result = mantissa ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  return bits & 0x8000 ? -result : result;
}

TYPED_TEST(Strips, All65536HalfNumbersGoThereAndBack) {
  for (const auto& [storage, exponent_bits] :
       {std::pair{Storage::bfloat16, 8}, std::pair{Storage::float16, 5}})
    for (int64_t stride : {1, 3})
      for (int64_t width : {int64_t{65536}, 4 * this->code_.lanes + 5}) {
        // The short rows end in numbers that are loaded one by one.
        for (int64_t first = 0; first < 65536; first += width) {
          std::vector<uint16_t> bits(static_cast<size_t>((width - 1) * stride + 1), 0xffff), back = bits;
          for (int64_t k = 0; k < width; ++k)
            bits[static_cast<size_t>(k * stride)] = static_cast<uint16_t>(first + k);
          std::vector<TypeParam> numbers = this->nan(round_up(width, this->code_.lanes));
          this->code_.widen(bits.data(), storage, stride, width, numbers.data());
          this->code_.narrow(numbers.data(), storage, stride, width, back.data());
          for (int64_t k = 0; k < width; ++k) {
            const auto number = static_cast<uint16_t>(first + k);
            const double want = value_of(number, exponent_bits),
                         got = static_cast<double>(numbers[static_cast<size_t>(k)]);
            if (std::isnan(want)) {
              ASSERT_TRUE(std::isnan(got)) << number;
              ASSERT_TRUE(std::isnan(value_of(back[static_cast<size_t>(k * stride)], exponent_bits)))
                  << number;
              continue;
            }
            ASSERT_EQ(got, want) << number;
            ASSERT_EQ(std::signbit(got), std::signbit(want)) << number;
            ASSERT_EQ(back[static_cast<size_t>(k * stride)], number);
          }
          for (int64_t k = width; k < std::ssize(numbers); ++k) ASSERT_EQ(numbers[static_cast<size_t>(k)], 0);
          for (size_t k = 0; k < back.size(); ++k)
            if (k % static_cast<size_t>(stride) != 0) {
              ASSERT_EQ(back[k], 0xffff) << "wrote into a gap";
            }
        }
      }
}

TYPED_TEST(Strips, NarrowRoundsToTheNearestAndTiesToEven) {
  for (const auto& [storage, exponent_bits] :
       {std::pair{Storage::bfloat16, 8}, std::pair{Storage::float16, 5}}) {
    const uint16_t infinity = storage == Storage::bfloat16 ? 0x7f80 : 0x7c00;
    std::vector<TypeParam> numbers;
    std::vector<uint16_t> want;
    for (uint16_t low = 0; low + 1 < infinity; low = static_cast<uint16_t>(low + 3)) {
      const auto high = static_cast<uint16_t>(low + 1);
      const auto a = static_cast<float>(value_of(low, exponent_bits)),
                 b = static_cast<float>(value_of(high, exponent_bits));
      const float middle = a + (b - a) / 2;
      for (const auto& [number, nearest] :
           {std::pair{std::nextafter(middle, a), low}, std::pair{middle, low % 2 ? high : low},
            std::pair{std::nextafter(middle, b), high}})
        for (bool negative : {false, true}) {
          numbers.push_back(static_cast<TypeParam>(negative ? -number : number));
          want.push_back(static_cast<uint16_t>(nearest | (negative ? 0x8000 : 0)));
        }
    }
    std::vector<uint16_t> got(want.size());
    this->code_.narrow(numbers.data(), storage, 1, std::ssize(numbers), got.data());
    for (size_t k = 0; k < want.size(); ++k) ASSERT_EQ(got[k], want[k]) << numbers[k];
  }
}

TYPED_TEST(Strips, WidenAndNarrowAtEveryWidth) {
  constexpr Storage kOwn = storage_of<TypeParam>();
  for (int64_t stride : {1, 2})
    for (int64_t width = 1; width <= 3 * this->code_.lanes + 1; ++width) {
      const std::vector<TypeParam> source = this->whole((width - 1) * stride + 1);
      std::vector<TypeParam> numbers = this->nan(round_up(width, this->code_.lanes)),
                             back = this->nan(std::ssize(source));
      this->code_.widen(source.data(), kOwn, stride, width, numbers.data());
      this->code_.narrow(numbers.data(), kOwn, stride, width, back.data());
      for (int64_t k = 0; k < std::ssize(numbers); ++k)
        ASSERT_EQ(numbers[static_cast<size_t>(k)], k < width ? source[static_cast<size_t>(k * stride)] : 0);
      for (size_t k = 0; k < back.size(); ++k) {
        if (k % static_cast<size_t>(stride) == 0) {
          ASSERT_EQ(back[k], source[k]);
        } else {
          ASSERT_TRUE(std::isnan(back[k])) << "wrote into a gap";
        }
      }
    }
}

TYPED_TEST(Strips, TransposeFillsUpWithZeros) {
  const int64_t panel = this->code_.panel;
  for (int64_t count = 0; count <= panel; ++count)
    for (int64_t depth : {1, 2, 3, 4, 5, 8, 13}) {
      const int64_t stride = depth + count % 3;
      const std::vector<TypeParam> source = this->whole(count ? (count - 1) * stride + depth : 0);
      std::vector<TypeParam> out = this->nan(depth * panel);
      this->code_.transpose(source.data(), stride, count, depth, out.data(), panel, panel);
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t row = 0; row < panel; ++row)
          ASSERT_EQ(out[static_cast<size_t>(k * panel + row)],
                    row < count ? source[static_cast<size_t>(row * stride + k)] : 0);
    }
}

// --- products ---

TYPED_TEST(Strips, ScoresOfEveryNumberOfRows) {
  using Real = TypeParam;
  const int64_t panel = this->code_.panel, most = this->code_.rows, panels = 3;
  for (int64_t rows = 1; rows <= 2 * most + 1; ++rows)
    for (int64_t depth : {1, 2, 5, 16})
      for (bool added : {false, true}) {
        const std::vector<Real> queries = this->whole(rows * depth),
                                keys = this->whole(panels * panel * depth),
                                addend = this->whole(rows * panels * panel);
        std::vector<Real> strips = this->nan(rows * depth), tile = this->nan(rows * kTileStride);
        std::vector<const Real*> addends;
        std::vector<Range> ranges;
        for (int64_t row = 0; row < rows; ++row) {
          const int64_t first = row / most * most, height = std::min(most, rows - first);
          for (int64_t k = 0; k < depth; ++k)
            strips[static_cast<size_t>(first * depth + k * height + row - first)] =
                queries[static_cast<size_t>(row * depth + k)];
          addends.push_back(addend.data() + row * panels * panel);
          if (row == first) ranges.push_back({row / most % 2, panels - row / most / 2});
        }
        if (rows > 2 * most) ranges.back() = {2, 2};
        this->code_.scores({strips.data(), rows, depth, keys.data(), Real{2},
                            added ? addends.data() : nullptr, ranges.data(), tile.data() + kTileMargin});
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t key = 0; key < panels * panel; ++key) {
            const Real got = tile[static_cast<size_t>(row * kTileStride + kTileMargin + key)];
            const Range& range = ranges[static_cast<size_t>(row / most)];
            if (key / panel < range.begin || key / panel >= range.end) {
              ASSERT_TRUE(std::isnan(got)) << "wrote outside of the strip's panels";
              continue;
            }
            Real want = 0;
            for (int64_t k = 0; k < depth; ++k)
              want += queries[static_cast<size_t>(row * depth + k)] *
                      keys[static_cast<size_t>((key / panel * depth + k) * panel + key % panel)];
            ASSERT_EQ(got, 2 * want + (added ? addends[static_cast<size_t>(row)][key] : 0))
                << rows << " rows, depth " << depth << ", row " << row << ", key " << key;
          }
      }
}

TYPED_TEST(Strips, RowScoresOfEveryNumberOfRows) {
  using Real = TypeParam;
  const int64_t lanes = this->code_.lanes, panel = this->code_.panel;
  for (int64_t rows = 1; rows <= this->code_.few_rows; ++rows)
    for (const int64_t fold : {1, 2, 4})
      for (const int64_t depth : {4, 12, 64, fold == 1 ? 5 : 8})
        for (bool added : {false, true}) {
          if (fold > 1 && (sizeof(Real) == 8 || rows * fold > lanes)) continue;
          const int64_t columns = (rows * fold + lanes - 1) / lanes * lanes, keys = 3 * panel;
          const std::vector<Real> queries = this->whole(rows * depth), stored = this->whole(keys * depth),
                                  addend = this->whole(keys + rows);
          std::vector<Real> folded(static_cast<size_t>(depth / fold * columns));
          std::vector<const Real*> pointers, addends;
          for (int64_t row = 0; row < rows; ++row) {
            addends.push_back(addend.data() + row);
            for (int64_t k = 0; k < depth; ++k)
              folded[static_cast<size_t>(k / fold * columns + row * fold + k % fold)] =
                  queries[static_cast<size_t>(row * depth + k)];
          }
          for (int64_t key = 0; key < keys; ++key)
            pointers.push_back(stored.data() + (keys - 1 - key) * depth);
          std::vector<Real> tile(static_cast<size_t>((rows + 7) / 8 * 8 * kTileStride + 2 * kTileMargin),
                                 NAN);
          this->code_.row_scores({folded.data(), rows, depth, fold, pointers.data(), panel, keys, Real{2},
                                  added ? addends.data() : nullptr, tile.data() + kTileMargin});
          for (int64_t row = 0; row < rows; ++row)
            for (int64_t key = 0; key < keys; ++key) {
              const Real got = tile[static_cast<size_t>(row * kTileStride + kTileMargin + key)];
              if (key < panel) {
                ASSERT_TRUE(std::isnan(got)) << "wrote outside of the columns";
                continue;
              }
              Real want = 0;
              for (int64_t k = 0; k < depth; ++k)
                want += queries[static_cast<size_t>(row * depth + k)] * pointers[static_cast<size_t>(key)][k];
              ASSERT_EQ(got, 2 * want + (added ? addends[static_cast<size_t>(row)][key] : 0))
                  << rows << " rows, depth " << depth << ", fold " << fold << ", row " << row << ", key "
                  << key;
            }
        }
}

TYPED_TEST(Strips, AccumulateOfEveryNumberOfRows) {
  using Real = TypeParam;
  for (bool transposed : {false, true})
    for (int64_t rows = 1; rows <= 2 * this->code_.rows + 1; ++rows)
      for (int64_t columns = this->code_.lanes; columns <= 5 * this->code_.lanes;
           columns += this->code_.lanes)
        for (int64_t depth : {0, 1, 3, 4, 7}) {
          const int64_t b_stride = columns + 3, c_stride = columns + 1;
          const int64_t height = transposed ? depth : rows, width = transposed ? rows : depth;
          const std::vector<Real> a = this->whole(height ? (height - 1) * kTileStride + width : 0),
                                  b = this->whole(depth ? (depth - 1) * b_stride + columns : 0),
                                  before = this->whole((rows - 1) * c_stride + columns);
          std::vector<Real> c = before;
          this->code_.accumulate(
              {a.data(), transposed, rows, depth, b.data(), b_stride, columns, c.data(), c_stride});
          for (int64_t at = 0; at < std::ssize(c); ++at) {
            const int64_t row = at / c_stride, column = at % c_stride;
            Real want = before[static_cast<size_t>(at)];
            for (int64_t k = 0; k < depth && column < columns; ++k)
              want += a[static_cast<size_t>(transposed ? k * kTileStride + row : row * kTileStride + k)] *
                      b[static_cast<size_t>(k * b_stride + column)];
            ASSERT_EQ(c[static_cast<size_t>(at)], want) << rows << " rows, depth " << depth << ", at " << at;
          }
          if (transposed) continue;
          // The same rows of b, the last one first in memory.
          std::vector<Real> turned(b.size() + static_cast<size_t>(b_stride));
          std::vector<const Real*> b_rows;
          for (int64_t k = 0; k < depth; ++k) {
            Real* row = turned.data() + (depth - 1 - k) * b_stride;
            std::copy_n(b.data() + k * b_stride, columns, row);
            b_rows.push_back(row);
          }
          std::vector<Real> again = before;
          this->code_.accumulate(
              {a.data(), false, rows, depth, nullptr, 0, columns, again.data(), c_stride, b_rows.data()});
          ASSERT_EQ(again, c) << rows << " rows, depth " << depth;
        }
}

// --- sums and what happens to every number ---

TYPED_TEST(Strips, SumsOfEveryNumberOfRows) {
  using Real = TypeParam;
  const int64_t lanes = this->code_.lanes, padding = 64;
  for (int64_t rows = 1; rows <= this->code_.rows; ++rows)
    for (int64_t begin = 0; begin <= 2 * lanes; begin += lanes)
      for (int64_t end = begin + lanes; end <= begin + 5 * lanes; end += lanes) {
        // Outside of the range there is nothing that may be summed.
        std::vector<Real> memory = this->nan(rows * kTileStride);
        Real* tile = memory.data() + kTileMargin;
        for (int64_t r = 0; r < rows; ++r)
          std::ranges::copy(this->whole(end - begin), tile + r * kTileStride + begin);
        std::vector<Real> by_row(static_cast<size_t>(rows), Real{1}),
            by_column(static_cast<size_t>(kTileKeys), Real{1}),
            by_diagonal(static_cast<size_t>(kTileKeys + 2 * padding), Real{1});
        std::vector<Real> row_sums = by_row, column_sums = by_column, diagonal_sums = by_diagonal;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = begin; c < end; ++c) {
            const Real x = tile[r * kTileStride + c];
            row_sums[static_cast<size_t>(r)] += x;
            column_sums[static_cast<size_t>(c)] += x;
            diagonal_sums[static_cast<size_t>(padding + c - r)] += x;
          }
        this->code_.row_sums(tile, rows, begin, end, by_row.data());
        this->code_.column_sums(tile, rows, begin, end, by_column.data());
        this->code_.diagonal_sums(tile, rows, begin, end, by_diagonal.data() + padding);
        ASSERT_EQ(by_row, row_sums) << rows << " rows, columns " << begin << " to " << end;
        ASSERT_EQ(by_column, column_sums) << rows << " rows, columns " << begin << " to " << end;
        ASSERT_EQ(by_diagonal, diagonal_sums) << rows << " rows, columns " << begin << " to " << end;
      }
}

TYPED_TEST(Strips, MaskWeighCopyAndScale) {
  using Real = TypeParam;
  const Real nan = std::numeric_limits<Real>::quiet_NaN();
  const int64_t lanes = this->code_.lanes, begin = lanes, end = 4 * lanes;
  for (int64_t step : {0, 1})
    for (int64_t rows = 1; rows <= this->code_.rows; ++rows) {
      const std::vector<Real> before = this->whole(rows * kTileStride);
      std::vector<Real> other = this->whole(rows * end), factors = this->whole(rows);
      for (size_t k = 0; k < other.size(); k += 3) other[k] = 0;
      std::vector<const Real*> pointers;
      for (int64_t r = 0; r < rows; ++r) pointers.push_back(other.data() + r * end);
      const View<Real> view{pointers.data(), step};
      std::vector<Real> masked = before, weighed = before, copied = before, scaled = before;
      this->code_.mask(view, Real{99}, rows, begin, end, masked.data());
      this->code_.copy(view, rows, begin, end, copied.data());
      this->code_.scale_rows(scaled.data(), kTileStride, rows, end, factors.data());
      std::vector<Real> with_nan = other;
      for (int64_t at = 0; at < std::ssize(before); ++at) {
        const int64_t r = at / kTileStride, c = at % kTileStride;
        const auto k = static_cast<size_t>(at);
        const bool inside = c >= begin && c < end;
        // A step of 0 repeats the first vector, whatever lies behind it.
        const Real x = inside ? pointers[static_cast<size_t>(r)][step ? c : c % lanes] : 0;
        ASSERT_EQ(masked[k], inside && x == 0 ? 99 : before[k]);
        ASSERT_EQ(copied[k], inside ? x : before[k]);
        ASSERT_EQ(scaled[k], c < end ? before[k] * factors[static_cast<size_t>(r)] : before[k]);
        if (inside && before[k] == 0 && step) with_nan[static_cast<size_t>(r * end + c)] = nan;
      }
      for (int64_t r = 0; r < rows; ++r) pointers[static_cast<size_t>(r)] = with_nan.data() + r * end;
      this->code_.weigh(view, rows, begin, end, weighed.data());
      for (int64_t at = 0; at < std::ssize(before); ++at) {
        const int64_t r = at / kTileStride, c = at % kTileStride;
        const auto k = static_cast<size_t>(at);
        const bool inside = c >= begin && c < end;
        ASSERT_EQ(weighed[k],
                  inside && before[k] != 0
                      ? before[k] * with_nan[static_cast<size_t>(r * end + (step ? c : c % lanes))]
                      : before[k]);
      }
    }
}

TYPED_TEST(Strips, DotAndAdd) {
  for (int64_t width = 0; width <= 4 * this->code_.lanes; ++width) {
    const std::vector<TypeParam> a = this->whole(width), b = this->whole(width);
    std::vector<TypeParam> sum = b;
    this->code_.add(a.data(), width, sum.data());
    TypeParam dot = 0;
    for (size_t k = 0; k < a.size(); ++k) {
      ASSERT_EQ(sum[k], a[k] + b[k]);
      dot += a[k] * b[k];
    }
    if (width % this->code_.lanes == 0) {
      ASSERT_EQ(this->code_.dot(a.data(), b.data(), width), dot);
    }
  }
}

TEST(ArithmeticPeak, IsThatOfAMachine) {
  const double peak = arithmetic_peak();
  EXPECT_GT(peak, 1e8);
  EXPECT_LT(peak, 1e15);
}

}  // namespace
}  // namespace saccade::kernels
