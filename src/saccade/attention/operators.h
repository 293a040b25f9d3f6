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
};

// Output and log-sums [norm, batch, head, query], through the dispatcher.
std::tuple<at::Tensor, at::Tensor> call_attention_operator(const OperatorInputs& inputs);

}  // namespace saccade
