// The comparison is made in double on the CPU, whatever the tensors are.
#include "saccade/certify/compare.h"

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"

namespace saccade {
namespace {

std::string place_text(int64_t flat, const at::Tensor& tensor) {
  std::string text;
  int64_t rest = flat;
  for (int64_t dimension = tensor.dim() - 1; dimension >= 0; --dimension) {
    text = std::to_string(rest % tensor.size(dimension)) + (text.empty() ? "" : ", ") + text;
    rest /= tensor.size(dimension);
  }
  return "[" + text + "]";
}

}  // namespace

std::string difference(std::string_view what, const at::Tensor& found, const at::Tensor& expected,
                       double tolerance) {
  if (!found.defined() || !expected.defined())
    return found.defined() == expected.defined() ? "" : fmt::format("{} is missing", what);
  if (found.sizes() != expected.sizes())
    return fmt::format("{} has shape {}; expected {}", what, shape_text(found), shape_text(expected));
  if (found.numel() == 0) return "";
  const at::Tensor a = found.detach().to(at::kCPU, at::kDouble).contiguous().flatten();
  const at::Tensor b = expected.detach().to(at::kCPU, at::kDouble).contiguous().flatten();
  const double *x = a.data_ptr<double>(), *y = b.data_ptr<double>();
  double magnitude = 1;
  for (int64_t index = 0; index < a.numel(); ++index)
    if (std::isfinite(y[index])) magnitude = std::max(magnitude, std::fabs(y[index]));
  int64_t worst = -1;
  double worst_error = tolerance * magnitude;
  for (int64_t index = 0; index < a.numel(); ++index) {
    const bool both_nan = std::isnan(x[index]) && std::isnan(y[index]);
    if (both_nan || x[index] == y[index]) continue;
    const double error = std::fabs(x[index] - y[index]);
    if (std::isfinite(error) && error <= worst_error) continue;
    worst = index;
    if (!std::isfinite(error)) break;
    worst_error = error;
  }
  if (worst < 0) return "";
  return fmt::format("{} {} is {:.6g}; expected {:.6g}", what, place_text(worst, found), x[worst], y[worst]);
}

std::string not_finite(std::string_view what, const at::Tensor& found) {
  const at::Tensor flat = found.detach().to(at::kCPU, at::kDouble).contiguous().flatten();
  const double* x = flat.data_ptr<double>();
  for (int64_t index = 0; index < flat.numel(); ++index)
    if (!std::isfinite(x[index]))
      return fmt::format("{} {} is {}; expected a finite number", what, place_text(index, found), x[index]);
  return "";
}

}  // namespace saccade
