// Each pass against plain loops in double, for all lengths around those of vectors.
#include "saccade/kernels/row_passes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "saccade/base/random.h"

namespace saccade::kernels {
namespace {

template <class Real>
class RowPassesOf : public ::testing::Test {
 protected:
  using Numbers = std::vector<Real>;

  Numbers draw(int64_t count) {
    Numbers numbers(static_cast<size_t>(count));
    for (Real& number : numbers) number = static_cast<Real>(random_.uniform() * 8 - 4);
    return numbers;
  }
  void expect_near(const Numbers& found, const std::vector<double>& wanted, const std::string& what) {
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t k = 0; k < wanted.size(); ++k)
      ASSERT_NEAR(found[k], wanted[k], kRounding * (1 + std::abs(wanted[k]))) << what << ", number " << k;
  }

  // Products of numbers up to 4 and a slope up to 5, of which little may be left.
  static constexpr double kRounding = 256 * std::numeric_limits<Real>::epsilon();
  RandomStream random_{1, "row passes"};
};

using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(RowPassesOf, Reals);

struct Activated {
  double value, derivative;
};

Activated activated(Gate gate, double x) {
  if (gate == Gate::relu) return {std::max(x, 0.0), x > 0 ? 1.0 : 0.0};
  if (gate == Gate::silu) {
    const double s = 1 / (1 + std::exp(-x));
    return {x * s, s * (1 + x * (1 - s))};
  }
  const double root = std::sqrt(2 / std::acos(-1.0)), inside = std::tanh(root * (x + 0.044715 * x * x * x));
  return {x / 2 * (1 + inside),
          (1 + inside) / 2 + x / 2 * (1 - inside * inside) * root * (1 + 3 * 0.044715 * x * x)};
}

TYPED_TEST(RowPassesOf, GatesLetThroughWhatTheActivationSays) {
  constexpr int64_t kRows = 3;
  const auto& passes = row_passes<TypeParam>();
  for (const Gate gate : {Gate::silu, Gate::gelu_tanh, Gate::relu})
    for (int64_t inner = 1; inner <= 64; ++inner) {
      const auto wide = this->draw(kRows * 2 * inner), gradient = this->draw(kRows * inner);
      std::vector<TypeParam> out(gradient.size()), wide_gradient(wide.size());
      std::vector<double> wanted(out.size()), wanted_gradient(wide.size());
      for (int64_t row = 0; row < kRows; ++row)
        for (int64_t k = 0; k < inner; ++k) {
          const auto at = static_cast<size_t>(row * inner + k),
                     first = static_cast<size_t>(row * 2 * inner + k),
                     second = first + static_cast<size_t>(inner);
          const Activated a = activated(gate, wide[first]);
          wanted[at] = a.value * wide[second];
          wanted_gradient[first] = gradient[at] * wide[second] * a.derivative;
          wanted_gradient[second] = gradient[at] * a.value;
        }
      passes.open_gates(gate, wide.data(), kRows, inner, out.data());
      passes.open_gates_backward(gate, wide.data(), gradient.data(), kRows, inner, wide_gradient.data());
      this->expect_near(out, wanted, "forward");
      this->expect_near(wide_gradient, wanted_gradient, "backward");
    }
}

TYPED_TEST(RowPassesOf, GatesStayFiniteFarOut) {
  for (const Gate gate : {Gate::silu, Gate::gelu_tanh}) {
    const std::vector<TypeParam> wide{-500, -90, 90, 500, 1, 1, 1, 1}, gradient(4, 1);
    std::vector<TypeParam> out(4), wide_gradient(8);
    row_passes<TypeParam>().open_gates(gate, wide.data(), 1, 4, out.data());
    row_passes<TypeParam>().open_gates_backward(gate, wide.data(), gradient.data(), 1, 4,
                                                wide_gradient.data());
    this->expect_near(out, {0, 0, 90, 500}, "forward");
    this->expect_near(wide_gradient, {0, 0, 1, 1, 0, 0, 90, 500}, "backward");
  }
}

TYPED_TEST(RowPassesOf, NormsAndTheirGradients) {
  constexpr int64_t kRows = 2;
  constexpr double kEpsilon = 1e-5;
  const auto& passes = row_passes<TypeParam>();
  for (int64_t width = 1; width <= 80; ++width) {
    const int64_t count = kRows * width;
    const auto x = this->draw(count), change = this->draw(count), gains = this->draw(width),
               gradient = this->draw(count), beside = this->draw(count);
    std::vector<TypeParam> sum(x.size()), out(x.size()), scales(kRows), back(x.size()),
        gain_sums(gains.size(), 1);
    std::vector<double> wanted(x.size()), wanted_back(x.size()), wanted_gains(gains.size(), 1);
    for (int64_t row = 0; row < kRows; ++row) {
      const auto at = [&](int64_t k) { return static_cast<size_t>(row * width + k); };
      const auto gain = [&](int64_t k) { return static_cast<double>(gains[static_cast<size_t>(k)]); };
      double squares = 0, along = 0;
      for (int64_t k = 0; k < width; ++k)
        squares += std::pow(static_cast<double>(x[at(k)]) + change[at(k)], 2);
      const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + kEpsilon);
      for (int64_t k = 0; k < width; ++k)
        along += gradient[at(k)] * gain(k) * (static_cast<double>(x[at(k)]) + change[at(k)]);
      for (int64_t k = 0; k < width; ++k) {
        const double value = static_cast<double>(x[at(k)]) + change[at(k)];
        wanted[at(k)] = value * scale * gain(k);
        wanted_back[at(k)] = beside[at(k)] + gradient[at(k)] * gain(k) * scale -
                             value * std::pow(scale, 3) * along / static_cast<double>(width);
        wanted_gains[static_cast<size_t>(k)] += gradient[at(k)] * value * scale;
      }
    }
    passes.norm(x.data(), change.data(), gains.data(), kEpsilon, kRows, width, sum.data(), out.data(),
                scales.data());
    passes.norm_backward(sum.data(), gains.data(), scales.data(), gradient.data(), beside.data(), kRows,
                         width, back.data(), gain_sums.data());
    this->expect_near(out, wanted, "forward");
    this->expect_near(gain_sums, wanted_gains, "gains");
    if (width > 1) this->expect_near(back, wanted_back, "backward");  // of one number almost nothing is left
    std::vector<TypeParam> again(x.size());
    passes.norm(sum.data(), nullptr, gains.data(), kEpsilon, kRows, width, nullptr, again.data(), nullptr);
    EXPECT_EQ(again, out);
  }
}

