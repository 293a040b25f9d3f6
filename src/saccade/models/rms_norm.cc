// The gradient of the gains is summed in pieces that do not depend on the number of threads.
#include "saccade/models/rms_norm.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"
#include "saccade/kernels/row_passes.h"

namespace saccade {

using at::Tensor;
using kernels::row_passes;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

int64_t rows_at_once(int64_t width) { return std::max<int64_t>(1, 32768 / std::max<int64_t>(1, width)); }

template <class Real>
const Real* read_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<Real>() : nullptr;
}

// What may be undefined: `change`, and then `sum` is not written; `scales`.
void norm_all(const Tensor& x, const Tensor& change, const Tensor& weight, double epsilon, const Tensor& sum,
              const Tensor& out, const Tensor& scales) {
  const int64_t width = x.size(-1);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rms_norm", [&] {
    const auto* from = x.const_data_ptr<scalar_t>();
    const auto* other = read_or_null<scalar_t>(change);
    const auto* gains = weight.const_data_ptr<scalar_t>();
    auto* added = change.defined() ? sum.data_ptr<scalar_t>() : nullptr;
    auto* to = out.data_ptr<scalar_t>();
    auto* kept = scales.defined() ? scales.data_ptr<scalar_t>() : nullptr;
    at::parallel_for(0, x.numel() / width, rows_at_once(width), [&](int64_t begin, int64_t end) {
      const int64_t first = begin * width;
      row_passes<scalar_t>().norm(from + first, other ? other + first : nullptr, gains, epsilon, end - begin,
                                  width, added ? added + first : nullptr, to + first,
                                  kept ? kept + begin : nullptr);
    });
  });
}

// `beside`, which may be undefined, is added to the gradient of x.
std::pair<Tensor, Tensor> norm_all_backward(const Tensor& x, const Tensor& weight, const Tensor& scales,
                                            const Tensor& gradient, const Tensor& beside) {
  const int64_t width = x.size(-1), rows = x.numel() / width;
  const int64_t pieces = std::max<int64_t>(1, std::min<int64_t>(64, rows / rows_at_once(width)));
  Tensor x_gradient = torch::empty_like(x), partial = torch::zeros({pieces, width}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rms_norm", [&] {
    const auto* from = x.const_data_ptr<scalar_t>();
    const auto* gains = weight.const_data_ptr<scalar_t>();
    const auto* kept = scales.const_data_ptr<scalar_t>();
    const auto* back = gradient.const_data_ptr<scalar_t>();
    const auto* other = read_or_null<scalar_t>(beside);
    auto* to = x_gradient.data_ptr<scalar_t>();
    auto* sums = partial.data_ptr<scalar_t>();
    at::parallel_for(0, pieces, 1, [&](int64_t first_piece, int64_t last_piece) {
      for (int64_t piece = first_piece; piece < last_piece; ++piece) {
        const int64_t begin = rows * piece / pieces, end = rows * (piece + 1) / pieces, first = begin * width;
        row_passes<scalar_t>().norm_backward(from + first, gains, kept + begin, back + first,
                                             other ? other + first : nullptr, end - begin, width, to + first,
                                             sums + piece * width);
      }
    });
  });
  return {x_gradient, partial.sum(0)};
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static variable_list forward(AutogradContext* context, const Tensor& x, const std::optional<Tensor>& change,
                               const Tensor& weight, double epsilon) {
    const int64_t width = x.size(-1);
    Tensor out = torch::empty_like(x), scales = torch::empty({x.numel() / width}, x.options());
    const Tensor stream = change ? torch::empty_like(x) : x;
    norm_all(x, change.value_or(Tensor()), weight, epsilon, stream, out, scales);
    context->save_for_backward({stream, weight, scales});
    context->saved_data["changed"] = change.has_value();
    context->set_materialize_grads(false);
    return {stream, out};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require(!torch::GradMode::is_enabled(), "rms_norm: the norm can be differentiated only once");
    const variable_list saved = context->get_saved_variables();
    const bool changed = context->saved_data["changed"].toBool();
    Tensor of_stream = gradients[0], of_weight;
    if (gradients[1].defined())
      std::tie(of_stream, of_weight) =
          norm_all_backward(saved[0], saved[1], saved[2], gradients[1].contiguous(),
                            of_stream.defined() ? of_stream.contiguous() : of_stream);
    return {of_stream, changed ? of_stream : Tensor(), of_weight, Tensor()};
  }
};

bool plain(const Tensor& tensor, at::ScalarType type) {
  return tensor.scalar_type() == type && tensor.device().is_cpu() && tensor.is_contiguous();
}

bool short_way(const Tensor& x, const Tensor& weight) {
  const at::ScalarType type = x.scalar_type();
  return (type == torch::kFloat || type == torch::kDouble) && plain(x, type) && plain(weight, type) &&
         x.numel() > 0;
}

bool learns(const Tensor& a, const Tensor& b) {
  return torch::GradMode::is_enabled() && (a.requires_grad() || b.requires_grad());
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  if (!short_way(x, weight)) {
    const Tensor wide = x.to(compute_dtype(x));
    const Tensor scale = torch::rsqrt(wide.square().mean(-1, true) + epsilon);
    return ((wide * scale).to(x.scalar_type())) * weight;
  }
  if (learns(x, weight)) return RmsNorm::apply(x, std::nullopt, weight, epsilon)[1];
  Tensor out = torch::empty_like(x);
  norm_all(x, Tensor(), weight, epsilon, Tensor(), out, Tensor());
  return out;
}

Branch rms_norm_branch(const Tensor& x, Tensor change, const Tensor& weight, double epsilon) {
  const bool changed = change.defined();
  const bool together =
      short_way(x, weight) && (!changed || (plain(change, x.scalar_type()) && change.sizes() == x.sizes()));
  if (!together) {
    const Tensor stream = changed ? add_to_stream(x, std::move(change)) : x;
    return {stream, rms_norm(stream, weight, epsilon)};
  }
  if (learns(x, weight) || (changed && learns(change, weight))) {
    const variable_list both =
        RmsNorm::apply(x, changed ? std::optional(change) : std::nullopt, weight, epsilon);
    return {both[0], both[1]};
  }
  const Tensor stream = changed ? change : x;
  Tensor out = torch::empty_like(x);
  norm_all(x, change, weight, epsilon, stream, out, Tensor());
  return {stream, out};
}

Tensor add_to_stream(const Tensor& x, Tensor change) {
  return learns(x, change) ? x + change : change.add_(x);
}

}  // namespace saccade
