// Whole calls of attention as torch operators, for Python: a formula, query, key and value, and all else as
// tensors by name. saccade::attend runs the fused path and is one operator for autograd and for whatever
// traces: what is per token is computed inside it, and once more in its gradient. saccade::attend_reference
// is the definition in plain tensor operations, on any device, with weights, dropout and second derivatives.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "saccade/attention/attention.h"
#include "saccade/attention/fused.h"
#include "saccade/attention/operators.h"
#include "saccade/attention/python_errors.h"
#include "saccade/attention/raw_call.h"
#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"

namespace saccade {
namespace {

using at::Tensor;
using Names = c10::List<std::string>;

// What both operators and the gradient are given.
struct Given {
  c10::string_view formula, name;
  Tensor query, key, value;
  const Names& names;  // "param:alpha", "input:doc", "x", "memory" or "key_mask", one for each tensor
  std::vector<Tensor> tensors;
  int64_t offset, first_key;
  double epsilon;
};

// A formula under the name that its error messages show, parsed once.
Formula formula_of(c10::string_view text, c10::string_view name) {
  static std::mutex mutex;
  static auto& cache = *new std::map<std::pair<std::string, std::string>, Formula>;
  std::pair key{std::string(name), std::string(text)};
  const std::lock_guard lock(mutex);
  auto found = cache.find(key);
  if (found == cache.end()) found = cache.emplace(key, Formula::parse(key.second, {.name = key.first})).first;
  return found->second;
}

// A module that lives for one call, over tensors that Python owns.
struct Call {
  std::shared_ptr<AttentionImpl> attention;
  AttentionCall call;
};

Call read_call(const Given& given, Path path) {
  check_query_key_value(given.query, given.key, given.value);
  require(given.names.size() == given.tensors.size(), "attention: {} names are given for {} tensors",
          given.names.size(), given.tensors.size());
  Call result;
  Learned learned;
  AttentionOptions options{.heads = given.query.size(1),
                           .kv_heads = given.key.size(1),
                           .head_dim = given.query.size(3),
                           .path = path,
                           .epsilon = given.epsilon};
  result.call.offset = given.offset;
  result.call.first_key = given.first_key;
  for (size_t index = 0; index < given.tensors.size(); ++index) {
    const std::string label = given.names.get(index);
    const Tensor& tensor = given.tensors[index];
    if (label.starts_with("param:"))
      learned[label.substr(6)] = tensor;
    else if (label.starts_with("input:"))
      result.call.inputs[label.substr(6)] = tensor;
    else if (label == "x")
      result.call.x = tensor;
    else if (label == "memory")
      result.call.memory = tensor;
    else if (label == "key_mask")
      result.call.key_mask = tensor;
    else
      fail("attention: a tensor is called '{}'; expected 'param:', 'input:', x, memory or key_mask", label);
  }
  if (result.call.x.defined() && result.call.x.dim() == 3) options.model_dim = result.call.x.size(2);
  const Formula formula = formula_of(given.formula, given.name);
  require(!formula.plan().needs_layer_input() || result.call.x.defined(),
          "attention: the formula '{}' is computed from the layer's input x, which this call does not give",
          formula.name());
  result.attention = std::make_shared<AttentionImpl>(formula, options, learned);
  return result;
}

OperatorInputs read_operands(const Given& given) {
  const Call call = read_call(given, Path::fused);
  const PairInputs pairs = call.attention->checked_pairs(given.query, given.key, given.value, call.call);
  return fused_operands(call.attention->formula(), std::string(given.formula), pairs);
}

// --- the fused path

std::tuple<Tensor, Tensor, Tensor> attend_cpu(c10::string_view formula, c10::string_view name,
                                              const Tensor& query, const Tensor& key, const Tensor& value,
                                              Names names, at::TensorList tensors, int64_t offset,
                                              int64_t first_key, double epsilon, bool training) {
  return with_python_errors([&]() -> std::tuple<Tensor, Tensor, Tensor> {
    OperatorInputs operands =
        read_operands({formula, name, query, key, value, names, tensors.vec(), offset, first_key, epsilon});
    operands.training = training;
    const OperatorResults results = call_attention_operator(operands);
    return {results.output, results.log_sums, results.partials};
  });
}

std::tuple<Tensor, Tensor, Tensor> attend_meta(c10::string_view formula, c10::string_view,
                                               const Tensor& query, const Tensor& key, const Tensor& value,
                                               Names, at::TensorList, c10::SymInt, c10::SymInt, double,
                                               bool training) {
  return with_python_errors([&]() -> std::tuple<Tensor, Tensor, Tensor> {
    for (const Tensor* tensor : {&query, &key, &value})
      require(tensor->dim() == 4,
              "attention: a tensor has {} dimensions; expected [batch, heads, tokens, width]", tensor->dim());
    const OperatorResults results = empty_results(formula, query, value, training);
    return {results.output, results.log_sums, results.partials};
  });
}

// Autograd where the dispatcher has already left it behind: inside a kernel.
struct AutogradHere {
  c10::impl::ForceDispatchKeyGuard keys{
      c10::impl::tls_local_dispatch_key_set().included_,
      c10::impl::tls_local_dispatch_key_set().excluded_ - c10::autograd_dispatch_keyset_with_ADInplaceOrView};
  at::AutoGradMode recording{true};
};

// An operator's results share no memory, but a sum gives one gradient to both of its operands.
std::vector<Tensor> apart(std::vector<Tensor> tensors) {
  for (size_t index = 0; index < tensors.size(); ++index) {
    tensors[index] = tensors[index].contiguous();
    for (size_t before = 0; before < index; ++before)
      if (tensors[index].numel() > 0 && tensors[index].is_alias_of(tensors[before])) {
        tensors[index] = tensors[index].clone();
        break;
      }
  }
  return tensors;
}

// The gradients of query, key, value and the tensors; empty where `wanted` is 0.
std::vector<Tensor> attend_backward_cpu(const Tensor& output_gradient, const OptionalTensor& log_sum_gradient,
                                        const Tensor& output, const Tensor& log_sums, const Tensor& partials,
                                        c10::string_view formula, c10::string_view name, const Tensor& query,
                                        const Tensor& key, const Tensor& value, Names names,
                                        at::TensorList tensors, int64_t offset, int64_t first_key,
                                        double epsilon, at::IntArrayRef wanted) {
  return with_python_errors([&] {
    require(wanted.size() == tensors.size() + 3, "attention: wanted has {} entries; expected {}",
            wanted.size(), tensors.size() + 3);
    std::vector<Tensor> leaves{query, key, value};
    leaves.insert(leaves.end(), tensors.begin(), tensors.end());
    for (size_t index = 0; index < leaves.size(); ++index) {
      leaves[index] = leaves[index].detach();
      if (wanted[index]) leaves[index].requires_grad_();
    }
    OperatorInputs operands;
    {
      const AutogradHere here;
      operands =
          read_operands({formula, name, leaves[0], leaves[1], leaves[2], names,
                         std::vector<Tensor>(leaves.begin() + 3, leaves.end()), offset, first_key, epsilon});
    }
    std::vector<int64_t> wanted_tables;
    for (const Tensor& table : operands.tables) wanted_tables.push_back(table.requires_grad());
    const std::vector<Tensor> computed = call_backward_operator(
        operands, {output, log_sums, partials}, output_gradient, log_sum_gradient, wanted_tables);
    std::vector<Tensor> finished = operands.queries;
    finished.insert(finished.end(), operands.keys.begin(), operands.keys.end());
    finished.push_back(operands.value);
    finished.insert(finished.end(), operands.tables.begin(), operands.tables.end());
    std::vector<Tensor> roots, root_gradients, targets;
    for (size_t index = 0; index < finished.size(); ++index) {
      if (!finished[index].requires_grad()) continue;
      roots.push_back(finished[index]);
      root_gradients.push_back(computed[index]);
    }
    for (size_t index = 0; index < leaves.size(); ++index)
      if (wanted[index]) targets.push_back(leaves[index]);
    std::vector<Tensor> gradients;
    if (!targets.empty() && !roots.empty()) {
      const AutogradHere here;
      gradients = torch::autograd::grad(roots, targets, root_gradients, /*retain_graph=*/false,
                                        /*create_graph=*/false, /*allow_unused=*/true);
    }
    gradients.resize(targets.size());
    std::vector<Tensor> result;
    size_t next = 0;
    for (size_t index = 0; index < leaves.size(); ++index) {
      if (!wanted[index]) {
        result.push_back(at::empty({0}, leaves[index].options()));
        continue;
      }
      const Tensor& gradient = gradients[next++];
      result.push_back(gradient.defined() ? gradient : at::zeros_like(leaves[index]));
    }
    return apart(std::move(result));
  });
}

std::vector<Tensor> attend_backward_meta(const Tensor&, const OptionalTensor&, const Tensor&, const Tensor&,
                                         const Tensor&, c10::string_view, c10::string_view,
                                         const Tensor& query, const Tensor& key, const Tensor& value, Names,
                                         at::TensorList tensors, c10::SymInt, c10::SymInt, double,
                                         at::IntArrayRef wanted) {
  std::vector<Tensor> all{query, key, value}, result;
  all.insert(all.end(), tensors.begin(), tensors.end());
  for (size_t index = 0; index < all.size(); ++index)
    result.push_back(wanted[index] ? at::empty_symint(all[index].sym_sizes(), all[index].options())
                                   : at::empty({0}, all[index].options()));
  return result;
}

// --- autograd

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using Forward = std::tuple<Tensor, Tensor, Tensor>(c10::string_view, c10::string_view, const Tensor&,
                                                   const Tensor&, const Tensor&, Names, at::TensorList,
                                                   c10::SymInt, c10::SymInt, double, bool);
using Backward = std::vector<Tensor>(const Tensor&, const OptionalTensor&, const Tensor&, const Tensor&,
                                     const Tensor&, c10::string_view, c10::string_view, const Tensor&,
                                     const Tensor&, const Tensor&, Names, at::TensorList, c10::SymInt,
                                     c10::SymInt, double, at::IntArrayRef);

const auto& attend_operator() {
  static const auto handle =
      c10::Dispatcher::singleton().findSchemaOrThrow("saccade::attend", "").typed<Forward>();
  return handle;
}

const auto& attend_backward_operator() {
  static const auto handle =
      c10::Dispatcher::singleton().findSchemaOrThrow("saccade::attend_backward", "").typed<Backward>();
  return handle;
}

bool learns(at::TensorList tensors) {
  return at::GradMode::is_enabled() && std::any_of(tensors.begin(), tensors.end(), [](const Tensor& tensor) {
           return tensor.requires_grad();
         });
}

class AttendFunction : public torch::autograd::Function<AttendFunction> {
 public:
  static variable_list forward(AutogradContext* context, std::string formula, std::string name,
                               const Tensor& query, const Tensor& key, const Tensor& value, Names names,
                               at::TensorList tensors, c10::SymInt offset, c10::SymInt first_key,
                               double epsilon) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [output, log_sums, partials] = attend_operator().call(
        formula, name, query, key, value, names, tensors, offset, first_key, epsilon, /*training=*/true);
    variable_list saved{output, log_sums, partials, query, key, value};
    saved.insert(saved.end(), tensors.begin(), tensors.end());
    context->save_for_backward(saved);
    context->mark_non_differentiable({partials});
    context->set_materialize_grads(false);
    auto& data = context->saved_data;
    data["formula"] = formula;
    data["name"] = name;
    data["names"] = names;
    data["offset"] = offset;
    data["first_key"] = first_key;
    data["epsilon"] = epsilon;
    return {output, log_sums, partials};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const at::TensorList tensors(saved.data() + 6, saved.size() - 6);
    // Formula and name; query, key and value; names; tensors; three numbers.
    variable_list result(2 + 3 + 1 + tensors.size() + 3);
    if (!gradients[0].defined() && !gradients[1].defined()) return result;
    const Tensor output_gradient = gradients[0].defined() ? gradients[0] : at::zeros_like(saved[0]);
    std::vector<int64_t> wanted;
    for (size_t index = 0; index < 3 + tensors.size(); ++index)
      wanted.push_back(context->needs_input_grad(index));
    std::vector<Tensor> computed = attend_backward_operator().call(
        output_gradient, gradients[1].defined() ? OptionalTensor(gradients[1]) : std::nullopt, saved[0],
        saved[1], saved[2], data["formula"].toStringRef(), data["name"].toStringRef(), saved[3], saved[4],
        saved[5], data["names"].to<Names>(), tensors, data["offset"].toSymInt(), data["first_key"].toSymInt(),
        data["epsilon"].toDouble(), wanted);
    for (size_t index = 0; index < computed.size(); ++index)
      if (wanted[index]) result[(index < 3 ? 2 : 3) + index] = computed[index];
    return result;
  }
};

std::tuple<Tensor, Tensor, Tensor> attend_autograd(c10::string_view formula, c10::string_view name,
                                                   const Tensor& query, const Tensor& key,
                                                   const Tensor& value, Names names, at::TensorList tensors,
                                                   c10::SymInt offset, c10::SymInt first_key, double epsilon,
                                                   bool training) {
  if (!learns({query, key, value}) && !learns(tensors)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return attend_operator().call(formula, name, query, key, value, names, tensors, offset, first_key,
                                  epsilon, training);
  }
  variable_list results = AttendFunction::apply(std::string(formula), std::string(name), query, key, value,
                                                names, tensors, offset, first_key, epsilon);
  return {results[0], results[1], results[2]};
}

// Stands between a gradient and what it was computed from, and refuses to be differentiated.
class NoSecondDerivative : public torch::autograd::Function<NoSecondDerivative> {
 public:
  static variable_list forward(AutogradContext*, at::TensorList gradients, at::TensorList) {
    variable_list result;
    for (const Tensor& gradient : gradients) result.push_back(gradient.alias());
    return result;
  }
  static variable_list backward(AutogradContext*, const variable_list&) {
    TORCH_CHECK_NOT_IMPLEMENTED(false,
                                "attention: the fused path has no second derivative; use the reference path "
                                "for that (path=\"reference\")");
  }
};

std::vector<Tensor> attend_backward_autograd(const Tensor& output_gradient,
                                             const OptionalTensor& log_sum_gradient, const Tensor& output,
                                             const Tensor& log_sums, const Tensor& partials,
                                             c10::string_view formula, c10::string_view name,
                                             const Tensor& query, const Tensor& key, const Tensor& value,
                                             Names names, at::TensorList tensors, c10::SymInt offset,
                                             c10::SymInt first_key, double epsilon, at::IntArrayRef wanted) {
  std::vector<Tensor> computed;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    computed = attend_backward_operator().call(output_gradient, log_sum_gradient, output, log_sums, partials,
                                               formula, name, query, key, value, names, tensors, offset,
                                               first_key, epsilon, wanted);
  }
  std::vector<Tensor> sources{output_gradient, query, key, value};
  sources.insert(sources.end(), tensors.begin(), tensors.end());
  if (!learns(sources)) return computed;
  return NoSecondDerivative::apply(at::TensorList(computed), at::TensorList(sources));
}

