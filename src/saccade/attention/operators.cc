// Registration of saccade::attention for CPU, autograd and shapes alone (Meta).
#include "saccade/attention/operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>

#include "saccade/attention/raw_call.h"
#include "saccade/attention/shapes.h"
#include "saccade/attention/skip_count.h"
#include "saccade/base/error.h"

namespace saccade {
namespace {

using at::Tensor;
using kernels::Array;

// What the operator says of its shapes without computing anything.
OperatorResults make_results(const Arguments& a, bool training) {
  check_kinds(compiled(a.formula)->formula.plan(), a);
  return empty_results(a.formula, a.queries[0], a.value, training);
}

std::tuple<Tensor, Tensor, Tensor> attention_meta(c10::string_view formula, at::TensorList queries,
                                                  at::TensorList keys, const Tensor& value,
                                                  at::TensorList tables, const OptionalTensor& key_mask,
                                                  const OptionalTensor& list_starts,
                                                  const OptionalTensor& list_keys, int64_t offset,
                                                  int64_t first_key, int64_t query_tile, int64_t key_tile,
                                                  double epsilon, bool skip, bool gather, bool training) {
  const Arguments a{formula, queries,   keys,       value,    tables,  key_mask, list_starts, list_keys,
                    offset,  first_key, query_tile, key_tile, epsilon, skip,     gather};
  OperatorResults results = make_results(a, training);
  return {results.output, results.log_sums, results.partials};
}

std::tuple<Tensor, Tensor, Tensor> attention_cpu(c10::string_view formula, at::TensorList queries,
                                                 at::TensorList keys, const Tensor& value,
                                                 at::TensorList tables, const OptionalTensor& key_mask,
                                                 const OptionalTensor& list_starts,
                                                 const OptionalTensor& list_keys, int64_t offset,
                                                 int64_t first_key, int64_t query_tile, int64_t key_tile,
                                                 double epsilon, bool skip, bool gather, bool training) {
  const Arguments a{formula, queries,   keys,       value,    tables,  key_mask, list_starts, list_keys,
                    offset,  first_key, query_tile, key_tile, epsilon, skip,     gather};
  const RawCall call = raw_call(a);
  OperatorResults results = make_results(a, training);
  const kernels::ForwardOutputs outputs{array_of(results.output), results.log_sums.data_ptr(),
                                        results.partials.numel() > 0 ? results.partials.data_ptr() : nullptr};
  const kernels::ForwardOptions options{skip, epsilon};
  if (compute_dtype(queries[0]) == at::kDouble)
    SkipCount::add(kernels::forward<double>(*call.plan, call.inputs, options, outputs));
  else
    SkipCount::add(kernels::forward<float>(*call.plan, call.inputs, options, outputs));
  return {results.output, results.log_sums, results.partials};
}

// The gradients of queries, keys, value and tables, in this order. Those of tables that are not `wanted` are
// empty.
std::vector<Tensor> make_gradients(const Arguments& a, at::IntArrayRef wanted) {
  std::vector<Tensor> gradients;
  for (const Tensor& tensor : a.queries)
    gradients.push_back(at::empty_like(tensor, at::MemoryFormat::Contiguous));
  for (const Tensor& tensor : a.keys)
    gradients.push_back(at::empty_like(tensor, at::MemoryFormat::Contiguous));
  gradients.push_back(at::empty_like(a.value, at::MemoryFormat::Contiguous));
  for (size_t index = 0; index < a.tables.size(); ++index)
    gradients.push_back(wanted[index]
                            ? at::zeros_symint(a.tables[index].sym_sizes(), a.tables[index].options())
                            : at::empty({0}, a.tables[index].options()));
  return gradients;
}

std::vector<Tensor> attention_backward_meta(const Tensor&, const OptionalTensor&, const Tensor&,
                                            const Tensor&, const Tensor&, c10::string_view formula,
                                            at::TensorList queries, at::TensorList keys, const Tensor& value,
                                            at::TensorList tables, const OptionalTensor& key_mask,
                                            const OptionalTensor& list_starts,
                                            const OptionalTensor& list_keys, int64_t offset,
                                            int64_t first_key, int64_t query_tile, int64_t key_tile,
                                            double epsilon, bool skip, bool gather, at::IntArrayRef wanted) {
  const Arguments a{formula, queries,   keys,       value,    tables,  key_mask, list_starts, list_keys,
                    offset,  first_key, query_tile, key_tile, epsilon, skip,     gather};
  check_kinds(compiled(formula)->formula.plan(), a);
  require(wanted.size() == tables.size(), "attention: wanted has {} entries; expected one per table, {}",
          wanted.size(), tables.size());
  return make_gradients(a, wanted);
}

std::vector<Tensor> attention_backward_cpu(
    const Tensor& output_gradient, const OptionalTensor& log_sum_gradient, const Tensor& output,
    const Tensor& log_sums, const Tensor& partials, c10::string_view formula, at::TensorList queries,
    at::TensorList keys, const Tensor& value, at::TensorList tables, const OptionalTensor& key_mask,
    const OptionalTensor& list_starts, const OptionalTensor& list_keys, int64_t offset, int64_t first_key,
    int64_t query_tile, int64_t key_tile, double epsilon, bool skip, bool gather, at::IntArrayRef wanted) {
  const Arguments a{formula, queries,   keys,       value,    tables,  key_mask, list_starts, list_keys,
                    offset,  first_key, query_tile, key_tile, epsilon, skip,     gather};
  const RawCall call = raw_call(a);
  check_saved(call, a, {output_gradient, log_sum_gradient, output, log_sums, partials}, wanted);
  const Plan& plan = call.formula->formula.plan();
  std::vector<Tensor> gradients = make_gradients(a, wanted);
  kernels::Gradients raw;
  size_t next = 0;
  const auto vectors = [&](bool of_keys, std::vector<Array>& arrays) {
    arrays.resize(plan.vectors.size() + 1);
    for (size_t place : vector_places(plan, of_keys)) arrays[place] = array_of(gradients[next++]);
  };
  vectors(false, raw.queries);
  vectors(true, raw.keys);
  raw.value = array_of(gradients[next++]);
  raw.tables.resize(call.inputs.tables.size());
  std::vector<Tensor> sums(tables.size());
  for (size_t index = 0; index < tables.size(); ++index) {
    if (!wanted[index] || !plan.tables[index].differentiable() || tables[index].numel() == 0) continue;
    sums[index] = at::zeros(tables[index].sizes(), tables[index].options().dtype(at::kDouble));
    kernels::Gradients::TableGradient& table = raw.tables[index];
    table.data = sums[index].data_ptr<double>();
    table.batch_stride = sums[index].size(0) == 1 ? 0 : sums[index].stride(0);
    table.head_stride = sums[index].size(1) == 1 ? 0 : sums[index].stride(1);
    for (int64_t place = 2; place < sums[index].dim(); ++place)
      table.stride[static_cast<size_t>(place - 2)] = sums[index].stride(place);
  }
  const kernels::ForwardOptions options{skip, epsilon};
  const Tensor log_sums_here = log_sums.contiguous(), partials_here = partials.contiguous();
  const Tensor log_sum_gradient_here = log_sum_gradient ? log_sum_gradient->contiguous() : Tensor();
  // A gradient that is one number for all elements comes without memory of its own.
  const Tensor gradient_here =
      output_gradient.stride(3) == 1 ? output_gradient : output_gradient.contiguous();
  const kernels::BackwardInputs saved{array_of(output), array_of(gradient_here), log_sums_here.data_ptr(),
                                      log_sum_gradient ? log_sum_gradient_here.data_ptr() : nullptr,
                                      partials_here.numel() > 0 ? partials_here.data_ptr() : nullptr};
  if (compute_dtype(queries[0]) == at::kDouble)
    kernels::backward<double>(*call.plan, call.inputs, options, saved, raw);
  else
    kernels::backward<float>(*call.plan, call.inputs, options, saved, raw);
  for (size_t index = 0; index < tables.size(); ++index)
    if (sums[index].defined()) gradients[next + index].copy_(sums[index]);
  return gradients;
}

// --- autograd ---

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Calls below autograd, through the dispatcher, so that tracing sees the operators.
const auto& forward_operator() {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("saccade::attention", "")
                                 .typed<decltype(attention_cpu)>();
  return handle;
}

const auto& backward_operator() {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("saccade::attention_backward", "")
                                 .typed<decltype(attention_backward_cpu)>();
  return handle;
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static variable_list forward(AutogradContext* context, std::string formula, at::TensorList queries,
                               at::TensorList keys, const Tensor& value, at::TensorList tables,
                               const OptionalTensor& key_mask, const OptionalTensor& list_starts,
                               const OptionalTensor& list_keys, int64_t offset, int64_t first_key,
                               int64_t query_tile, int64_t key_tile, double epsilon, bool skip, bool gather,
                               bool training) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [output, log_sums, partials] =
        forward_operator().call(formula, queries, keys, value, tables, key_mask, list_starts, list_keys,
                                offset, first_key, query_tile, key_tile, epsilon, skip, gather, training);
    variable_list saved{output, log_sums, partials};
    saved.insert(saved.end(), queries.begin(), queries.end());
    saved.insert(saved.end(), keys.begin(), keys.end());
    saved.push_back(value);
    saved.insert(saved.end(), tables.begin(), tables.end());
    for (const OptionalTensor* tensor : {&key_mask, &list_starts, &list_keys})
      saved.push_back(tensor->value_or(Tensor()));
    context->save_for_backward(saved);
    context->mark_non_differentiable({partials});
    context->set_materialize_grads(false);
    auto& data = context->saved_data;
    data["formula"] = formula;
    data["queries"] = static_cast<int64_t>(queries.size());
    data["keys"] = static_cast<int64_t>(keys.size());
    data["tables"] = static_cast<int64_t>(tables.size());
    data["numbers"] = std::vector<int64_t>{offset, first_key, query_tile, key_tile, skip, gather};
    data["epsilon"] = epsilon;
    return {output, log_sums, partials};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const auto count = [&](const char* name) { return static_cast<size_t>(data[name].toInt()); };
    const size_t queries = count("queries"), keys = count("keys"), tables = count("tables");
    const std::vector<int64_t> numbers = data["numbers"].toIntVector();
    // Formula; vectors, value and tables; three optional tensors; the numbers.
    variable_list result(1 + queries + keys + 1 + tables + 3 + 8);
    if (!gradients[0].defined() && !gradients[1].defined()) return result;
    const Tensor output_gradient = gradients[0].defined() ? gradients[0] : at::zeros_like(saved[0]);
    size_t at = 3;
    const auto take = [&](size_t number) {
      const at::TensorList part(saved.data() + at, number);
      at += number;
      return part;
    };
    const at::TensorList query_list = take(queries), key_list = take(keys);
    const Tensor& value = saved[at++];
    const at::TensorList table_list = take(tables);
    const auto optional = [](const Tensor& tensor) {
      return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
    };
    std::vector<int64_t> wanted;
    for (size_t index = 0; index < tables; ++index)
      wanted.push_back(context->needs_input_grad(queries + keys + 1 + index));
    std::vector<Tensor> computed = backward_operator().call(
        output_gradient, optional(gradients[1]), saved[0], saved[1], saved[2], data["formula"].toStringRef(),
        query_list, key_list, value, table_list, optional(saved[at]), optional(saved[at + 1]),
        optional(saved[at + 2]), numbers[0], numbers[1], numbers[2], numbers[3], data["epsilon"].toDouble(),
        numbers[4] != 0, numbers[5] != 0, wanted);
    for (size_t index = 0; index < computed.size(); ++index) {
      const bool table = index >= queries + keys + 1;
      if (!table || wanted[index - queries - keys - 1]) result[1 + index] = computed[index];
    }
    return result;
  }
};

std::tuple<Tensor, Tensor, Tensor> attention_autograd(c10::string_view formula, at::TensorList queries,
                                                      at::TensorList keys, const Tensor& value,
                                                      at::TensorList tables, const OptionalTensor& key_mask,
                                                      const OptionalTensor& list_starts,
                                                      const OptionalTensor& list_keys, int64_t offset,
                                                      int64_t first_key, int64_t query_tile, int64_t key_tile,
                                                      double epsilon, bool skip, bool gather, bool training) {
  // A gradient that will be asked for needs what training keeps, whether the caller thought of it or not.
  const auto needs_gradient = [](const Tensor& tensor) { return tensor.requires_grad(); };
  bool learns = needs_gradient(value);
  for (const at::TensorList list : {queries, keys, tables})
    learns |= std::any_of(list.begin(), list.end(), needs_gradient);
  learns &= at::GradMode::is_enabled();
  training |= learns;
  if (!learns) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return forward_operator().call(formula, queries, keys, value, tables, key_mask, list_starts, list_keys,
                                   offset, first_key, query_tile, key_tile, epsilon, skip, gather, training);
  }
  variable_list results = AttentionFunction::apply(std::string(formula), queries, keys, value, tables,
                                                   key_mask, list_starts, list_keys, offset, first_key,
                                                   query_tile, key_tile, epsilon, skip, gather, training);
  return {results[0], results[1], results[2]};
}

