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

}  // namespace
}  // namespace saccade::steady_product_test
