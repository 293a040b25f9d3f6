// Gathers a call into the operator's arguments.
#include "saccade/attention/fused.h"

#include "saccade/base/error.h"

namespace saccade {

using torch::Tensor;

std::string fused_obstacle(const PairInputs& inputs, bool need_weights) {
  if (need_weights) return "the weights are asked for, which only the reference holds";
  if (inputs.dropout > 0) return "dropout of the weights is done by the reference";
  if (!inputs.value.device().is_cpu())
    return "the tensors are on " + inputs.value.device().str() + "; the fused kernels run on the CPU";
  return "";
}

OperatorInputs fused_operands(const Formula& formula, std::string text, const PairInputs& inputs) {
  const Plan& plan = formula.plan();
  OperatorInputs operands{.formula = std::move(text),
                          .queries = {inputs.queries[0]},
                          .keys = {inputs.keys[0]},
                          .value = inputs.value,
                          .offset = inputs.offset,
                          .first_key = inputs.first_key,
                          .epsilon = inputs.epsilon,
                          .skip = inputs.skip,
                          .gather = inputs.gather.value_or(true)};
  for (size_t index = 0; index < plan.vectors.size(); ++index) {
    if (!plan.vectors[index].used) continue;
    if (plan.vectors[index].for_keys)
      operands.keys.push_back(inputs.keys[index + 1]);
    else
      operands.queries.push_back(inputs.queries[index + 1]);
  }
  const auto dtype = inputs.queries[0].scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
  for (size_t index = 0; index < inputs.tables.size(); ++index) {
    const Tensor& table = inputs.tables[index];
    const TableInfo& info = plan.tables[index];
    // The kernels compute once for a batch what its declaration does not tie to a sequence.
    require(table.size(0) == 1 || (info.implied() & kReadsBatch),
            "attention: '{}' is given for each of {} sequences; the kernels need that to be declared, as "
            "'{}[batch, ...]'",
            info.name, table.size(0), info.name);
    operands.tables.push_back(table.to(dtype));
  }
  if (inputs.key_mask.defined()) operands.key_mask = inputs.key_mask;
  if (inputs.lists) {
    operands.list_starts = inputs.lists->starts;
    operands.list_keys = inputs.lists->keys;
    operands.query_tile = inputs.lists->query_tile;
    operands.key_tile = inputs.lists->key_tile;
  }
  return operands;
}

AttentionResult fused_attention(const Formula& formula, const PairInputs& inputs) {
  const OperatorResults results =
      call_attention_operator(fused_operands(formula, formula.resolved(), inputs));
  AttentionResult result;
  result.output = results.output;
  for (const Tensor& norm : results.log_sums.unbind(0)) result.log_sums.push_back(norm);
  return result;
}

}  // namespace saccade
