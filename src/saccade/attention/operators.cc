// Registration of saccade::attention for CPU, autograd and shapes alone (Meta), and the way from tensors to
// raw memory.
#include "saccade/attention/operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <map>
#include <mutex>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"
#include "saccade/formula/formula.h"
#include "saccade/kernels/kernels.h"

namespace saccade {
namespace {

using at::Tensor;
using kernels::Array;
using kernels::Storage;
using OptionalTensor = std::optional<Tensor>;

// A formula and its kernel plans, made once per text.
struct Compiled {
  Formula formula;
  kernels::KernelPlan without_key_mask, with_key_mask;
};

std::shared_ptr<const Compiled> compiled(const std::string& text) {
  static std::mutex mutex;
  static auto& cache = *new std::map<std::string, std::shared_ptr<const Compiled>>;
  const std::lock_guard lock(mutex);
  auto& entry = cache[text];
  if (!entry) {
    const Formula formula = Formula::parse(text);
    entry =
        std::make_shared<const Compiled>(Compiled{formula, kernels::make_kernel_plan(formula.plan(), false),
                                                  kernels::make_kernel_plan(formula.plan(), true)});
  }
  return entry;
}

at::ScalarType compute_type(const Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

Storage storage_of(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return Storage::float32;
    case at::kDouble:
      return Storage::float64;
    case at::kBFloat16:
      return Storage::bfloat16;
    case at::kHalf:
      return Storage::float16;
    default:
      break;
  }
  fail("attention: vectors have dtype {}; expected float, double, bfloat16 or half",
       c10::toString(tensor.scalar_type()));
}

Array array_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  require(tensor.dim() == 4, "attention: a vector has shape {}; expected [batch, heads, tokens, width]",
          shape_text(tensor));
  return {tensor.data_ptr(), storage_of(tensor), tensor.stride(0), tensor.stride(1),
          tensor.stride(2),  tensor.stride(3),   tensor.size(3)};
}

// What the operator and its gradient are given.
struct Arguments {
  std::string_view formula;
  at::TensorList queries, keys;
  const Tensor& value;
  at::TensorList tables;
  const OptionalTensor &key_mask, &list_starts, &list_keys;
  int64_t offset, first_key, query_tile, key_tile;
  double epsilon;
  bool skip;
};

// A call in raw memory. Keeps alive what it had to convert.
struct RawCall {
  std::shared_ptr<const Compiled> formula;
  const kernels::KernelPlan* plan = nullptr;
  kernels::Inputs inputs;
  std::vector<Tensor> kept;
};

// The places of the operator's vectors among the plan's: 0 is q or k.
std::vector<size_t> vector_places(const Plan& plan, bool keys) {
  std::vector<size_t> places{0};
  for (size_t index = 0; index < plan.vectors.size(); ++index)
    if (plan.vectors[index].used && plan.vectors[index].for_keys == keys) places.push_back(index + 1);
  return places;
}

void check_lists(const Arguments& a, const kernels::Shape& shape) {
  const Tensor &starts = *a.list_starts, &keys = *a.list_keys;
  require(a.query_tile > 0 && a.key_tile > 0,
          "attention: lists are for tiles of {} x {}; expected at least 1 x 1", a.query_tile, a.key_tile);
  const int64_t tiles = (shape.queries + a.query_tile - 1) / a.query_tile;
  require(starts.dim() == 3 && starts.scalar_type() == at::kInt && keys.scalar_type() == at::kInt &&
              (starts.size(0) == 1 || starts.size(0) == shape.batch) &&
              (starts.size(1) == 1 || starts.size(1) == shape.heads) && starts.size(2) == tiles + 1,
          "attention: the lists' starts have shape {} and dtype {}; expected [{} or 1, {} or 1, {}], int",
          shape_text(starts), c10::toString(starts.scalar_type()), shape.batch, shape.heads, tiles + 1);
  const int64_t key_tiles = (shape.keys + a.key_tile - 1) / a.key_tile;
  const auto* key = keys.data_ptr<int32_t>();
  for (int64_t row = 0; row < starts.size(0) * starts.size(1); ++row)
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int32_t* start = starts.data_ptr<int32_t>() + row * (tiles + 1) + tile;
      require(0 <= start[0] && start[0] <= start[1] && start[1] <= keys.numel(),
              "attention: list {} goes from {} to {} of {} entries", tile, start[0], start[1], keys.numel());
      for (int32_t entry = start[0]; entry < start[1]; ++entry)
        require(
            key[entry] >= 0 && key[entry] < key_tiles && (entry == start[0] || key[entry - 1] < key[entry]),
            "attention: list {} names key tile {}; expected ascending numbers below {}", tile, key[entry],
            key_tiles);
    }
}

