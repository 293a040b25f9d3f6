// One run of an implementation and everything that it gives: output, log-sums and the gradient of whatever
// has one, by name.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "saccade/certify/problem.h"

namespace saccade {

struct Named {
  std::string name;
  at::Tensor tensor;
};

// Everything a gradient is asked of: query, key, value, x, real inputs, learned parameters. Those of the
// problem become leaves of their own.
std::vector<Named> leaves_of(AttentionImpl& module, Problem& problem);

// A loss that weighs every number differently, so that no error cancels. Infinities, which log-sums of empty
// rows are, stay out of it.
at::Tensor loss_of(const at::Tensor& tensor, int64_t seed, std::string_view name = "loss");

// The gradient of each leaf, 0 where the loss does not depend on it.
std::vector<at::Tensor> gradients_of(const at::Tensor& loss, const std::vector<Named>& leaves);

// What a run is given beside its problem.
using Adjust = std::function<void(PairInputs&)>;

// The output, the log-sums, and the gradients of a loss over all of them.
std::vector<Named> whole_run(AttentionImpl& module, Problem problem, int64_t seed, const Adjust& adjust = {});

// Empty if every tensor of `expected` has its equal in `found`, as difference() tells; `when` begins the
// sentence.
std::string compare_runs(std::string_view when, const std::vector<Named>& found,
                         const std::vector<Named>& expected, double tolerance);
// The same to the last bit.
std::string compare_bits(std::string_view when, const std::vector<Named>& found,
                         const std::vector<Named>& expected);

}  // namespace saccade
