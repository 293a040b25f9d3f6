// Where the gradient of the loss goes: its norm in every part of every block, and in what enters the blocks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "saccade/models/transformer.h"

namespace saccade {

// Lets parameters ask for gradients, as long as it lives.
class AskForGradients {
 public:
  explicit AskForGradients(const std::vector<at::Tensor>& parameters);
  ~AskForGradients();
  AskForGradients(const AskForGradients&) = delete;
  AskForGradients& operator=(const AskForGradients&) = delete;

 private:
  std::vector<at::Tensor> switched_;
};

// Euclidean norms. Queries, keys and values are their rows of the projection's weight, `output` is the weight
// behind the heads; biases and norms count in the block alone.
struct LayerGradients {
  double entering;  // by the hidden states that enter the block
  double block;     // all parameters of the block
  double query, key, value, output, mlp;
  std::vector<double> query_heads, key_heads, value_heads, output_heads;
  std::map<std::string, double> formula;  // by each parameter that the formula learns
};

struct Gradients {
  double loss;       // mean over the tokens that are asked for, in nats
  double total;      // all parameters of the model
  double embedding;  // the tokens' embedding; when tied, with what it gets as the output
  std::vector<LayerGradients> layers;
};

// Of predicting each token from those before it; of a masked model, of giving each token back. The model's
// parameters, their `grad` and their `requires_grad` are left as they were. `ids` is [batch, tokens] with at
// least two tokens, or one for a masked model.
Gradients measure_gradients(Transformer& model, const at::Tensor& ids);

}  // namespace saccade