// The gradient is not itself differentiated: that would need the n x n map.
class BackwardFunction : public torch::autograd::Function<BackwardFunction> {
 public:
  static variable_list forward(AutogradContext*, const Tensor& output_gradient,
                               const OptionalTensor& log_sum_gradient, const Tensor& output,
                               const Tensor& log_sums, const Tensor& partials, std::string formula,
                               at::TensorList queries, at::TensorList keys, const Tensor& value,
                               at::TensorList tables, const OptionalTensor& key_mask,
                               const OptionalTensor& list_starts, const OptionalTensor& list_keys,
                               int64_t offset, int64_t first_key, int64_t query_tile, int64_t key_tile,
                               double epsilon, bool skip, bool gather, std::vector<int64_t> wanted) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return backward_operator().call(output_gradient, log_sum_gradient, output, log_sums, partials, formula,
                                    queries, keys, value, tables, key_mask, list_starts, list_keys, offset,
                                    first_key, query_tile, key_tile, epsilon, skip, gather, wanted);
  }
  static variable_list backward(AutogradContext*, const variable_list&) {
    fail(
        "attention: the fused path has no second derivative; use the reference path for that "
        "(AttentionOptions.path, or --path reference)");
  }
};

std::vector<Tensor> attention_backward_autograd(
    const Tensor& output_gradient, const OptionalTensor& log_sum_gradient, const Tensor& output,
    const Tensor& log_sums, const Tensor& partials, c10::string_view formula, at::TensorList queries,
    at::TensorList keys, const Tensor& value, at::TensorList tables, const OptionalTensor& key_mask,
    const OptionalTensor& list_starts, const OptionalTensor& list_keys, int64_t offset, int64_t first_key,
    int64_t query_tile, int64_t key_tile, double epsilon, bool skip, bool gather, at::IntArrayRef wanted) {
  return BackwardFunction::apply(output_gradient, log_sum_gradient, output, log_sums, partials,
                                 std::string(formula), queries, keys, value, tables, key_mask, list_starts,
                                 list_keys, offset, first_key, query_tile, key_tile, epsilon, skip, gather,
                                 wanted.vec());
}