RawCall raw_call(const Arguments& a) {
  RawCall call;
  call.formula = compiled(std::string(a.formula));
  const bool masked = a.key_mask.has_value() && a.key_mask->defined();
  call.plan = masked ? &call.formula->with_key_mask : &call.formula->without_key_mask;
  const Plan& plan = call.formula->formula.plan();
  const Tensor& query = a.queries[0];
  const Tensor& key = a.keys[0];
  kernels::Inputs& inputs = call.inputs;
  require(query.dim() == 4 && key.dim() == 4 && a.value.dim() == 4,
          "attention: query, key and value have {}, {} and {} dimensions; expected 4 each", query.dim(),
          key.dim(), a.value.dim());
  inputs.shape = {query.size(0), query.size(1), key.size(1), query.size(2),
                  key.size(2),   a.offset,      a.first_key};
  const auto places = [&](at::TensorList tensors, bool keys, std::vector<Array>& arrays) {
    const std::vector<size_t> at = vector_places(plan, keys);
    require(tensors.size() == at.size(), "attention: the formula has {} {} vectors; {} are given", at.size(),
            keys ? "key" : "query", tensors.size());
    arrays.resize(plan.vectors.size() + 1);
    for (size_t index = 0; index < at.size(); ++index) {
      arrays[at[index]] = array_of(tensors[index]);
      require(tensors[index].scalar_type() == query.scalar_type(),
              "attention: vectors of dtype {} and {} are mixed", c10::toString(query.scalar_type()),
              c10::toString(tensors[index].scalar_type()));
    }
  };
  places(a.queries, false, inputs.queries);
  places(a.keys, true, inputs.keys);
  inputs.value = array_of(a.value);
  const auto type = compute_type(query);
  for (size_t index = 0; index < a.tables.size(); ++index) {
    const Tensor& tensor = call.kept.emplace_back(a.tables[index].to(type));
    const std::vector<Dimension> dimensions = plan.tables[index].subscripted();
    require(tensor.dim() == static_cast<int64_t>(dimensions.size()) + 2,
            "attention: the table '{}' has shape {}; expected batch, head and {} more",
            plan.tables[index].name, shape_text(tensor), dimensions.size());
    kernels::Table table{tensor.data_ptr(), tensor.size(0) == 1 ? 0 : tensor.stride(0),
                         tensor.size(1) == 1 ? 0 : tensor.stride(1)};
    for (size_t place = 0; place < dimensions.size(); ++place) {
      const auto dimension = static_cast<int64_t>(place) + 2;
      table.size[place] = tensor.size(dimension);
      table.stride[place] = tensor.stride(dimension);
      table.origin[place] = origin_of(dimensions[place], tensor.size(dimension), a.offset, a.first_key);
    }
    inputs.tables.push_back(table);
  }
  require(a.tables.size() == plan.tables.size(), "attention: the formula has {} tables; {} are given",
          plan.tables.size(), a.tables.size());
  if (masked) {
    const Tensor& mask = call.kept.emplace_back(a.key_mask->to(type).contiguous());
    inputs.tables.push_back(
        {mask.data_ptr(), mask.stride(0), 0, {mask.size(1), 1, 1}, {1, 0, 0}, {a.first_key, 0, 0}});
  }
  if (a.list_starts && a.list_keys) {
    call.kept.push_back(a.list_starts->contiguous());
    call.kept.push_back(a.list_keys->contiguous());
    const Tensor& starts = call.kept[call.kept.size() - 2];
    check_lists({a.formula, a.queries, a.keys, a.value, a.tables, a.key_mask, starts, call.kept.back(),
                 a.offset, a.first_key, a.query_tile, a.key_tile, a.epsilon, a.skip},
                inputs.shape);
    inputs.lists = {a.query_tile,
                    a.key_tile,
                    starts.data_ptr<int32_t>(),
                    call.kept.back().data_ptr<int32_t>(),
                    starts.size(0) == 1 ? 0 : starts.stride(0),
                    starts.size(1) == 1 ? 0 : starts.stride(1)};
  }
  return call;
}

