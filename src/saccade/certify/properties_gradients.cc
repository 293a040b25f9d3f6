// Checks of derivatives, of padding, and of what must not depend on chance.
#include <ATen/Parallel.h>

#include "saccade/certify/compare.h"
#include "saccade/certify/problem.h"
#include "saccade/certify/properties.h"
#include "saccade/certify/runs.h"

namespace saccade::properties {
namespace {

using torch::Tensor;

Tensor loss_of(AttentionImpl& module, const Problem& problem, int64_t seed) {
  return saccade::loss_of(module.forward(problem.query, problem.key, problem.value, problem.call), seed);
}

std::vector<Tensor> gradients_of(AttentionImpl& module, const Problem& problem,
                                 const std::vector<Named>& leaves, int64_t seed) {
  return saccade::gradients_of(loss_of(module, problem, seed), leaves);
}

// The slope of the loss along a direction, by central differences. Three step widths, because a step may
// cross a kink.
std::string compare_with_slope(AttentionImpl& module, const Problem& problem, const Named& leaf,
                               const Tensor& gradient, int64_t seed) {
  torch::NoGradGuard no_gradient;
  const Tensor direction = normal_tensor(leaf.tensor.sizes(), seed, "direction " + leaf.name, torch::kDouble);
  const double expected_scale = (gradient.abs() * direction.abs()).sum().item<double>();
  const double found = (gradient * direction).sum().item<double>();
  const Tensor original = leaf.tensor.clone();
  double slope = 0;
  for (const double width : {1e-5, 1e-6, 1e-4}) {
    leaf.tensor.copy_(original + width * direction);
    const double above = loss_of(module, problem, seed).item<double>();
    leaf.tensor.copy_(original - width * direction);
    const double below = loss_of(module, problem, seed).item<double>();
    leaf.tensor.copy_(original);
    slope = (above - below) / (2 * width);
    const double rounding = 1e-14 * (std::fabs(above) + std::fabs(below) + 1) / width;
    if (std::fabs(slope - found) <= 1e-5 * (std::fabs(slope) + expected_scale) + 10 * rounding) return "";
  }
  return fmt::format(
      "the slope of a loss along a direction of {} is {:.6g} by its gradient, {:.6g} by finite differences",
      leaf.name, found, slope);
}

std::string compare_gradients(const Subject& subject, const Case& c,
                              const std::shared_ptr<AttentionImpl>& module) {
  Problem problem = make_problem(subject.formula, c);
  const std::vector<Named> leaves = leaves_of(*module, problem);
  const std::vector<Tensor> gradients = gradients_of(*module, problem, leaves, c.seed);
  for (size_t index = 0; index < leaves.size(); ++index) {
    if (auto wrong = not_finite("the gradient of " + leaves[index].name + " at", gradients[index]);
        !wrong.empty())
      return wrong;
    if (auto wrong = compare_with_slope(*module, problem, leaves[index], gradients[index], c.seed);
        !wrong.empty())
      return wrong;
  }
  return "";
}

std::vector<Named> whole_run(const Subject& subject, const Case& c) {
  return saccade::whole_run(*subject.module(c, torch::kFloat),
                            make_problem(subject.formula, c, torch::kFloat), c.seed);
}

}  // namespace

std::string gradients(const Subject& subject, const Case& c) {
  return compare_gradients(subject, c, subject.module(c));
}

std::string gradients_at_bounds(const Subject& subject, const Case& c) {
  for (const bool upper : {false, true}) {
    const auto module = subject.module(c);
    for (const TableInfo& table : subject.formula.plan().tables) {
      if (table.source != TableInfo::Source::param) continue;
      torch::NoGradGuard no_gradient;
      const double bound = upper ? table.high : table.low;
      if (std::isfinite(bound)) module->named_parameters()[table.name].fill_(bound);
    }
    if (auto wrong = compare_gradients(subject, c, module); !wrong.empty())
      return fmt::format("with parameters at their {} bounds, {}", upper ? "upper" : "lower", wrong);
  }
  return "";
}

std::string finite_gradients(const Subject& subject, const Case& c) {
  for (const bool repeated : {false, true}) {
    auto module = subject.module(c);
    if (!repeated) {  // once at the start values, where training begins
      module = subject.make(subject.formula, options_of(c));
      module->to(torch::kDouble);
    }
    Problem problem = make_problem(subject.formula, c);
    if (repeated) {
      problem.query = torch::ones_like(problem.query);
      problem.key = torch::zeros_like(problem.key);
    }
    const std::vector<Named> leaves = leaves_of(*module, problem);
    const std::vector<Tensor> found = gradients_of(*module, problem, leaves, c.seed);
    for (size_t index = 0; index < leaves.size(); ++index)
      if (auto wrong = not_finite("the gradient of " + leaves[index].name + " at", found[index]);
          !wrong.empty())
        return wrong;
  }
  return "";
}

std::string padding(const Subject& subject, const Case& c) {
  const auto module = subject.module(c);
  Problem problem = make_problem(subject.formula, c);
  const int64_t padded = (c.keys + 2) / 3;
  const int64_t real = c.keys - padded;
  // The last keys are padding for every sequence; what they hold must not matter, to values and to gradients.
  problem.call.key_mask = torch::arange(c.keys).lt(real).unsqueeze(0).expand({c.batch, c.keys}).contiguous();
  const auto filled_with = [&](double filler) {
    Problem copy = problem;
    copy.key = problem.key.clone();
    copy.value = problem.value.clone();
    copy.key.narrow(2, real, padded).fill_(filler);
    copy.value.narrow(2, real, padded).fill_(filler);
    return copy;
  };
  Problem zeros = filled_with(0), garbage = filled_with(std::numeric_limits<double>::quiet_NaN());
  const auto zero_leaves = leaves_of(*module, zeros), garbage_leaves = leaves_of(*module, garbage);
  const Tensor expected = module->forward(zeros.query, zeros.key, zeros.value, zeros.call);
  const Tensor found = module->forward(garbage.query, garbage.key, garbage.value, garbage.call);
  if (auto wrong = difference("with NaN in the padding, the output at [sequence, head, query, column]", found,
                              expected, 1e-12);
      !wrong.empty())
    return wrong;
  const auto expected_gradients = gradients_of(*module, zeros, zero_leaves, c.seed);
  const auto found_gradients = gradients_of(*module, garbage, garbage_leaves, c.seed);
  for (size_t index = 0; index < zero_leaves.size(); ++index)
    if (auto wrong = difference("with NaN in the padding, the gradient of " + zero_leaves[index].name + " at",
                                found_gradients[index], expected_gradients[index], 1e-12);
        !wrong.empty())
      return wrong;
  // Shorter keys without padding give the same, unless the formula counts them.
  if (real == 0 || subject.formula.plan().uses_length() || subject.formula.plan().needs_layer_input())
    return "";
  for (const TableInfo& table : subject.formula.plan().tables)
    if (table.source == TableInfo::Source::input) return "";
  Problem cut = problem;
  cut.key = problem.key.narrow(2, 0, real);
  cut.value = problem.value.narrow(2, 0, real);
  cut.call.key_mask.reset();
  torch::NoGradGuard no_gradient;
  return difference("against keys cut off instead of padded, the output at [sequence, head, query, column]",
                    expected, module->forward(cut.query, cut.key, cut.value, cut.call), 1e-9);
}

std::string masked_rows(const Subject& subject, const Case& c) {
  const auto module = subject.module(c);
  Problem problem = make_problem(subject.formula, c);
  problem.call.key_mask = torch::zeros({c.batch, c.keys}, torch::kBool);
  const std::vector<Named> leaves = leaves_of(*module, problem);
  const AttentionResult result = module->run(problem.query, problem.key, problem.value, problem.call);
  if (auto wrong = difference("with every key padded, the output at [sequence, head, query, column]",
                              result.output, torch::zeros_like(result.output), 0);
      !wrong.empty())
    return wrong;
  for (size_t norm = 0; norm < result.log_sums.size(); ++norm) {
    if (subject.formula.plan().norms[norm].sink != kNoNode) continue;  // the sink itself is still there
    if (auto wrong =
            difference("with every key padded, the log-sum at [sequence, head, query]", result.log_sums[norm],
                       torch::full_like(result.log_sums[norm], -std::numeric_limits<double>::infinity()), 0);
        !wrong.empty())
      return wrong;
  }
  const std::vector<Tensor> found = gradients_of(*module, problem, leaves, c.seed);
  for (size_t index = 0; index < leaves.size(); ++index)
    if (auto wrong = difference("with every key padded, the gradient of " + leaves[index].name + " at",
                                found[index], torch::zeros_like(found[index]), 0);
        !wrong.empty())
      return wrong;
  return "";
}

std::string deterministic(const Subject& subject, const Case& c) {
  return compare_bits("in a second run, ", whole_run(subject, c), whole_run(subject, c));
}

std::string threads(const Subject& subject, const Case& c) {
  // Over many tokens torch's own products add in an order that depends on the threads: those of the
  // reference, and those of whatever is computed per token.
  const Plan& plan = subject.formula.plan();
  const bool products_of_torch = plan.needs_layer_input() || !plan.vectors.empty() ||
                                 subject.module(c)->options().path == Path::reference;
  if (products_of_torch && std::max(c.keys, c.offset + c.queries) > 100) return "";
  const int before = at::get_num_threads();
  std::string wrong;
  at::set_num_threads(1);
  const auto alone = whole_run(subject, c);
  for (int count : {2, 3}) {
    at::set_num_threads(count);
    wrong = compare_bits(fmt::format("with {} threads, ", count), whole_run(subject, c), alone);
    if (!wrong.empty()) break;
  }
  at::set_num_threads(before);
  return wrong;
}

}  // namespace saccade::properties