// --- the definition

std::tuple<Tensor, Tensor> attend_reference(c10::string_view formula, c10::string_view name,
                                            const Tensor& query, const Tensor& key, const Tensor& value,
                                            Names names, at::TensorList tensors, int64_t offset,
                                            int64_t first_key, double dropout, bool need_weights) {
  return with_python_errors([&]() -> std::tuple<Tensor, Tensor> {
    Call call = read_call({formula, name, query, key, value, names, tensors.vec(), offset, first_key, 0},
                          Path::reference);
    call.call.dropout = dropout;
    call.call.need_weights = need_weights;
    const AttentionResult result = call.attention->run(query, key, value, call.call);
    return {result.output, need_weights ? result.weights : at::empty({0}, result.output.options())};
  });
}

// What a layer with this formula learns, at its start: the names, one per line, and the values.
std::tuple<std::string, std::vector<Tensor>> start_values(c10::string_view formula, c10::string_view name,
                                                          int64_t heads, int64_t kv_heads, int64_t head_dim,
                                                          int64_t model_dim) {
  return with_python_errors([&]() -> std::tuple<std::string, std::vector<Tensor>> {
    const AttentionImpl attention(
        formula_of(formula, name),
        {.heads = heads, .kv_heads = kv_heads, .head_dim = head_dim, .model_dim = model_dim});
    std::string names;
    std::vector<Tensor> values;
    for (const auto& item : attention.named_parameters()) {
      names += (names.empty() ? "" : "\n") + item.key();
      values.push_back(item.value().detach());
    }
    return {names, values};
  });
}

