// Every shipped mechanism that needs no host expression: the reference against the scalar evaluator, which
// knows no tensors.
#include <gtest/gtest.h>

#include "saccade/attention/reference.h"
#include "saccade/attention/testing.h"
#include "saccade/formula/evaluator.h"
#include "saccade/formula/formula.h"
#include "saccade/formula/mechanisms.h"

namespace saccade::reference_mechanisms_test {
namespace {

using test::close;
using test::kInfinity;
using test::largest;
using test::rounding;
using test::Seeded;
using torch::Tensor;

constexpr uint64_t kSeed = 20240607;

bool needs_host(const Plan& plan) {
  return std::ranges::any_of(plan.vectors, &VectorInfo::used) ||
         std::ranges::any_of(plan.tables,
                             [](const TableInfo& table) { return table.source == TableInfo::Source::token; });
}

// With small windows and chunks, so that a short sequence reaches beyond them.
Formula small(const EmbeddedMechanism& mechanism) {
  const Formula plain = Formula::parse(mechanism.text, {.name = std::string(mechanism.name)});
  Overrides overrides;
  for (const auto& [name, value] : plain.plan().constants)
    if (value > 4) overrides[name] = 3;
  return Formula::parse(mechanism.text, {.name = std::string(mechanism.name), .set = overrides});
}

struct Shape {
  int64_t batch, heads, queries, keys, width, offset, first_key;
};

Tensor random_table(const TableInfo& table, const Shape& shape, const KnownSizes& sizes, Seeded& random) {
  using Kind = Dimension::Kind;
  std::vector<int64_t> result;
  for (const Dimension& dimension : table.dimensions) switch (dimension.kind) {
      case Kind::batch:
        result.push_back(shape.batch);
        break;
      case Kind::head:
        result.push_back(shape.heads);
        break;
      case Kind::token:
        result.push_back(sizes.tokens);
        break;
      case Kind::query:
        result.push_back(shape.queries);
        break;
      case Kind::key:
        result.push_back(shape.keys);
        break;
      case Kind::rel:
        result.push_back(5);
        break;
      case Kind::fixed:
        result.push_back(dimension.size);
        break;
      case Kind::any:
        result.push_back(4);
        break;
      case Kind::layer:
        break;
    }
  const bool may_differ = table.source == TableInfo::Source::input && !table.has(Kind::batch);
  if (may_differ && random.between(0, 1)) result.insert(result.begin(), shape.batch);
  if (table.type == Type::boolean) return random.booleans(result);
  if (table.type == Type::integer) return random.integers(result, 0, 6);
  return table.learned() ? random.normal(result).abs().clamp(0.05, 2) : random.normal(result);
}

// The weights of one sequence and head, by loops over the evaluator's numbers.
struct HeadResult {
  Tensor weights;
  std::vector<Tensor> log_sums;
};

class HeadDefinition {
 public:
  HeadDefinition(const Plan& plan, const Shape& shape) : plan_(plan), shape_(shape) {
    std::vector<NodeId> roots{plan.mask};
    for (const TermInfo& term : plan.terms) roots.push_back(term.coefficient);
    for (const NormInfo& norm : plan.norms) {
      roots.push_back(norm.argument);
      roots.push_back(norm.sink == kNoNode ? norm.argument : norm.sink);
    }
    roots_ = roots.size();
    program_ = compile(plan, roots);
  }

  HeadResult run(int64_t head, std::span<const TableView<double>> tables, const Tensor& scores) const {
    Evaluator<double> evaluator(program_);
    evaluator.prepare({shape_.queries, shape_.keys, shape_.offset, shape_.first_key}, head, shape_.heads,
                      tables);
    HeadResult result{torch::zeros({shape_.queries, shape_.keys}, torch::kDouble), {}};
    for (size_t norm = 0; norm < plan_.norms.size(); ++norm)
      result.log_sums.push_back(torch::zeros({shape_.queries}, torch::kDouble));
    std::vector<std::vector<double>> values(roots_, std::vector<double>(static_cast<size_t>(shape_.keys)));
    std::vector<double*> outputs;
    for (auto& column : values) outputs.push_back(column.data());
    for (int64_t row = 0; row < shape_.queries; ++row) {
      const Tensor strip = scores[row].contiguous();
      const double* streams[] = {strip.data_ptr<double>()};
      evaluator.run(row, 0, shape_.keys, streams, outputs);
      std::vector<double> sums;
      for (size_t norm = 0; norm < plan_.norms.size(); ++norm) {
        sums.push_back(sum(norm, values));
        result.log_sums[norm][row] = std::log(sums.back());
      }
      for (int64_t j = 0; j < shape_.keys; ++j)
        if (values[0][static_cast<size_t>(j)] != 0)
          result.weights[row][j] = weight(static_cast<size_t>(j), values, sums);
    }
    return result;
  }

 private:
  using Values = std::vector<std::vector<double>>;

  size_t argument(size_t norm) const { return 1 + plan_.terms.size() + 2 * norm; }

  // What a norm divides by.
  double sum(size_t norm, const Values& values) const {
    const NormInfo& info = plan_.norms[norm];
    double result = info.sink == kNoNode ? 0 : std::exp(values[argument(norm) + 1][0]);
    for (size_t j = 0; j < values[0].size(); ++j) {
      if (values[0][j] == 0) continue;
      const double x = values[argument(norm)][j];
      result += info.kind == Op::softmax ? std::exp(x) : std::fabs(info.kind == Op::l1 ? x : std::expm1(x));
    }
    return result;
  }