#define SACCADE_ARGUMENTS                                                                             \
  "str formula, Tensor[] queries, Tensor[] keys, Tensor value, Tensor[] tables, Tensor? key_mask, "   \
  "Tensor? list_starts, Tensor? list_keys, int offset, int first_key, int query_tile, int key_tile, " \
  "float epsilon, bool skip, bool gather"

TORCH_LIBRARY(saccade, library) {
  library.def("attention(" SACCADE_ARGUMENTS
              ", bool training) -> (Tensor output, Tensor log_sums, Tensor partials)");
  library.def(
      "attention_backward(Tensor output_gradient, Tensor? log_sum_gradient, Tensor output, Tensor log_sums, "
      "Tensor "
      "partials, " SACCADE_ARGUMENTS ", int[] wanted) -> Tensor[]");
}

TORCH_LIBRARY_IMPL(saccade, CPU, library) {
  library.impl("attention", attention_cpu);
  library.impl("attention_backward", attention_backward_cpu);
}

TORCH_LIBRARY_IMPL(saccade, Meta, library) {
  library.impl("attention", attention_meta);
  library.impl("attention_backward", attention_backward_meta);
}

TORCH_LIBRARY_IMPL(saccade, Autograd, library) {
  library.impl("attention", attention_autograd);
  library.impl("attention_backward", attention_backward_autograd);
}

}  // namespace

