// What the tests of this rung share: tensors from a seed, tolerances that follow from rounding, numerical
// derivatives that know their own error, and errors by their words. Only tests include it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"
#include "saccade/base/random.h"

namespace saccade::test {

using torch::Tensor;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Tensors drawn from a named stream: the same on every machine, whatever the dtype.
class Seeded {
 public:
  explicit Seeded(uint64_t seed, std::string_view name = "test") : stream_(seed, name) {}

  // Uniform in low .. high, both included.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(stream_.below(static_cast<uint64_t>(high - low + 1)));
  }
  double uniform(double low, double high) { return low + (high - low) * stream_.uniform(); }

  Tensor normal(at::IntArrayRef shape, at::ScalarType dtype = torch::kDouble) {
    return fill(shape, [&] { return stream_.normal(); }).to(dtype);
  }
  // A leaf that collects a gradient.
  Tensor leaf(at::IntArrayRef shape, at::ScalarType dtype = torch::kDouble) {
    return normal(shape, dtype).requires_grad_();
  }
  Tensor integers(at::IntArrayRef shape, int64_t low, int64_t high) {
    return fill(shape, [&] { return static_cast<double>(between(low, high)); }).to(torch::kLong);
  }
  Tensor booleans(at::IntArrayRef shape, double probability = 0.5) {
    return fill(shape, [&] { return stream_.uniform() < probability ? 1.0 : 0.0; }).to(torch::kBool);
  }

 private:
  template <class Draw>
  Tensor fill(at::IntArrayRef shape, Draw draw) {
    Tensor result = torch::empty(shape, torch::kDouble);
    for (int64_t index = 0; index < result.numel(); ++index) result.data_ptr<double>()[index] = draw();
    return result;
  }
  RandomStream stream_;
};

inline double epsilon(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return std::numeric_limits<double>::epsilon();
    case at::kFloat:
      return std::numeric_limits<float>::epsilon();
    case at::kBFloat16:
      return std::ldexp(1, -7);
    default:
      return std::ldexp(1, -10);  // half
  }
}

inline double largest(const Tensor& tensor) {
  return tensor.numel() == 0 ? 0 : tensor.detach().abs().max().to(torch::kDouble).item<double>();
}

// How far two roads to the same number may lie apart, when each rounds so many times and no intermediate
// value exceeds `magnitude`.
inline double rounding(at::ScalarType dtype, int64_t steps, double magnitude) {
  return epsilon(dtype) * static_cast<double>(steps) * magnitude;
}

// Same shape, same infinities, no NaN, and no element further apart than `tolerance`.
inline ::testing::AssertionResult close(const Tensor& actual, const Tensor& expected, double tolerance) {
  if (!actual.defined() || !expected.defined() || actual.sizes() != expected.sizes())
    return ::testing::AssertionFailure()
           << "shape " << shape_text(actual) << " instead of " << shape_text(expected);
  const Tensor a = actual.detach().to(torch::kDouble), b = expected.detach().to(torch::kDouble);
  if (a.numel() == 0) return ::testing::AssertionSuccess();
  if (a.isnan().any().item<bool>() || b.isnan().any().item<bool>())
    return ::testing::AssertionFailure() << "there is a NaN among the " << a.numel() << " elements";
  const Tensor gap = (a - b).abs().masked_fill(a == b, 0);  // equal infinities
  const double worst = gap.max().item<double>();
  if (worst <= tolerance) return ::testing::AssertionSuccess();
  const auto place = gap.argmax().item<int64_t>();
  return ::testing::AssertionFailure() << fmt::format(
             "element {} of {} is {} instead of {}: {} apart, allowed {}", place, shape_text(a),
             a.flatten()[place].item<double>(), b.flatten()[place].item<double>(), worst, tolerance);
}

struct Derivative {
  double value;
  double error;  // bounds truncation and rounding
};

// The derivative of f at x by central differences with two step widths. Their difference bounds the
// truncation error; `noise` is the rounding error of one value of f.
inline Derivative differentiate_numerically(const std::function<double(double)>& f, double x, double noise,
                                            double step = 1e-3) {
  const auto slope = [&](double width) { return (f(x + width) - f(x - width)) / (2 * width); };
  const double coarse = slope(step), fine = slope(step / 2);
  return {(4 * fine - coarse) / 3, std::fabs(coarse - fine) + 4 * noise / step};
}

// The gradient that reached a leaf; zeros when none did.
inline Tensor gradient_of(const Tensor& leaf) {
  return leaf.grad().defined() ? leaf.grad() : torch::zeros_like(leaf);
}

// Compares the gradient of `loss` by every element of `leaf` with numerical derivatives. `loss` reads the
// leaf anew each time it is called; it must be of double precision.
inline void expect_gradient(const std::function<Tensor()>& loss, Tensor leaf, const std::string& name) {
  if (leaf.grad().defined()) leaf.mutable_grad() = Tensor();
  const Tensor value = loss();
  ASSERT_TRUE(value.requires_grad()) << name;
  value.backward();
  const Tensor gradient = gradient_of(leaf).contiguous();
  torch::NoGradGuard no_gradient;
  ASSERT_TRUE(leaf.is_contiguous()) << name;
  const double noise = rounding(torch::kDouble, 64, 1 + std::fabs(value.item<double>()));
  double* element = leaf.data_ptr<double>();
  for (int64_t index = 0; index < leaf.numel(); ++index) {
    const double start = element[index];
    const auto f = [&](double x) {
      element[index] = x;
      return loss().item<double>();
    };
    const Derivative expected = differentiate_numerically(f, start, noise);
    element[index] = start;
    const double actual = gradient.data_ptr<double>()[index];
    EXPECT_NEAR(actual, expected.value, expected.error) << name << ", element " << index;
  }
}

// The words of the Error that `action` throws.
template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& other) {
    return std::string("not an Error: ") + other.what();
  }
  return "no error";
}

}  // namespace saccade::test
