// Every check names the tensor, what it has and what was expected.
#include "saccade/attention/raw_call.h"

#include <ATen/ops/zeros.h>

#include <cmath>
#include <map>
#include <mutex>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"

namespace saccade {
namespace {

using at::Tensor;
using kernels::Array;
using kernels::Storage;

// Positions and tile sides are far below this; sums of them cannot overflow.
constexpr int64_t kMostPositions = int64_t{1} << 53;
constexpr int64_t kMostTile = int64_t{1} << 31;

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

// "query" or "key" for q and k, else the name that the formula gives the vector.
std::string vector_name(const Plan& plan, size_t place, bool keys) {
  return place == 0 ? (keys ? "key" : "query") : plan.vectors[place - 1].name;
}

bool given(const OptionalTensor& tensor) { return tensor.has_value() && tensor->defined(); }

void check_shape(std::string_view what, const Tensor& tensor, at::IntArrayRef expected) {
  if (tensor.sizes() == expected) return;
  std::string text;
  for (const int64_t size : expected) text += (text.empty() ? "" : ", ") + std::to_string(size);
  fail("attention: {} has shape {}; expected [{}]", what, shape_text(tensor), text);
}

void check_vectors(const Plan& plan, const kernels::KernelPlan& kernel_plan, const Arguments& a) {
  const Tensor &query = a.queries[0], &key = a.keys[0];
  check_query_key_value(query, key, a.value);
  std::vector<int64_t> query_widths(plan.vectors.size() + 1), key_widths = query_widths;
  const auto check = [&](at::TensorList tensors, bool keys, std::vector<int64_t>& widths) {
    const std::vector<size_t> places = vector_places(plan, keys);
    for (size_t index = 0; index < places.size(); ++index) {
      const Tensor &tensor = tensors[index], &like = tensors[0];
      check_shape(vector_name(plan, places[index], keys), tensor,
                  {like.size(0), like.size(1), like.size(2), tensor.size(3)});
      widths[places[index]] = tensor.size(3);
    }
  };
  check(a.queries, false, query_widths);
  check(a.keys, true, key_widths);
  for (const kernels::Product& product : kernel_plan.products) {
    const auto left = static_cast<size_t>(product.query_vector),
               right = static_cast<size_t>(product.key_vector);
    require(query_widths[left] == key_widths[right] && query_widths[left] > 0,
            "attention: {} has width {}, {} has {}; expected the same, at least 1",
            vector_name(plan, left, false), query_widths[left], vector_name(plan, right, true),
            key_widths[right]);
  }
}

void check_table(const TableInfo& info, const Tensor& table, const kernels::Shape& shape) {
  using Kind = Dimension::Kind;
  const auto check = [&](int64_t place, std::string_view dimension, int64_t expected) {
    require(table.size(place) == expected,
            "attention: the table '{}' has size {} in its dimension '{}'; "
            "expected {}",
            info.name, table.size(place), dimension, expected);
  };
  if (table.size(0) != 1) check(0, "batch", shape.batch);
  if (table.size(1) != 1) check(1, "head", shape.heads);
  const std::vector<Dimension> dimensions = info.subscripted();
  for (size_t index = 0; index < dimensions.size(); ++index) {
    const Dimension& dimension = dimensions[index];
    const auto place = static_cast<int64_t>(index) + 2;
    if (dimension.kind == Kind::query) check(place, "query", shape.queries);
    if (dimension.kind == Kind::key) check(place, "key", shape.keys);
    if (dimension.kind == Kind::fixed) check(place, to_string(dimension), dimension.size);
    // Tokens are counted from the first key to the last key or query.
    if (dimension.kind == Kind::token)
      check(place, "token", std::max(shape.keys, shape.offset + shape.queries - shape.first_key));
    require(dimension.kind != Kind::rel || table.size(place) % 2 == 1,
            "attention: the table '{}' has {} entries by distance; expected an odd number, with d = 0 in the "
            "middle",
            info.name, table.size(place));
    require(dimension.kind != Kind::any || table.size(place) > 0,
            "attention: the table '{}' is empty in its dimension '{}'", info.name, to_string(dimension));
  }
}

// `starts` and `keys` are contiguous.
void check_lists(const Arguments& a, const Tensor& starts, const Tensor& keys, const kernels::Shape& shape) {
  const int64_t tiles = (shape.queries + a.query_tile - 1) / a.query_tile;
  require((starts.size(0) == 1 || starts.size(0) == shape.batch) &&
              (starts.size(1) == 1 || starts.size(1) == shape.heads) && starts.size(2) == tiles + 1,
          "attention: the lists' starts have shape {}; expected [{} or 1, {} or 1, {}]", shape_text(starts),
          shape.batch, shape.heads, tiles + 1);
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

kernels::Table table_of(const TableInfo& info, const Tensor& tensor, const kernels::Shape& shape) {
  kernels::Table table{tensor.data_ptr(), tensor.size(0) == 1 ? 0 : tensor.stride(0),
                       tensor.size(1) == 1 ? 0 : tensor.stride(1)};
  const std::vector<Dimension> dimensions = info.subscripted();
  for (size_t place = 0; place < dimensions.size(); ++place) {
    const auto dimension = static_cast<int64_t>(place) + 2;
    table.size[place] = tensor.size(dimension);
    table.stride[place] = tensor.stride(dimension);
    table.origin[place] = origin_of(dimensions[place], tensor.size(dimension), shape.offset, shape.first_key);
  }
  return table;
}

}  // namespace

std::shared_ptr<const Compiled> compiled(std::string_view text) {
  static std::mutex mutex;
  static auto& cache = *new std::map<std::string, std::shared_ptr<const Compiled>, std::less<>>;
  const std::lock_guard lock(mutex);
  if (const auto found = cache.find(text); found != cache.end()) return found->second;
  const Formula formula = Formula::parse(text);
  return cache[std::string(text)] = std::make_shared<const Compiled>(
             Compiled{formula, kernels::make_kernel_plan(formula.plan(), false),
                      kernels::make_kernel_plan(formula.plan(), true)});
}

Array array_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  require(tensor.dim() == 4, "attention: a vector has shape {}; expected [batch, heads, tokens, width]",
          shape_text(tensor));
  return {tensor.data_ptr(), storage_of(tensor), tensor.stride(0), tensor.stride(1),
          tensor.stride(2),  tensor.stride(3),   tensor.size(3)};
}

std::vector<size_t> vector_places(const Plan& plan, bool keys) {
  std::vector<size_t> places{0};
  for (size_t index = 0; index < plan.vectors.size(); ++index)
    if (plan.vectors[index].used && plan.vectors[index].for_keys == keys) places.push_back(index + 1);
  return places;
}

void check_kinds(const Plan& plan, const Arguments& a) {
  const auto check_vector = [&](std::string_view name, const Tensor& tensor) {
    require(tensor.dim() == 4, "attention: {} has {} dimensions; expected 4, [batch, heads, tokens, width]",
            name, tensor.dim());
    const auto dtype = tensor.scalar_type();
    require(dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16 || dtype == at::kHalf,
            "attention: {} has dtype {}; expected float, double, bfloat16 or half", name,
            c10::toString(dtype));
    require(dtype == a.queries[0].scalar_type(),
            "attention: {} has dtype {}, query has {}; expected one dtype", name, c10::toString(dtype),
            c10::toString(a.queries[0].scalar_type()));
  };
  for (const bool keys : {false, true}) {
    const at::TensorList tensors = keys ? a.keys : a.queries;
    const std::vector<size_t> places = vector_places(plan, keys);
    require(tensors.size() == places.size(), "attention: {} {} vectors are given; the formula has {}",
            tensors.size(), keys ? "key" : "query", places.size());
    for (size_t index = 0; index < places.size(); ++index)
      check_vector(vector_name(plan, places[index], keys), tensors[index]);
  }
  check_vector("value", a.value);
  require(a.tables.size() == plan.tables.size(), "attention: {} tables are given; the formula has {}",
          a.tables.size(), plan.tables.size());
  for (size_t index = 0; index < a.tables.size(); ++index) {
    const auto rank = static_cast<int64_t>(plan.tables[index].subscripted().size()) + 2;
    require(a.tables[index].dim() == rank,
            "attention: the table '{}' has {} dimensions; expected {}: batch, head and what is subscripted",
            plan.tables[index].name, a.tables[index].dim(), rank);
    require(!a.tables[index].is_complex(), "attention: the table '{}' has dtype {}; expected real numbers",
            plan.tables[index].name, c10::toString(a.tables[index].scalar_type()));
  }
  if (given(a.key_mask)) {
    require(a.key_mask->dim() == 2, "attention: the key mask has {} dimensions; expected 2, [batch, keys]",
            a.key_mask->dim());
    require(a.key_mask->scalar_type() == at::kBool,
            "attention: the key mask has dtype {}; expected bool, true for real keys",
            c10::toString(a.key_mask->scalar_type()));
  }
  require(given(a.list_starts) == given(a.list_keys),
          "attention: lists need both their starts and their keys; only one is given");
  require(0 < a.query_tile && a.query_tile <= kMostTile && 0 < a.key_tile && a.key_tile <= kMostTile,
          "attention: lists are for tiles of {} x {}; expected at least 1 x 1", a.query_tile, a.key_tile);
  if (given(a.list_starts)) {
    require(a.list_starts->dim() == 3 && a.list_keys->dim() == 1,
            "attention: the lists' starts have {} dimensions, their keys {}; expected 3 and 1",
            a.list_starts->dim(), a.list_keys->dim());
    require(a.list_starts->scalar_type() == at::kInt && a.list_keys->scalar_type() == at::kInt,
            "attention: the lists' starts have dtype {}, their keys {}; expected int (of 32 bits)",
            c10::toString(a.list_starts->scalar_type()), c10::toString(a.list_keys->scalar_type()));
  }
  for (const auto& [name, position] : {std::pair{"offset", a.offset}, {"first key", a.first_key}})
    require(0 <= position && position <= kMostPositions,
            "attention: the {} is {}; expected a position of 0 or more", name, position);
  require(a.epsilon >= 0 && a.epsilon < 1, "attention: epsilon is {}; expected 0 or more and less than 1",
          a.epsilon);
}

RawCall raw_call(const Arguments& a) {
  RawCall call;
  call.formula = compiled(a.formula);
  const Plan& plan = call.formula->formula.plan();
  check_kinds(plan, a);
  call.plan = given(a.key_mask) ? &call.formula->with_key_mask : &call.formula->without_key_mask;
  check_vectors(plan, *call.plan, a);
  const Tensor &query = a.queries[0], &key = a.keys[0];
  kernels::Inputs& inputs = call.inputs;
  inputs.shape = {query.size(0), query.size(1), key.size(1), query.size(2),
                  key.size(2),   a.offset,      a.first_key};
  const auto place_vectors = [&](at::TensorList tensors, bool keys, std::vector<Array>& arrays) {
    arrays.resize(plan.vectors.size() + 1);
    size_t next = 0;
    for (const size_t place : vector_places(plan, keys)) arrays[place] = array_of(tensors[next++]);
  };
  place_vectors(a.queries, false, inputs.queries);
  place_vectors(a.keys, true, inputs.keys);
  inputs.value = array_of(a.value);
  const auto type = compute_dtype(query);
  for (size_t index = 0; index < a.tables.size(); ++index) {
    check_table(plan.tables[index], a.tables[index], inputs.shape);
    Tensor table = a.tables[index].to(type);
    // Subscripts are clamped into the table, so there must be something to read, even where no key is.
    if (table.numel() == 0) {
      std::vector<int64_t> sizes = table.sizes().vec();
      for (int64_t& size : sizes) size = std::max<int64_t>(size, 1);
      table = at::zeros(sizes, table.options());
    }
    inputs.tables.push_back(table_of(plan.tables[index], call.kept.emplace_back(table), inputs.shape));
  }
  if (given(a.key_mask)) {
    check_shape("the key mask", *a.key_mask, {inputs.shape.batch, inputs.shape.keys});
    const Tensor& mask = call.kept.emplace_back(a.key_mask->to(type).contiguous());
    inputs.tables.push_back(
        {mask.data_ptr(), mask.stride(0), 0, {mask.size(1), 1, 1}, {1, 0, 0}, {a.first_key, 0, 0}});
  }
  if (given(a.list_starts)) {
    const Tensor starts = call.kept.emplace_back(a.list_starts->contiguous());
    const Tensor keys = call.kept.emplace_back(a.list_keys->contiguous());
    check_lists(a, starts, keys, inputs.shape);
    inputs.lists = {a.query_tile,
                    a.key_tile,
                    starts.data_ptr<int32_t>(),
                    keys.data_ptr<int32_t>(),
                    starts.size(0) == 1 ? 0 : starts.stride(0),
                    starts.size(1) == 1 ? 0 : starts.stride(1),
                    a.gather};
  }
  return call;
}

void check_saved(const RawCall& call, const Arguments& a, const SavedTensors& saved, at::IntArrayRef wanted) {
  const kernels::Shape& shape = call.inputs.shape;
  const int64_t width = a.value.size(3);
  const auto type = a.queries[0].scalar_type(), sums = compute_dtype(a.queries[0]);
  const auto check = [](std::string_view what, const Tensor& tensor, at::IntArrayRef sizes,
                        at::ScalarType dtype) {
    check_shape(what, tensor, sizes);
    require(tensor.scalar_type() == dtype, "attention: {} has dtype {}; expected {}", what,
            c10::toString(tensor.scalar_type()), c10::toString(dtype));
  };
  const std::vector<int64_t> output{shape.batch, shape.heads, shape.queries, width};
  const std::vector<int64_t> rows{call.plan->norms(), shape.batch, shape.heads, shape.queries};
  check("the output", saved.output, output, type);
  check("the output's gradient", saved.output_gradient, output, type);
  check("log_sums", saved.log_sums, rows, sums);
  if (given(saved.log_sum_gradient)) check("the gradient of log_sums", *saved.log_sum_gradient, rows, sums);
  if (call.plan->needs_partials()) {
    require(saved.partials.dim() != 5 || saved.partials.size(0) > 0,
            "attention: the gradient needs the partial outputs; run the forward pass with training = true");
    check("partials", saved.partials,
          {static_cast<int64_t>(call.plan->terms.size()), shape.batch, shape.heads, shape.queries, width},
          sums);
  }
  require(wanted.size() == a.tables.size(), "attention: wanted has {} entries; expected one per table, {}",
          wanted.size(), a.tables.size());
}

}  // namespace saccade
