// The n x n map of a formula in plain torch operations under torch's own autograd: what someone without
// Saccade would write. Rivals get their masks and biases from it, and the naive rival is made of it.
#pragma once

#include "saccade/attention/reference.h"

namespace saccade::bench {

class DenseMap {
 public:
  // `rows`: the positions of the queries to compute, by default all of them. Streams need all.
  DenseMap(const Plan& plan, const PairInputs& inputs, at::Tensor rows = {});

  // A node as a tensor that broadcasts to [batch, heads, queries, keys]. Of the norms it knows the softmax
  // without a sink; it needs the mask as a tensor, too.
  at::Tensor value(NodeId node, const at::Tensor& mask = {});
  // The same with 0 in place of every stream: what a score adds to s.
  at::Tensor without_streams(NodeId node);

 private:
  at::Tensor evaluate(const Node& node, const at::Tensor& mask);
  at::Tensor variable(Variable variable) const;
  at::Tensor stream(const StreamInfo& info) const;
  at::Tensor read(const Node& node) const;

  const Plan& plan_;
  const PairInputs& inputs_;
  at::Tensor rows_;
  at::TensorOptions options_;
  bool streams_are_zero_ = false;
  std::vector<at::Tensor> values_;
};

}  // namespace saccade::bench
