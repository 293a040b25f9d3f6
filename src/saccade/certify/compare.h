// Comparing tensors for checks: the largest difference, with its place, in words.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

namespace saccade {

// Two ways of adding the same numbers in double differ by far less than this.
inline constexpr double kDoubleTolerance = 1e-9;

// Empty if `found` equals `expected` within `tolerance` times the larger of 1 and the largest expected
// magnitude; infinities and NaN must agree exactly. Otherwise a sentence with the worst element. `what` may
// end with the dimensions' names, as in "the output at [head, query]"; the place is then told with them.
std::string difference(std::string_view what, const at::Tensor& found, const at::Tensor& expected,
                       double tolerance);

// Empty if every element is finite.
std::string not_finite(std::string_view what, const at::Tensor& found);

}  // namespace saccade
