// Shapes and dtypes in words, for error messages that name what was given and what was expected.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace saccade {

// "[2, 8, 16, 64]", or "nothing" for an undefined tensor.
std::string shape_text(const at::Tensor& tensor);

// The dtype in which a formula is evaluated for inputs of this dtype: double stays, everything shorter
// becomes float.
at::ScalarType compute_dtype(const at::Tensor& tensor);

// Throws unless query, key and value fit together: [batch, heads, tokens, width] each.
void check_query_key_value(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value);

}  // namespace saccade