struct Results {
  Tensor output, log_sums, partials;
};

// The results' memory; also what the operator says of its shapes without computing anything.
Results make_results(const Arguments& a, bool training) {
  const auto formula = compiled(std::string(a.formula));
  const kernels::KernelPlan& plan = formula->without_key_mask;
  const Tensor& query = a.queries[0];
  const auto options = query.options().dtype(compute_type(query));
  const c10::SymInt batch = query.sym_size(0), heads = query.sym_size(1), length = query.sym_size(2),
                    width = a.value.sym_size(3);
  const auto terms = static_cast<int64_t>(plan.terms.size());
  return {at::empty_symint({batch, heads, length, width}, query.options()),
          at::empty_symint({plan.norms(), batch, heads, length}, options),
          at::empty_symint({training && plan.needs_partials() ? terms : 0, batch, heads, length, width},
                           options)};
}

std::tuple<Tensor, Tensor, Tensor> attention_meta(c10::string_view formula, at::TensorList queries,
                                                  at::TensorList keys, const Tensor& value,
                                                  at::TensorList tables, const OptionalTensor& key_mask,
                                                  const OptionalTensor& list_starts,
                                                  const OptionalTensor& list_keys, int64_t offset,
                                                  int64_t first_key, int64_t query_tile, int64_t key_tile,
                                                  double epsilon, bool skip, bool training) {
  const Arguments a{formula,   queries, keys,      value,      tables,   key_mask, list_starts,
                    list_keys, offset,  first_key, query_tile, key_tile, epsilon,  skip};
  Results results = make_results(a, training);
  return {results.output, results.log_sums, results.partials};
}

std::tuple<Tensor, Tensor, Tensor> attention_cpu(c10::string_view formula, at::TensorList queries,
                                                 at::TensorList keys, const Tensor& value,
                                                 at::TensorList tables, const OptionalTensor& key_mask,
                                                 const OptionalTensor& list_starts,
                                                 const OptionalTensor& list_keys, int64_t offset,
                                                 int64_t first_key, int64_t query_tile, int64_t key_tile,
                                                 double epsilon, bool skip, bool training) {
  const Arguments a{formula,   queries, keys,      value,      tables,   key_mask, list_starts,
                    list_keys, offset,  first_key, query_tile, key_tile, epsilon,  skip};
  const RawCall call = raw_call(a);
  Results results = make_results(a, training);
  const kernels::ForwardOutputs outputs{array_of(results.output), results.log_sums.data_ptr(),
                                        results.partials.numel() > 0 ? results.partials.data_ptr() : nullptr};
  const kernels::ForwardOptions options{skip, epsilon};
  if (compute_type(queries[0]) == at::kDouble)
    kernels::forward<double>(*call.plan, call.inputs, options, outputs);
  else
    kernels::forward<float>(*call.plan, call.inputs, options, outputs);
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
                                            double epsilon, bool skip, at::IntArrayRef wanted) {
  const Arguments a{formula,   queries, keys,      value,      tables,   key_mask, list_starts,
                    list_keys, offset,  first_key, query_tile, key_tile, epsilon,  skip};
  return make_gradients(a, wanted);
}

