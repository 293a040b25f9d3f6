// The comparison is made in double on the CPU, whatever the tensors are.
#include "saccade/certify/compare.h"

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"
#include "saccade/base/text.h"

namespace saccade {
namespace {

// "the output at [head, query]" and element 5 become "the output at [head 1, query 2]".
std::string name_place(std::string_view what, int64_t flat, const at::Tensor& tensor) {
  std::vector<int64_t> place(static_cast<size_t>(tensor.dim()));
  for (int64_t dimension = tensor.dim() - 1, rest = flat; dimension >= 0; --dimension) {
    place[static_cast<size_t>(dimension)] = rest % tensor.size(dimension);
    rest /= tensor.size(dimension);
  }
  const size_t bracket = what.ends_with(']') ? what.rfind('[') : std::string_view::npos;
  std::string names(bracket == std::string_view::npos ? ""
                                                      : what.substr(bracket + 1, what.size() - bracket - 2));
  std::vector<std::string> parts;
  for (int64_t index : place) {
    const size_t comma = std::min(names.find(", "), names.size());
    const std::string name = names.substr(0, comma);
    names = names.substr(std::min(comma + 2, names.size()));
    parts.push_back(name.empty() ? std::to_string(index) : fmt::format("{} {}", name, index));
  }
  return fmt::format("{} [{}]", trim(what.substr(0, bracket)), join(parts, ", "));
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
  return fmt::format("{} is {:.9g}; expected {:.9g}", name_place(what, worst, found), x[worst], y[worst]);
}

std::string not_finite(std::string_view what, const at::Tensor& found) {
  const at::Tensor flat = found.detach().to(at::kCPU, at::kDouble).contiguous().flatten();
  const double* x = flat.data_ptr<double>();
  for (int64_t index = 0; index < flat.numel(); ++index)
    if (!std::isfinite(x[index]))
      return fmt::format("{} is {}; expected a finite number", name_place(what, index, found), x[index]);
  return "";
}

}  // namespace saccade
