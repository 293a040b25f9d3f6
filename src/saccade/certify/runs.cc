// Runs are compared by name: two implementations may register their parameters in different orders.
#include "saccade/certify/runs.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/certify/compare.h"

namespace saccade {
namespace {

using torch::Tensor;

template <class Compare>
std::string compare_each(std::string_view when, const std::vector<Named>& found,
                         const std::vector<Named>& expected, const Compare& compare) {
  for (const Named& right : expected) {
    const auto left = std::ranges::find(found, right.name, &Named::name);
    invariant(left != found.end(), "conformance: two runs with different tensors");
    if (auto wrong = compare(fmt::format("{}{} at", when, right.name), left->tensor, right.tensor);
        !wrong.empty())
      return wrong;
  }
  return "";
}

}  // namespace

std::vector<Named> leaves_of(AttentionImpl& module, Problem& problem) {
  std::vector<Named> leaves;
  const auto add = [&](std::string name, Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_floating_point()) return;
    tensor = tensor.detach().clone().requires_grad_(true);
    leaves.push_back({std::move(name), tensor});
  };
  add("query", problem.query);
  add("key", problem.key);
  add("value", problem.value);
  add("x", problem.call.x);
  for (auto& [name, input] : problem.call.inputs) add(name, input);
  for (const auto& entry : module.named_parameters()) leaves.push_back({entry.key(), entry.value()});
  return leaves;
}

Tensor loss_of(const Tensor& tensor, int64_t seed, std::string_view name) {
  const Tensor finite = torch::where(torch::isinf(tensor), torch::zeros_like(tensor), tensor);
  return (finite * normal_tensor(tensor.sizes(), seed, name, tensor.scalar_type())).sum();
}

std::vector<Tensor> gradients_of(const Tensor& loss, const std::vector<Named>& leaves) {
  torch::autograd::variable_list inputs, gradients(leaves.size());
  for (const Named& leaf : leaves) inputs.push_back(leaf.tensor);
  if (loss.requires_grad())
    gradients = torch::autograd::grad({loss}, inputs, {}, {}, false, /*allow_unused=*/true);
  for (size_t index = 0; index < gradients.size(); ++index)
    if (!gradients[index].defined()) gradients[index] = torch::zeros_like(inputs[index]);
  return gradients;
}

std::vector<Named> whole_run(AttentionImpl& module, Problem problem, int64_t seed, const Adjust& adjust) {
  const std::vector<Named> leaves = leaves_of(module, problem);
  PairInputs inputs = module.prepare(problem.query, problem.key, problem.value, problem.call, nullptr);
  if (adjust) adjust(inputs);
  const AttentionResult result = module.attend(inputs, false);
  std::vector<Named> run{{"the output", result.output.detach()}};
  Tensor loss = loss_of(result.output, seed);
  for (size_t norm = 0; norm < result.log_sums.size(); ++norm) {
    run.push_back({fmt::format("log-sum {}", norm), result.log_sums[norm].detach()});
    loss = loss + loss_of(result.log_sums[norm], seed, run.back().name);
  }
  const std::vector<Tensor> gradients = gradients_of(loss, leaves);
  for (size_t index = 0; index < leaves.size(); ++index)
    run.push_back({"the gradient of " + leaves[index].name, gradients[index]});
  return run;
}

std::string compare_runs(std::string_view when, const std::vector<Named>& found,
                         const std::vector<Named>& expected, double tolerance) {
  return compare_each(when, found, expected,
                      [&](const std::string& what, const Tensor& left, const Tensor& right) {
                        return difference(what, left, right, tolerance);
                      });
}

std::string compare_bits(std::string_view when, const std::vector<Named>& found,
                         const std::vector<Named>& expected) {
  return compare_each(when, found, expected,
                      [](const std::string& what, const Tensor& left, const Tensor& right) -> std::string {
                        if (torch::equal(left, right)) return "";
                        const auto wrong = difference(what, left, right, 0);
                        return wrong.empty() ? what + " every place has other bits" : wrong;
                      });
}

}  // namespace saccade