  double weight(size_t j, const Values& values, const std::vector<double>& sums) const {
    double result = 0;
    for (size_t term = 0; term < plan_.terms.size(); ++term) {
      const double coefficient = values[1 + term][j];
      const int norm = plan_.terms[term].norm;
      if (norm < 0) {
        result += coefficient;
        continue;
      }
      const double x = values[argument(static_cast<size_t>(norm))][j],
                   divisor = sums[static_cast<size_t>(norm)];
      const Op kind = plan_.norms[static_cast<size_t>(norm)].kind;
      const double numerator = kind == Op::softmax ? std::exp(x)
                               : kind == Op::l1    ? x
                                                   : std::max(std::expm1(x), 0.0);
      result += divisor == 0 ? 0 : coefficient * numerator / divisor;
    }
    return result;
  }

  const Plan& plan_;
  const Shape& shape_;
  Program program_;
  size_t roots_ = 0;
};

TableView<double> view(const TableInfo& info, const Tensor& table, const Shape& shape) {
  TableView<double> result{.data = table.data_ptr<double>()};
  const std::vector<Dimension> dimensions = info.subscripted();
  for (size_t place = 0; place < dimensions.size(); ++place) {
    const auto axis = static_cast<int64_t>(place);
    const Dimension::Kind kind = dimensions[place].kind;
    result.size[place] = table.size(axis);
    result.stride[place] = table.stride(axis);
    if (kind == Dimension::Kind::rel) result.origin[place] = -(table.size(axis) - 1) / 2;
    if (kind == Dimension::Kind::token || kind == Dimension::Kind::key)
      result.origin[place] = shape.first_key;
    if (kind == Dimension::Kind::query) result.origin[place] = shape.offset;
  }
  return result;
}

void expect_same(const Formula& formula, uint64_t seed) {
  Seeded random(seed);
  Shape shape{.batch = random.between(1, 2),
              .heads = random.between(1, 3),
              .queries = random.between(1, 9),
              .keys = random.between(1, 9),
              .width = 3,
              .offset = random.between(0, 6)};
  shape.first_key = random.between(0, 1) ? random.between(0, shape.offset) : 0;
  SCOPED_TRACE(fmt::format("{}, seed {}: {} queries from {}, {} keys from {}", formula.name(), seed,
                           shape.queries, shape.offset, shape.keys, shape.first_key));
  const Plan& plan = formula.plan();
  const int64_t end = std::max(shape.offset + shape.queries, shape.first_key + shape.keys);
  const KnownSizes sizes{shape.batch, shape.heads, end - shape.first_key, shape.queries, shape.keys};
  PairInputs inputs{.queries = {random.normal({shape.batch, shape.heads, shape.queries, shape.width})},
                    .keys = {random.normal({shape.batch, shape.heads, shape.keys, shape.width})},
                    .value = random.normal({shape.batch, shape.heads, shape.keys, 2}),
                    .offset = shape.offset,
                    .first_key = shape.first_key};
  for (const TableInfo& table : plan.tables)
    inputs.tables.push_back(
        canonical_table(table, random_table(table, shape, sizes, random), sizes, torch::kDouble));
  const AttentionResult result = reference_attention(plan, inputs, true);

  const Tensor scores = torch::matmul(inputs.queries[0], inputs.keys[0].transpose(-2, -1)) /
                        std::sqrt(static_cast<double>(shape.width));
  Tensor weights = torch::zeros_like(result.weights);
  std::vector<Tensor> log_sums;
  for (const Tensor& sums : result.log_sums) log_sums.push_back(torch::zeros_like(sums));
  const HeadDefinition definition(plan, shape);
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t h = 0; h < shape.heads; ++h) {
      std::vector<Tensor> tables;
      std::vector<TableView<double>> views;
      for (size_t index = 0; index < plan.tables.size(); ++index) {
        const Tensor& table = inputs.tables[index];
        tables.push_back(
            table[table.size(0) == 1 ? 0 : b][table.size(1) == 1 ? 0 : h].to(torch::kDouble).contiguous());
        views.push_back(view(plan.tables[index], tables.back(), shape));
      }
      const HeadResult head = definition.run(h, views, scores[b][h]);
      weights[b][h] = head.weights;
      for (size_t norm = 0; norm < log_sums.size(); ++norm) log_sums[norm][b][h] = head.log_sums[norm];
    }
  // An error of a score, which may be as large as the biases make it, is a relative error of its exponential.
  double size = 1 + largest(scores);
  for (const Tensor& sums : log_sums) size = std::max(size, largest(sums.masked_fill(sums.isinf(), 0)));
  const double tolerance = rounding(torch::kDouble, 16 + shape.keys, size * (1 + largest(weights)));
  EXPECT_TRUE(close(result.weights, weights, tolerance));
  EXPECT_TRUE(close(result.output, torch::matmul(weights, inputs.value),
                    tolerance * static_cast<double>(shape.keys) * largest(inputs.value)));
  for (size_t norm = 0; norm < log_sums.size(); ++norm)
    EXPECT_TRUE(close(result.log_sums[norm], log_sums[norm], tolerance)) << "norm " << norm;
}

TEST(Mechanisms, AreEvaluatedAsByTheScalarEvaluator) {
  uint64_t seed = kSeed;
  int checked = 0;
  for (const EmbeddedMechanism& mechanism : embedded_mechanisms()) {
    const Formula formula = small(mechanism);
    if (needs_host(formula.plan())) continue;
    ++checked;
    for (int repeat = 0; repeat < 6; ++repeat) expect_same(formula, ++seed);
  }
  EXPECT_GT(checked, 0);
}

}  // namespace
}  // namespace saccade::reference_mechanisms_test
