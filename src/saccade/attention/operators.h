// The torch operators of the fused path. They take finished vectors and tables and the formula as text.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace saccade {

struct OperatorInputs {
  std::string formula;              // with its constants resolved
  std::vector<at::Tensor> queries;  // q, then the formula's query vectors in order
  std::vector<at::Tensor> keys;     // k, then the formula's key vectors
  at::Tensor value;
  std::vector<at::Tensor> tables;      // canonical layout, in the compute type
  std::optional<at::Tensor> key_mask;  // [batch, keys], Boolean
  std::optional<at::Tensor> list_starts, list_keys;
  int64_t offset = 0, first_key = 0, query_tile = 64, key_tile = 1;
  double epsilon = 0;
  bool skip = true, gather = true;
  bool training = false;  // keep what a gradient needs
};

// What the operator gives: the output, the log-sums [norm, batch, head, query], and what only a gradient
// needs.
struct OperatorResults {
  at::Tensor output, log_sums, partials;
};

// Through the dispatcher.
OperatorResults call_attention_operator(const OperatorInputs& inputs);

// The gradients of queries, keys, value and tables, in this order; empty for tables that are not wanted.
std::vector<at::Tensor> call_backward_operator(const OperatorInputs& inputs, const OperatorResults& results,
                                               const at::Tensor& output_gradient,
                                               const std::optional<at::Tensor>& log_sum_gradient,
                                               at::IntArrayRef wanted);

// Memory for the results of a formula's call, by shapes alone.
OperatorResults empty_results(std::string_view formula, const at::Tensor& query, const at::Tensor& value,
                              bool training);

}  // namespace saccade
