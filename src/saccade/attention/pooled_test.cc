// Tensors from the pool: they hold what torch's would, and what is dropped serves again.
#include "saccade/attention/pooled.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "saccade/kernels/workspace.h"

namespace saccade {
namespace {

TEST(Pooled, WhatIsDroppedServesAgain) {
  const torch::TensorOptions options = torch::dtype(torch::kFloat);
  const void* first = nullptr;
  {
    const at::Tensor tensor = pooled_empty({3, 50000}, options), view = tensor.narrow(0, 1, 2);
    first = tensor.data_ptr();
  }
  kernels::reset_workspace_peak();
  const at::Tensor again = pooled_empty({150000}, options);
  EXPECT_EQ(again.data_ptr(), first);
  EXPECT_GE(kernels::workspace_peak_bytes(), 600000);
  // While it lives nobody else gets its memory.
  const at::Tensor other = pooled_empty({150000}, options);
  EXPECT_NE(other.data_ptr(), first);
}

TEST(Pooled, SmallAndEmptyTensorsAreTorchsOwn) {
  kernels::reset_workspace_peak();
  const int64_t before = kernels::workspace_peak_bytes();
  EXPECT_EQ(pooled_empty({10, 20}, torch::dtype(torch::kDouble)).sizes(), at::IntArrayRef({10, 20}));
  EXPECT_EQ(pooled_empty({0, 1000000}, torch::dtype(torch::kFloat)).numel(), 0);
  EXPECT_EQ(kernels::workspace_peak_bytes(), before);
}

TEST(Pooled, ReluIsTorchs) {
  for (const auto dtype : {torch::kFloat, torch::kDouble, torch::kBFloat16})
    for (const int64_t size : {7, 300}) {
      torch::Tensor x = torch::randn({size, size}, torch::kDouble).to(dtype);
      x[0][0] = std::numeric_limits<double>::quiet_NaN();
      x[1][1] = -std::numeric_limits<double>::infinity();
      for (const torch::Tensor& given : {x, x.t(), x.narrow(1, 1, size - 1)})
        EXPECT_TRUE(torch::allclose(pooled_relu(given), torch::relu(given), 0, 0, /*equal_nan=*/true));
    }
}

TEST(Pooled, ReluHasAGradient) {
  const torch::Tensor x = torch::tensor({-1.0, 2.0, 3.0}, torch::requires_grad());
  pooled_relu(x).sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), torch::tensor({0.0, 1.0, 1.0})));
}

}  // namespace
}  // namespace saccade
