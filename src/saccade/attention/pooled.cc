// A tensor owns its piece of the pool through its deleter.
#include "saccade/attention/pooled.h"

#include <ATen/ops/clamp_min.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/relu.h>
#include <c10/core/GradMode.h>

#include <memory>

#include "saccade/attention/steady_product.h"
#include "saccade/kernels/workspace.h"

namespace saccade {
namespace {

constexpr int64_t kLeastBytes = int64_t{64} << 10;

}  // namespace

at::Tensor pooled_empty(at::IntArrayRef sizes, const at::TensorOptions& options) {
  int64_t bytes = static_cast<int64_t>(options.dtype().itemsize());
  for (const int64_t size : sizes) bytes *= size;
  if (bytes < kLeastBytes || !options.device().is_cpu()) return at::empty(sizes, options);
  auto memory = std::make_unique<kernels::Workspace>(static_cast<size_t>(bytes));
  void* const data = memory->data();
  return at::from_blob(
      data, sizes, [held = std::shared_ptr<kernels::Workspace>(std::move(memory))](void*) {}, options);
}

at::Tensor pooled_relu(const at::Tensor& x) {
  // torch keeps the result for the gradient, and where there are no plain numbers it traces.
  if ((c10::GradMode::is_enabled() && x.requires_grad()) || !is_plain(x)) return at::relu(x);
  at::Tensor result = pooled_empty(x.sizes(), x.options());
  return at::clamp_min_out(result, x, 0);
}

}  // namespace saccade