OperatorResults empty_results(std::string_view formula, const Tensor& query, const Tensor& value,
                              bool training) {
  const kernels::KernelPlan& plan = compiled(formula)->without_key_mask;
  const auto options = query.options().dtype(compute_dtype(query));
  const c10::SymInt batch = query.sym_size(0), heads = query.sym_size(1), length = query.sym_size(2),
                    width = value.sym_size(3);
  const auto terms = static_cast<int64_t>(plan.terms.size());
  // In memory the heads of a token lie side by side, as the projection that follows reads them.
  return {at::empty_symint({batch, length, heads, width}, query.options()).transpose(1, 2),
          at::empty_symint({plan.norms(), batch, heads, length}, options),
          at::empty_symint({training && plan.needs_partials() ? terms : 0, batch, heads, length, width},
                           options)};
}

OperatorResults call_attention_operator(const OperatorInputs& inputs) {
  auto [output, log_sums, partials] = forward_operator().call(
      inputs.formula, inputs.queries, inputs.keys, inputs.value, inputs.tables, inputs.key_mask,
      inputs.list_starts, inputs.list_keys, inputs.offset, inputs.first_key, inputs.query_tile,
      inputs.key_tile, inputs.epsilon, inputs.skip, inputs.gather, inputs.training);
  return {output, log_sums, partials};
}

std::vector<Tensor> call_backward_operator(const OperatorInputs& inputs, const OperatorResults& results,
                                           const Tensor& output_gradient,
                                           const OptionalTensor& log_sum_gradient, at::IntArrayRef wanted) {
  return backward_operator().call(output_gradient, log_sum_gradient, results.output, results.log_sums,
                                  results.partials, inputs.formula, inputs.queries, inputs.keys, inputs.value,
                                  inputs.tables, inputs.key_mask, inputs.list_starts, inputs.list_keys,
                                  inputs.offset, inputs.first_key, inputs.query_tile, inputs.key_tile,
                                  inputs.epsilon, inputs.skip, inputs.gather, wanted);
}

}  // namespace saccade
