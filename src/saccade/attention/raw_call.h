// From tensors to raw memory: the arguments of the operators checked against the formula and each other, and
// laid out as the kernels read them. Kernels trust their shapes, so whatever comes from outside ends here.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "saccade/formula/formula.h"
#include "saccade/kernels/kernels.h"

namespace saccade {

// A formula and its kernel plans, made once per text.
struct Compiled {
  Formula formula;
  kernels::KernelPlan without_key_mask, with_key_mask;
};
std::shared_ptr<const Compiled> compiled(std::string_view text);

using OptionalTensor = std::optional<at::Tensor>;

// What an operator and its gradient are given.
struct Arguments {
  std::string_view formula;
  at::TensorList queries, keys;
  const at::Tensor& value;
  at::TensorList tables;
  const OptionalTensor &key_mask, &list_starts, &list_keys;
  int64_t offset, first_key, query_tile, key_tile;
  double epsilon;
  bool skip, gather;
};

// What a gradient is computed from, beside the arguments.
struct SavedTensors {
  const at::Tensor& output_gradient;
  const OptionalTensor& log_sum_gradient;
  const at::Tensor &output, &log_sums, &partials;
};

// A call in raw memory. Keeps alive what it had to convert.
struct RawCall {
  std::shared_ptr<const Compiled> formula;
  const kernels::KernelPlan* plan = nullptr;
  kernels::Inputs inputs;
  std::vector<at::Tensor> kept;
};

// Numbers of tensors, their dimensions and dtypes: all that can be checked where sizes may be symbols. Throws
// Error.
void check_kinds(const Plan& plan, const Arguments& arguments);

// With all checks. Throws Error.
RawCall raw_call(const Arguments& arguments);

// Throws Error unless the saved tensors are those of such a call, and `wanted` has a place for each table.
void check_saved(const RawCall& call, const Arguments& arguments, const SavedTensors& saved,
                 at::IntArrayRef wanted);

// Vectors as the kernels see them; nothing for an undefined tensor.
kernels::Array array_of(const at::Tensor& tensor);

// The places of the operator's vectors among the plan's: 0 is q or k.
std::vector<size_t> vector_places(const Plan& plan, bool keys);

}  // namespace saccade