std::vector<Tensor> attention_backward_cpu(
    const Tensor& output_gradient, const OptionalTensor& log_sum_gradient, const Tensor& output,
    const Tensor& log_sums, const Tensor& partials, c10::string_view formula, at::TensorList queries,
    at::TensorList keys, const Tensor& value, at::TensorList tables, const OptionalTensor& key_mask,
    const OptionalTensor& list_starts, const OptionalTensor& list_keys, int64_t offset, int64_t first_key,
    int64_t query_tile, int64_t key_tile, double epsilon, bool skip, at::IntArrayRef wanted) {
  const Arguments a{formula,   queries, keys,      value,      tables,   key_mask, list_starts,
                    list_keys, offset,  first_key, query_tile, key_tile, epsilon,  skip};
  const RawCall call = raw_call(a);
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
    if (!wanted[index] || !plan.tables[index].differentiable()) continue;
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
  const kernels::BackwardInputs saved{array_of(output), array_of(output_gradient), log_sums_here.data_ptr(),
                                      log_sum_gradient ? log_sum_gradient_here.data_ptr() : nullptr,
                                      partials_here.numel() > 0 ? partials_here.data_ptr() : nullptr};
  if (compute_type(queries[0]) == at::kDouble)
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
                               int64_t query_tile, int64_t key_tile, double epsilon, bool skip,
                               bool training) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [output, log_sums, partials] =
        forward_operator().call(formula, queries, keys, value, tables, key_mask, list_starts, list_keys,
                                offset, first_key, query_tile, key_tile, epsilon, skip, training);
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
    data["numbers"] = std::vector<int64_t>{offset, first_key, query_tile, key_tile, skip};
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
    variable_list result(1 + queries + keys + 1 + tables + 3 + 7);
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
        numbers[4] != 0, wanted);
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
                                                      double epsilon, bool skip, bool training) {
  variable_list results =
      AttentionFunction::apply(std::string(formula), queries, keys, value, tables, key_mask, list_starts,
                               list_keys, offset, first_key, query_tile, key_tile, epsilon, skip, training);
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
                               double epsilon, bool skip, std::vector<int64_t> wanted) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return backward_operator().call(output_gradient, log_sum_gradient, output, log_sums, partials, formula,
                                    queries, keys, value, tables, key_mask, list_starts, list_keys, offset,
                                    first_key, query_tile, key_tile, epsilon, skip, wanted);
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
    int64_t query_tile, int64_t key_tile, double epsilon, bool skip, at::IntArrayRef wanted) {
  return BackwardFunction::apply(output_gradient, log_sum_gradient, output, log_sums, partials,
                                 std::string(formula), queries, keys, value, tables, key_mask, list_starts,
                                 list_keys, offset, first_key, query_tile, key_tile, epsilon, skip,
                                 wanted.vec());
}

#define SACCADE_ARGUMENTS                                                                             \
  "str formula, Tensor[] queries, Tensor[] keys, Tensor value, Tensor[] tables, Tensor? key_mask, "   \
  "Tensor? list_starts, Tensor? list_keys, int offset, int first_key, int query_tile, int key_tile, " \
  "float epsilon, bool skip"

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

std::tuple<Tensor, Tensor> call_attention_operator(const OperatorInputs& inputs) {
  bool training = false;
  if (at::GradMode::is_enabled()) {
    training = inputs.value.requires_grad();
    for (const auto* list : {&inputs.queries, &inputs.keys, &inputs.tables})
      for (const Tensor& tensor : *list) training |= tensor.requires_grad();
  }
  auto [output, log_sums, partials] = forward_operator().call(
      inputs.formula, inputs.queries, inputs.keys, inputs.value, inputs.tables, inputs.key_mask,
      inputs.list_starts, inputs.list_keys, inputs.offset, inputs.first_key, inputs.query_tile,
      inputs.key_tile, inputs.epsilon, inputs.skip, training);
  return {output, log_sums};
}

}  // namespace saccade
