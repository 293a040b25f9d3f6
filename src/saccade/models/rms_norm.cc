// With r = 1 / root(mean(x^2) + epsilon) the gradient of a row is r (g dy) - x r^3 mean(g dy x), and that of
// the gains the sum over rows of dy x r, which is summed in pieces that do not depend on the number of
// threads.
#include "saccade/models/rms_norm.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"

namespace saccade {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

template <class Real>
Real dot(const Real* a, const Real* b, int64_t count) {
  constexpr int64_t kLanes = 16;  // so many sums side by side: the same whatever the vectors' length
  Real sums[kLanes] = {};
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes)
#pragma omp simd
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[k + lane] * b[k + lane];
  Real rest = 0;
  for (; k < count; ++k) rest += a[k] * b[k];
  for (int64_t half = kLanes / 2; half > 0; half /= 2)
    for (int64_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  return sums[0] + rest;
}

int64_t grain(int64_t width) { return std::max<int64_t>(1, 32768 / std::max<int64_t>(1, width)); }

// `scales`, one per row, may be null.
template <class Real>
void forward_rows(const Real* x, const Real* gains, Real* out, Real* scales, int64_t rows, int64_t width,
                  double epsilon) {
  at::parallel_for(0, rows, grain(width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const Real* a = x + row * width;
      Real* b = out + row * width;
      const Real scale =
          1 / std::sqrt(dot(a, a, width) / static_cast<Real>(width) + static_cast<Real>(epsilon));
#pragma omp simd
      for (int64_t k = 0; k < width; ++k) b[k] = a[k] * scale * gains[k];
      if (scales) scales[row] = scale;
    }
  });
}

template <class Real>
void backward_rows(const Real* x, const Real* gains, const Real* scales, const Real* dy, Real* dx,
                   Real* partial, int64_t rows, int64_t width, int64_t pieces) {
  at::parallel_for(0, pieces, 1, [&](int64_t first, int64_t last) {
    std::vector<Real> weighted(static_cast<size_t>(width));
    Real* between = weighted.data();
    for (int64_t piece = first; piece < last; ++piece) {
      Real* sums = partial + piece * width;
      for (int64_t row = rows * piece / pieces; row < rows * (piece + 1) / pieces; ++row) {
        const Real* a = x + row * width;
        const Real* d = dy + row * width;
        Real* to = dx + row * width;
        const Real scale = scales[row];
#pragma omp simd
        for (int64_t k = 0; k < width; ++k) between[k] = d[k] * gains[k];
        const Real along = dot(a, between, width) * scale * scale * scale / static_cast<Real>(width);
#pragma omp simd
        for (int64_t k = 0; k < width; ++k) {
          to[k] = between[k] * scale - a[k] * along;
          sums[k] += d[k] * a[k] * scale;
        }
      }
    }
  });
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, double epsilon) {
    const int64_t width = x.size(-1), rows = x.numel() / width;
    Tensor out = torch::empty_like(x), scales = torch::empty({rows}, x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rms_norm", [&] {
      forward_rows(x.const_data_ptr<scalar_t>(), weight.const_data_ptr<scalar_t>(), out.data_ptr<scalar_t>(),
                   scales.data_ptr<scalar_t>(), rows, width, epsilon);
    });
    context->save_for_backward({x, weight, scales});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require(!torch::GradMode::is_enabled(), "rms_norm: the norm can be differentiated only once");
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &scales = saved[2], dy = gradients[0].contiguous();
    const int64_t width = x.size(-1), rows = x.numel() / width;
    const int64_t pieces = std::max<int64_t>(1, std::min<int64_t>(64, rows / grain(width)));
    Tensor dx = torch::empty_like(x), partial = torch::zeros({pieces, width}, x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rms_norm", [&] {
      backward_rows(x.const_data_ptr<scalar_t>(), weight.const_data_ptr<scalar_t>(),
                    scales.const_data_ptr<scalar_t>(), dy.const_data_ptr<scalar_t>(), dx.data_ptr<scalar_t>(),
                    partial.data_ptr<scalar_t>(), rows, width, pieces);
    });
    return {dx, partial.sum(0), Tensor()};
  }
};

bool plain(const Tensor& tensor, at::ScalarType type) {
  return tensor.scalar_type() == type && tensor.device().is_cpu() && tensor.is_contiguous();
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  const at::ScalarType type = x.scalar_type();
  const bool known = type == torch::kFloat || type == torch::kDouble;
  if (!known || !plain(x, type) || !plain(weight, type) || x.numel() == 0) {
    const Tensor wide = x.to(compute_dtype(x));
    const Tensor scale = torch::rsqrt(wide.square().mean(-1, true) + epsilon);
    return ((wide * scale).to(type)) * weight;
  }
  if (torch::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad()))
    return RmsNorm::apply(x, weight, epsilon);
  Tensor out = torch::empty_like(x);
  const int64_t width = x.size(-1);
  AT_DISPATCH_FLOATING_TYPES(type, "rms_norm", [&] {
    forward_rows<scalar_t>(x.const_data_ptr<scalar_t>(), weight.const_data_ptr<scalar_t>(),
                           out.data_ptr<scalar_t>(), nullptr, x.numel() / width, width, epsilon);
  });
  return out;
}

}  // namespace saccade
