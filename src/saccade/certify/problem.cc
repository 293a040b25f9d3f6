// Making up inputs. Integers come out as a user would give them: ids that rise along the sequence, or lengths
// within it.
#include "saccade/certify/problem.h"

#include "saccade/base/error.h"
#include "saccade/base/random.h"

namespace saccade {
namespace {

using torch::Tensor;

int64_t token_count(const Case& c) { return std::max(c.keys, c.offset + c.queries); }

std::vector<int64_t> shape_of(const TableInfo& table, const Case& c) {
  std::vector<int64_t> shape;
  using Kind = Dimension::Kind;
  // Half of the tables that may differ between sequences do so without saying it, by a batch dimension in
  // front.
  const bool per_token = table.has(Kind::token) || table.has(Kind::key) || table.has(Kind::query);
  if (per_token && !table.has(Kind::batch) && c.seed % 2 == 0) shape.push_back(c.batch);
  for (const Dimension& dimension : table.dimensions) {
    switch (dimension.kind) {
      case Kind::batch:
        shape.push_back(c.batch);
        break;
      case Kind::head:
        shape.push_back(c.heads);
        break;
      case Kind::token:
        shape.push_back(token_count(c));
        break;
      case Kind::query:
        shape.push_back(c.queries);
        break;
      case Kind::key:
        shape.push_back(c.keys);
        break;
      case Kind::rel:
        shape.push_back(2 * token_count(c) - 1);
        break;
      case Kind::fixed:
        shape.push_back(dimension.size);
        break;
      case Kind::any:
        shape.push_back(token_count(c));
        break;
      case Kind::layer:
        break;
    }
  }
  return shape;
}

Tensor integer_input(const TableInfo& table, const std::vector<int64_t>& shape, const Case& c, int64_t seed) {
  RandomStream random(static_cast<uint64_t>(seed), "input " + table.name);
  Tensor result = torch::zeros(shape, torch::kLong);
  const Tensor flat = result.view({-1});
  const bool per_token = table.has(Dimension::Kind::token) || table.has(Dimension::Kind::key) ||
                         table.has(Dimension::Kind::query);
  const int64_t length = per_token && !shape.empty() ? shape.back() : 1;
  for (int64_t index = 0; index < flat.numel(); ++index) {
    const int64_t place = index % length;
    int64_t value = 0;
    if (table.name == "pos")
      value = place;
    else if (per_token)
      value = place == 0 ? 0 : flat[index - 1].item<int64_t>() + static_cast<int64_t>(random.below(3) == 0);
    else
      value = static_cast<int64_t>(random.below(static_cast<uint64_t>(token_count(c) + 1)));
    flat[index] = value;
  }
  return result;
}

Tensor make_input(const TableInfo& table, const Case& c, at::ScalarType dtype, int64_t seed) {
  const std::vector<int64_t> shape = shape_of(table, c);
  switch (table.type) {
    case Type::real:
      return 0.5 * normal_tensor(shape, seed, "input " + table.name, dtype);
    case Type::integer:
      return integer_input(table, shape, c, seed);
    case Type::boolean:
      return normal_tensor(shape, seed, "input " + table.name, torch::kDouble) > -0.5;
  }
  return {};
}

// How a tensor runs along the tokens: where, and what of it a decoding step needs.
struct Along {
  int64_t place;
  bool whole = false;  // everything up to now, not only the new tokens
};

std::vector<Along> along_tokens(const TableInfo& table, const Tensor& tensor) {
  std::vector<Along> result;
  int64_t place = tensor.dim() -
                  static_cast<int64_t>(table.dimensions.size());  // a batch dimension that was not declared
  for (const Dimension& dimension : table.dimensions) {
    if (runs_along_tokens(dimension.kind))
      result.push_back({place, !table.rides_in_cache() && dimension.kind != Dimension::Kind::query});
    ++place;
  }
  return result;
}

template <class F>
Problem map_tokens(const Formula& formula, const Problem& problem, F f) {
  Problem result = problem;
  result.query = f(problem.query, Along{2}, "query");
  result.key = f(problem.key, Along{2}, "key");
  result.value = f(problem.value, Along{2}, "value");
  if (problem.call.x.defined()) result.call.x = f(problem.call.x, Along{1}, "x");
  if (problem.call.key_mask.defined()) result.call.key_mask = f(problem.call.key_mask, Along{1}, "mask");
  for (const TableInfo& table : formula.plan().tables) {
    if (table.source != TableInfo::Source::input) continue;
    Tensor& tensor = result.call.inputs.at(table.name);
    for (const Along& along : along_tokens(table, tensor)) tensor = f(tensor, along, table.name);
  }
  return result;
}

}  // namespace

Tensor normal_tensor(at::IntArrayRef shape, int64_t seed, std::string_view name, at::ScalarType dtype) {
  RandomStream random(static_cast<uint64_t>(seed), name);
  Tensor result = torch::empty(shape, torch::kDouble);
  double* data = result.data_ptr<double>();
  for (int64_t index = 0; index < result.numel(); ++index) data[index] = random.normal();
  return result.to(dtype);
}

AttentionOptions options_of(const Case& c) {
  AttentionOptions options{
      .heads = c.heads, .kv_heads = c.kv_heads, .head_dim = c.head_dim, .model_dim = kModelDim};
  if (c.rotary) options.rotary = RotaryOptions{};
  return options;
}

Problem make_problem(const Formula& formula, const Case& c, at::ScalarType dtype) {
  Problem problem;
  problem.query = normal_tensor({c.batch, c.heads, c.queries, c.head_dim}, c.seed, "query", dtype);
  problem.key = normal_tensor({c.batch, c.kv_heads, c.keys, c.head_dim}, c.seed, "key", dtype);
  problem.value = normal_tensor({c.batch, c.kv_heads, c.keys, c.value_dim}, c.seed, "value", dtype);
  problem.call.offset = c.offset;
  if (formula.plan().needs_layer_input())
    problem.call.x = normal_tensor({c.batch, token_count(c), kModelDim}, c.seed, "x", dtype);
  for (const TableInfo& table : formula.plan().tables)
    if (table.source == TableInfo::Source::input)
      problem.call.inputs[table.name] = make_input(table, c, dtype, c.seed);
  return problem;
}

void randomise_parameters(AttentionImpl& attention, int64_t seed) {
  torch::NoGradGuard no_gradient;
  const Plan& plan = attention.formula().plan();
  for (const auto& entry : attention.named_parameters()) {
    Tensor parameter = entry.value();
    const Tensor noise =
        normal_tensor(parameter.sizes(), seed, "parameter " + entry.key(), parameter.scalar_type());
    const int table = plan.table_index(entry.key());
    if (table < 0) {  // a weight of a host expression, which torch's own generator has filled
      parameter.copy_(0.4 * noise);
      continue;
    }
    parameter.add_(0.3 * noise);
    // Stay inside the bounds, away from them by a little: the bounds themselves are a check of their own.
    const TableInfo& info = plan.tables[static_cast<size_t>(table)];
    const double margin = std::isfinite(info.high - info.low) ? 0.01 * (info.high - info.low) : 0.01;
    parameter.clamp_(info.low + margin, info.high - margin);
  }
}

Problem slice(const Formula& formula, const Problem& problem, int64_t begin, int64_t end) {
  return map_tokens(formula, problem, [&](const Tensor& tensor, Along along, const std::string&) {
    return along.whole ? tensor.narrow(along.place, 0, end) : tensor.narrow(along.place, begin, end - begin);
  });
}

Problem with_other_future(const Formula& formula, const Problem& problem, int64_t begin, int64_t seed) {
  return map_tokens(formula, problem, [&](const Tensor& tensor, Along along, const std::string& name) {
    const int64_t place = along.place, count = tensor.size(place) - begin;
    if (count <= 0 || name == "pos" || name == "mask")
      return tensor;  // positions are what "future" is measured by
    Tensor result = tensor.clone();
    Tensor future = result.narrow(place, begin, count);
    if (tensor.scalar_type() == torch::kBool)
      future.logical_not_();
    else if (tensor.is_floating_point())
      future.copy_(3 * normal_tensor(future.sizes(), seed, "future " + name, torch::kDouble));
    else
      future.add_(1 + seed % 3);
    return result;
  });
}

}  // namespace saccade
