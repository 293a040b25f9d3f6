// Checks of a single call's result.
#include "saccade/certify/compare.h"
#include "saccade/certify/oracle.h"
#include "saccade/certify/problem.h"
#include "saccade/certify/properties.h"

namespace saccade::properties {
namespace {

using torch::Tensor;

AttentionResult run(AttentionImpl& module, const Problem& problem) {
  torch::NoGradGuard no_gradient;
  return module.run(problem.query, problem.key, problem.value, problem.call);
}

PairInputs honest_inputs(const Subject& subject, const AttentionImpl& module, const Problem& problem) {
  torch::NoGradGuard no_gradient;
  return subject.honest(module)->prepare(problem.query, problem.key, problem.value, problem.call, nullptr);
}

std::string compare_with_oracle(const Subject& subject, const Case& c, Problem problem, double tolerance) {
  const auto module = subject.module(c);
  const AttentionResult found = run(*module, problem);
  const AttentionResult expected =
      oracle_attention(subject.formula.plan(), honest_inputs(subject, *module, problem));
  if (auto wrong = difference("the output at [sequence, head, query, column]", found.output, expected.output,
                              tolerance);
      !wrong.empty())
    return wrong;
  for (size_t norm = 0; norm < expected.log_sums.size(); ++norm)
    if (auto wrong = difference("the log-sum at [sequence, head, query]", found.log_sums.at(norm),
                                expected.log_sums[norm], tolerance);
        !wrong.empty())
      return wrong;
  if (module->options().path == Path::fused) return "";  // it never holds the weights
  problem.call.need_weights = true;
  return difference("the weight at [sequence, head, query, key]", run(*module, problem).weights,
                    expected.weights, tolerance);
}

}  // namespace

std::string definition(const Subject& subject, const Case& c) {
  return compare_with_oracle(subject, c, make_problem(subject.formula, c), kDoubleTolerance);
}

std::string shapes(const Subject& subject, const Case& c) {
  const auto module = subject.module(c, torch::kFloat);
  const Problem problem = make_problem(subject.formula, c, torch::kFloat);
  const Tensor output = run(*module, problem).output;
  const std::vector<int64_t> expected{c.batch, c.heads, c.queries, c.value_dim};
  if (output.sizes() != at::IntArrayRef(expected))
    return difference("the output", output, torch::empty(expected), 0);
  if (output.scalar_type() != torch::kFloat)
    return fmt::format("the output of float inputs has dtype {}", c10::toString(output.scalar_type()));
  return not_finite("the output at [sequence, head, query, column]", output);
}

std::string broadcasting(const Subject& subject, const Case& c) {
  const auto module = subject.module(c);
  const Problem problem = make_problem(subject.formula, c);
  const Tensor together = run(*module, problem).output;
  for (int64_t b = 0; b < c.batch; ++b) {
    Problem alone = problem;
    const auto pick = [&](Tensor& tensor) {
      if (tensor.defined()) tensor = tensor.narrow(0, b, 1);
    };
    pick(alone.query);
    pick(alone.key);
    pick(alone.value);
    pick(alone.call.x);
    for (const TableInfo& table : subject.formula.plan().tables) {
      if (table.source != TableInfo::Source::input) continue;
      Tensor& input = alone.call.inputs.at(table.name);
      const bool undeclared =
          !table.has(Dimension::Kind::batch) && input.dim() > static_cast<int64_t>(table.dimensions.size());
      int64_t place = -1;
      for (size_t index = 0; index < table.dimensions.size(); ++index)
        if (table.dimensions[index].kind == Dimension::Kind::batch) place = static_cast<int64_t>(index);
      if (undeclared) place = 0;
      if (place >= 0) input = input.narrow(place, b, 1);
    }
    const auto wrong = difference(fmt::format("sequence {} of {}, at [_, head, query, column]", b, c.batch),
                                  together.narrow(0, b, 1), run(*module, alone).output, kDoubleTolerance);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string grouped_heads(const Subject& subject, const Case& c) {
  const auto module = subject.module(c);
  const Problem problem = make_problem(subject.formula, c);
  // The same attention with one key head per query head, each a copy of the one it belongs to.
  const int64_t group = c.heads / c.kv_heads;
  Case spread = c;
  spread.kv_heads = c.heads;
  auto separate = std::make_shared<AttentionImpl>(subject.formula, options_of(spread));
  separate->to(torch::kDouble);
  {
    torch::NoGradGuard no_gradient;
    const auto source = module->named_parameters();
    for (auto& entry : separate->named_parameters()) {
      Tensor value = source[entry.key()];
      if (value.sizes() != entry.value().sizes()) {
        const int64_t rows = value.size(0) / c.kv_heads;  // weights of key vectors are stacked by key head
        value = value.view({c.kv_heads, rows, -1}).repeat_interleave(group, 0).view(entry.value().sizes());
      }
      entry.value().copy_(value);
    }
  }
  Problem expanded = problem;
  expanded.key = problem.key.repeat_interleave(group, 1);
  expanded.value = problem.value.repeat_interleave(group, 1);
  return difference("the output at [sequence, head, query, column]", run(*module, problem).output,
                    run(*separate, expanded).output, kDoubleTolerance);
}

std::string rotary(const Subject& subject, const Case& c) {
  Case plain = c, turned = c;
  plain.rotary = 0;
  turned.rotary = 1;
  const Problem problem = make_problem(subject.formula, c);
  Problem by_hand = problem;
  const int table = subject.formula.plan().position_table();
  Tensor positions = torch::arange(c.queries, torch::kLong);
  if (table >= 0) positions = problem.call.inputs.at("pos");
  by_hand.query = rotate(problem.query, positions, RotaryOptions{});
  by_hand.key = rotate(problem.key, positions, RotaryOptions{});
  const auto with = subject.module(turned), without = subject.module(plain);
  return difference("the output at [sequence, head, query, column]", run(*with, problem).output,
                    run(*without, by_hand).output, kDoubleTolerance);
}

std::string non_contiguous(const Subject& subject, const Case& c) {
  const auto module = subject.module(c);
  const Problem problem = make_problem(subject.formula, c);
  Problem strided = problem;
  // Heads and tokens swapped in memory, as a projection leaves them; and every other element of a larger
  // tensor.
  strided.query = problem.query.transpose(1, 2).contiguous().transpose(1, 2);
  strided.key = problem.key.transpose(2, 3).contiguous().transpose(2, 3);
  strided.value = torch::stack({problem.value, problem.value + 1}, -1).select(-1, 0);
  if (problem.call.x.defined()) strided.call.x = problem.call.x.transpose(0, 1).contiguous().transpose(0, 1);
  for (auto& [name, input] : strided.call.inputs)
    if (input.dim() >= 2) input = input.transpose(0, 1).contiguous().transpose(0, 1);
  return difference("the output at [sequence, head, query, column]", run(*module, strided).output,
                    run(*module, problem).output, kDoubleTolerance);
}

std::string dtypes(const Subject& subject, const Case& c) {
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    const Problem stored = make_problem(subject.formula, c, dtype);
    const auto widen = [](const Tensor& tensor) {
      return tensor.defined() && tensor.is_floating_point() ? tensor.to(torch::kFloat) : tensor;
    };
    Problem widened = stored;
    widened.query = widen(stored.query);
    widened.key = widen(stored.key);
    widened.value = widen(stored.value);
    widened.call.x = widen(stored.call.x);
    for (auto& [name, input] : widened.call.inputs) input = widen(input);
    const auto module = subject.module(c, torch::kFloat);
    const Tensor found = run(*module, stored).output;
    if (found.scalar_type() != dtype)
      return fmt::format("the output of {} inputs has dtype {}", c10::toString(dtype),
                         c10::toString(found.scalar_type()));
    // Arithmetic is in float: what differs is the storage of the result, and of vectors computed on the way.
    const double rounding = dtype == torch::kBFloat16 ? 1.0 / 256 : 1.0 / 2048;
    const bool computes_vectors =
        subject.formula.plan().needs_layer_input() || !subject.formula.plan().vectors.empty() || c.rotary;
    const auto wrong =
        difference(fmt::format("the {} output at [sequence, head, query, column]", c10::toString(dtype)),
                   found, run(*module, widened).output, (computes_vectors ? 32 : 1.01) * rounding);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string repeated_tokens(const Subject& subject, const Case& c) {
  const auto module = subject.module(c);
  Problem problem = make_problem(subject.formula, c);
  problem.key = problem.key.narrow(2, 0, 1).expand_as(problem.key);
  problem.query = problem.query.narrow(2, 0, 1).expand_as(problem.query);
  problem.value = problem.value.narrow(2, 0, 1).expand_as(problem.value);
  if (problem.call.x.defined()) problem.call.x = problem.call.x.narrow(1, 0, 1).expand_as(problem.call.x);
  const Tensor found = run(*module, problem).output;
  problem.call.need_weights = true;
  const Tensor weights = run(*subject.honest(*module), problem).weights;
  const Tensor value = problem.value.narrow(2, 0, 1).repeat_interleave(c.heads / c.kv_heads, 1);
  const Tensor expected = weights.to(torch::kDouble).sum(-1, true) * value;
  return difference("the output at [sequence, head, query, column]", found, expected, kDoubleTolerance);
}

std::string extreme_values(const Subject& subject, const Case& c) {
  // In float, against the formula in double: where the true result is a number, so must be ours.
  for (const double factor : {1e-30, 1e-3, 30.0, 1e3}) {
    Problem problem = make_problem(subject.formula, c);
    problem.query = problem.query * factor;
    const auto module = subject.module(c);
    const AttentionResult expected =
        oracle_attention(subject.formula.plan(), honest_inputs(subject, *module, problem));
    Problem in_float = problem;
    in_float.query = problem.query.to(torch::kFloat);
    in_float.key = problem.key.to(torch::kFloat);
    in_float.value = problem.value.to(torch::kFloat);
    const auto narrow = subject.make(subject.formula, options_of(c));
    {
      torch::NoGradGuard no_gradient;
      const auto source = module->named_parameters();
      for (auto& entry : narrow->named_parameters()) entry.value().copy_(source[entry.key()]);
    }
    const Tensor found = run(*narrow, in_float).output;
    const double largest = expected.output.abs().max().item<double>();
    if (!std::isfinite(largest) || largest > 1e37) continue;
    if (auto wrong = not_finite(
            fmt::format("with queries times {}, the output at [sequence, head, query, column]", factor),
            found);
        !wrong.empty())
      return wrong;
  }
  return "";
}

}  // namespace saccade::properties
