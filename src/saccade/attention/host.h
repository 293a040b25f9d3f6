// Executes host expressions: the learned maps of a vector or token definition, and their evaluation for a run
// of tokens.
#pragma once

#include <torch/nn/module.h>

#include <map>
#include <string>

#include "saccade/attention/cache.h"
#include "saccade/formula/host.h"

namespace saccade {

// What a formula has learned, by the names that a module gives its parameters: "alpha", "F.project.weight".
using Learned = std::map<std::string, at::Tensor>;

struct HostShape {
  int64_t heads = 1;  // of the result
  int64_t head_dim = 1;
  int64_t model_dim = 0;  // width of the layer's input
};

// What a host expression reads for the tokens at hand.
struct HostInputs {
  at::Tensor layer_input;          // [batch, tokens, model_dim]; undefined in functional use
  at::Tensor heads;                // q or k, [batch, heads, tokens, head_dim]; also sets the dtype
  std::vector<at::Tensor> tables;  // params of the formula, canonical; others undefined
  KvCache* cache = nullptr;        // running sums continue from it
};

// One vector or token definition with its weights: `project.weight`, `linear.weight`, and `project1.weight`
// and so on for further ones.
class HostExpressionImpl : public torch::nn::Module {
 public:
  // `learned`: the weights, for whoever keeps them elsewhere; null: new ones are drawn.
  HostExpressionImpl(std::string name, HostPtr host, HostShape shape, const Learned* learned = nullptr);

  // [batch, heads, tokens, head_dim] for a vector, [batch, heads, tokens, 1] for a token.
  at::Tensor forward(const HostInputs& inputs);

 private:
  void create_weights(const HostNode& node, const Learned* learned);
  at::Tensor evaluate(const HostNode& node, const HostInputs& inputs);
  at::Tensor project(const HostNode& node, const HostInputs& inputs);
  at::Tensor running_sum(const HostNode& node, const at::Tensor& values, const HostInputs& inputs);

  std::string name_;
  HostPtr host_;
  HostShape shape_;
};
TORCH_MODULE(HostExpression);

}  // namespace saccade