#define SACCADE_CALL                                                                               \
  "str formula, str name, Tensor query, Tensor key, Tensor value, str[] names, Tensor[] tensors, " \
  "SymInt offset, SymInt first_key"

TORCH_LIBRARY_FRAGMENT(saccade, library) {
  library.def("attend(" SACCADE_CALL
              ", float epsilon, bool training) -> (Tensor output, Tensor log_sums, Tensor partials)");
  library.def(
      "attend_backward(Tensor output_gradient, Tensor? log_sum_gradient, Tensor output, Tensor log_sums, "
      "Tensor partials, " SACCADE_CALL ", float epsilon, int[] wanted) -> Tensor[]");
  library.def("attend_reference(" SACCADE_CALL
              ", float dropout, bool need_weights) -> (Tensor output, Tensor weights)",
              attend_reference);
  library.def(
      "start_values(str formula, str name, int heads, int kv_heads, int head_dim, int model_dim) -> "
      "(str, Tensor[])",
      start_values);
}

TORCH_LIBRARY_IMPL(saccade, CPU, library) {
  library.impl("attend", attend_cpu);
  library.impl("attend_backward", attend_backward_cpu);
}

TORCH_LIBRARY_IMPL(saccade, Meta, library) {
  library.impl("attend", attend_meta);
  library.impl("attend_backward", attend_backward_meta);
}

TORCH_LIBRARY_IMPL(saccade, Autograd, library) {
  library.impl("attend", attend_autograd);
  library.impl("attend_backward", attend_backward_autograd);
}

}  // namespace
}  // namespace saccade
