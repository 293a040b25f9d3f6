// AdamW over a model's parameters in three groups: matrices decay; gains, biases and embeddings of positions
// do not; what formulas learn does not and has a rate of its own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "saccade/models/transformer.h"
#include "saccade/train/recipe.h"

namespace saccade {

class Optimiser {
 public:
  Optimiser(const Transformer& model, const TrainOptions& options);

  // One step with the gradients in .grad, which must all be there, at this learning rate. Brings what
  // formulas learn back into its bounds.
  void step(double rate);
  void clear_gradients();

  // The length of all gradients together; with `longest` above 0 they are shortened to it. NaN or infinity
  // stays.
  double clip_gradients(double longest);
  // The name of a parameter whose gradient has a number that is not finite, or whose values have one; "" if
  // there is none.
  std::string find_unhealthy() const;

  // All that it remembers, by names that hold for any model: for files. Loading fills these tensors.
  std::map<std::string, at::Tensor> state() const;
  void set_steps(int64_t steps);

  struct Parameter {
    std::string name;
    at::Tensor value, first, second;  // moments
    at::Tensor count;                 // of steps, as the fused operation wants it
  };
  struct Group {
    double decay, rate;  // the rate as a multiple
    std::vector<Parameter> parameters;
  };
  const std::vector<Group>& groups() const { return groups_; }

 private:
  Transformer model_;
  TrainOptions options_;
  std::vector<Group> groups_;
};

}  // namespace saccade
