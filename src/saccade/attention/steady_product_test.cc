#include "saccade/attention/steady_product.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

namespace saccade::steady_product_test {
namespace {

using at::Tensor;

struct Results {
  Tensor product, of_a, of_b;
};

Results with_threads(int threads, const Tensor& a, const Tensor& b) {
  const int before = at::get_num_threads();
  at::set_num_threads(threads);
  const Tensor x = a.detach().clone().requires_grad_(true), y = b.detach().clone().requires_grad_(true);
  const Tensor product = steady_product(x, y);
  const auto gradients = torch::autograd::grad({product.square().sum()}, {x, y});
  at::set_num_threads(before);
  return {product.detach(), gradients[0], gradients[1]};
}

TEST(SteadyProduct, IsTheProductAndItsGradients) {
  torch::manual_seed(1);
  for (const auto& [groups, m, k, n] :
       {std::tuple(1, 4, 18, 18), {3, 1, 6, 6}, {2, 200, 64, 48}, {1, 65, 1, 1}}) {
    const Tensor a = torch::randn({groups, m, k}, torch::kDouble),
                 b = torch::randn({groups, k, n}, torch::kDouble);
    const Results found = with_threads(2, a, b);
    const Tensor expected = a.bmm(b);
    EXPECT_TRUE(torch::allclose(found.product, expected, 1e-12, 1e-12));
    EXPECT_TRUE(torch::allclose(found.of_a, 2 * expected.bmm(b.transpose(1, 2)), 1e-12, 1e-12));
    EXPECT_TRUE(torch::allclose(found.of_b, 2 * a.transpose(1, 2).bmm(expected), 1e-12, 1e-12));
  }
}

TEST(SteadyProduct, HasTheSameBitsWithAnyNumberOfThreads) {
  torch::manual_seed(1);
  for (const auto dtype : {torch::kFloat, torch::kDouble})
    for (const int64_t m : {1, 4, 63, 64, 65, 300})
      for (const int64_t k : {6, 9, 18, 24, 36, 64, 128})
        for (const int64_t groups : {1, 3}) {
          const Tensor a = torch::randn({groups, m, k}, dtype), b = torch::randn({groups, k, 36}, dtype);
          const Results one = with_threads(1, a, b);
          for (const int threads : {2, 3}) {
            const Results more = with_threads(threads, a, b);
            EXPECT_TRUE(torch::equal(one.product, more.product)) << m << " x " << k << ", " << threads;
            EXPECT_TRUE(torch::equal(one.of_a, more.of_a)) << m << " x " << k << ", " << threads;
            EXPECT_TRUE(torch::equal(one.of_b, more.of_b)) << m << " x " << k << ", " << threads;
          }
        }
}

TEST(SteadyProduct, HasSecondDerivatives) {
  torch::manual_seed(1);
  const Tensor a = torch::randn({1, 3, 4}, torch::kDouble).requires_grad_(true),
               b = torch::randn({1, 4, 2}, torch::kDouble).requires_grad_(true);
  const auto of = [&](const Tensor& product) {
    const Tensor first = torch::autograd::grad({product.pow(3).sum()}, {a}, {}, true, true)[0];
    return torch::autograd::grad({first.square().sum()}, {b})[0];
  };
  EXPECT_TRUE(torch::allclose(of(steady_product(a, b)), of(a.bmm(b)), 1e-10, 1e-10));
}

struct LinearResults {
  Tensor y, of_x, of_weight, of_bias;
};

LinearResults linear_with(int threads, const Tensor& x, const Tensor& weight, const Tensor& bias, bool ours) {
  const int before = at::get_num_threads();
  at::set_num_threads(threads);
  const Tensor a = x.detach().requires_grad_(true), w = weight.detach().clone().requires_grad_(true),
               b = bias.defined() ? bias.detach().clone().requires_grad_(true) : Tensor();
  const Tensor y =
      ours ? steady_linear(a, w, b) : at::linear(a, w, b.defined() ? std::optional(b) : std::nullopt);
  std::vector<Tensor> inputs = {a, w};
  if (b.defined()) inputs.push_back(b);
  auto gradients = torch::autograd::grad({(y * y.detach().cos()).sum()}, inputs);
  at::set_num_threads(before);
  return {y.detach(), gradients[0], gradients[1], b.defined() ? gradients[2] : Tensor()};
}

TEST(SteadyLinear, IsLibTorchsLayerWithItsGradients) {
  torch::manual_seed(2);
  for (const auto& [rows, inputs, outputs, biased] : {std::tuple(1, 1, 1, true),
                                                      {1, 5, 3, false},
                                                      {7, 64, 1, true},
                                                      {130, 33, 70, true},
                                                      {64, 300, 257, false}}) {
    // Every second number of a wider tensor, so that neither rows nor columns are in one piece.
    const Tensor x = torch::randn({2, rows, 2 * inputs}).slice(2, 0, 2 * inputs, 2),
                 weight = torch::randn({outputs, inputs}), bias = biased ? torch::randn({outputs}) : Tensor();
    const LinearResults found = linear_with(2, x, weight, bias, true),
                        wanted = linear_with(2, x, weight, bias, false);
    EXPECT_EQ(found.y.sizes(), wanted.y.sizes());
    EXPECT_TRUE(torch::allclose(found.y, wanted.y, 1e-4, 1e-4)) << rows << " x " << inputs;
    EXPECT_TRUE(torch::allclose(found.of_x, wanted.of_x, 1e-4, 1e-3)) << rows << " x " << inputs;
    EXPECT_TRUE(torch::allclose(found.of_weight, wanted.of_weight, 1e-4, 1e-3)) << rows << " x " << inputs;
    if (biased) {
      EXPECT_TRUE(torch::allclose(found.of_bias, wanted.of_bias, 1e-4, 1e-3));
    }
  }
}

TEST(SteadyLinear, HasTheSameBitsWithAnyNumberOfThreads) {
  torch::manual_seed(3);
  const Tensor x = torch::randn({700, 96}), weight = torch::randn({321, 96});
  const LinearResults one = linear_with(1, x, weight, {}, true);
  for (const int threads : {2, 3}) {
    const LinearResults more = linear_with(threads, x, weight, {}, true);
    EXPECT_TRUE(torch::equal(one.y, more.y));
    EXPECT_TRUE(torch::equal(one.of_x, more.of_x));
    EXPECT_TRUE(torch::equal(one.of_weight, more.of_weight));
  }
}

TEST(SteadyLinear, RefusesWhatDoesNotFitTogether) {
  EXPECT_THROW(steady_linear(torch::randn({4, 6}), torch::randn({3, 4}), {}), c10::Error);
}

TEST(SteadyProduct, AddsIntoAMatrix) {
  torch::manual_seed(4);
  for (const auto dtype : {torch::kFloat, torch::kDouble}) {
    const Tensor a = torch::randn({20, 33}, dtype), b = torch::randn({33, 50}, dtype);
    Tensor sum = torch::ones({20, 50}, dtype);
    steady_product_into(sum, a, b, true);
    EXPECT_TRUE(torch::allclose(sum, a.mm(b) + 1, 1e-4, 1e-4));
    steady_product_into(sum, a, b, false);
    EXPECT_TRUE(torch::allclose(sum, a.mm(b), 1e-4, 1e-4));
  }
}

}  // namespace
}  // namespace saccade::steady_product_test