TYPED_TEST(RowPassesOf, TurningBackUndoesTurning) {
  constexpr int64_t kHeads = 3;
  for (int64_t pairs = 1; pairs <= 40; ++pairs) {
    const int64_t width = 2 * pairs + 3, stride = width + 5;
    const auto x = this->draw(kHeads * stride), angles = this->draw(pairs);
    std::vector<TypeParam> cosines(angles), sines(angles), turned(static_cast<size_t>(kHeads * width)),
        back(turned.size());
    std::vector<double> wanted(turned.size()), start(turned.size());
    for (size_t k = 0; k < angles.size(); ++k)
      cosines[k] = std::cos(angles[k]), sines[k] = std::sin(angles[k]);
    for (int64_t head = 0; head < kHeads; ++head)
      for (int64_t k = 0; k < width; ++k) {
        const auto from = [&](int64_t place) {
          return static_cast<double>(x[static_cast<size_t>(head * stride + place)]);
        };
        const auto pair = static_cast<size_t>(k % pairs), to = static_cast<size_t>(head * width + k);
        start[to] = from(k);
        wanted[to] = k < pairs       ? from(k) * cosines[pair] - from(k + pairs) * sines[pair]
                     : k < 2 * pairs ? from(k) * cosines[pair] + from(k - pairs) * sines[pair]
                                     : from(k);
      }
    row_passes<TypeParam>().turn_heads(x.data(), stride, kHeads, width, cosines.data(), sines.data(), pairs,
                                       1, turned.data());
    row_passes<TypeParam>().turn_heads(turned.data(), width, kHeads, width, cosines.data(), sines.data(),
                                       pairs, -1, back.data());
    this->expect_near(turned, wanted, "turned");
    this->expect_near(back, start, "back");
  }
}

}  // namespace
}  // namespace saccade::kernels
