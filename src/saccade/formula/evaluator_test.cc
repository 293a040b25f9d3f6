// The executor against the naive evaluation of the same graph: equal to the last bit, at every pair, in both
// precisions, whatever the shape.
#include "saccade/formula/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "saccade/formula/check_testing.h"
#include "saccade/formula/naive_evaluation.h"
#include "saccade/formula/random_formula.h"

namespace saccade {
namespace {

// The values of the roots for every pair: [root][row][column].
template <class Real>
using Maps = std::vector<std::vector<std::vector<Real>>>;

// One row of random dot products for each stream and row.
template <class Real>
Maps<Real> random_streams(const Plan& plan, const MapShape& shape, RandomStream& random) {
  Maps<Real> result(plan.streams.size());
  for (auto& stream : result) {
    stream.resize(static_cast<size_t>(shape.queries));
    for (auto& row : stream)
      for (int64_t column = 0; column < shape.keys; ++column)
        row.push_back(static_cast<Real>(static_cast<float>(random.normal())));
  }
  return result;
}

// Runs rows in pieces of `piece` keys, as callers that walk tiles do.
template <class Real>
Maps<Real> run(const Program& program, const MapShape& shape, const RandomTables<Real>& tables,
               const Maps<Real>& streams, int64_t head, int64_t heads, int64_t piece) {
  Evaluator<Real> evaluator(program);
  evaluator.prepare(shape, head, heads, tables.views());
  Maps<Real> result(program.outputs.size());
  for (auto& map : result)
    map.assign(static_cast<size_t>(shape.queries), std::vector<Real>(static_cast<size_t>(shape.keys), -99));
  for (int64_t row = 0; row < shape.queries; ++row)
    for (int64_t first = 0; first < shape.keys; first += piece) {
      std::vector<const Real*> inputs;
      for (const auto& stream : streams) inputs.push_back(stream[static_cast<size_t>(row)].data() + first);
      std::vector<Real*> outputs;
      for (auto& map : result) outputs.push_back(map[static_cast<size_t>(row)].data() + first);
      evaluator.run(row, first, std::min(piece, shape.keys - first), inputs, outputs);
    }
  return result;
}

template <class Real>
void expect_naive(const Plan& plan, const std::vector<NodeId>& roots, const MapShape& shape, int64_t piece,
                  RandomStream& random, const std::string& where) {
  const RandomTables<Real> tables(plan, shape, random);
  const Maps<Real> streams = random_streams<Real>(plan, shape, random);
  const Program program = compile(plan, roots);
  const Maps<Real> maps = run<Real>(program, shape, tables, streams, 1, 3, piece);
  Pair<Real> pair{.shape = shape, .head = 1, .heads = 3};
  for (pair.row = 0; pair.row < shape.queries; ++pair.row)
    for (pair.column = 0; pair.column < shape.keys; ++pair.column) {
      const auto row = static_cast<size_t>(pair.row), column = static_cast<size_t>(pair.column);
      pair.streams.clear();
      for (const auto& stream : streams) pair.streams.push_back(stream[row][column]);
      NaiveGraph<Real> naive(plan.graph, tables.views(), pair);
      for (size_t root = 0; root < roots.size(); ++root)
        ASSERT_TRUE(identical(maps[root][row][column], naive.at(roots[root])))
            << fmt::format("{} is {}, not {}, at i = {}, j = {}\n{}", plan.graph.print(roots[root], {}),
                           maps[root][row][column], naive.at(roots[root]), pair.i(), pair.j(), where);
    }
}

std::vector<NodeId> all_roots(const Plan& plan) {
  std::vector<NodeId> roots{plan.mask, plan.score};
  if (plan.scale != kNoNode) roots.push_back(plan.scale);
  for (const TermInfo& term : plan.terms) roots.push_back(term.coefficient);
  for (const DerivativeInfo& derivative : plan.derivatives) roots.push_back(derivative.value);
  return roots;
}

TEST(Evaluator, EqualsTheNaiveEvaluationOfRandomFormulas) {
  constexpr uint64_t kSeed = 90;
  constexpr MapShape kShapes[] = {{.queries = 5, .keys = 5},
                                  {.queries = 1, .keys = 9, .offset = 8},
                                  {.queries = 3, .keys = 7, .offset = 4},
                                  {.queries = 4, .keys = 2, .offset = 0},
                                  {.queries = 2, .keys = 6, .offset = 11, .first_key = 7},
                                  {.queries = 3, .keys = 0, .offset = 2},
                                  {.queries = 1, .keys = 1}};
  for (int number = 0; number < 250; ++number) {
    RandomStream random = RandomStream(kSeed, "evaluator").split(std::to_string(number));
    const RandomFormula::Options options{.depth = 2 + static_cast<int>(random.below(3)),
                                         .positions_input = random.below(6) == 0};
    const std::string text = print(RandomFormula(random, options).formula());
    const Plan plan = plan_of(text);
    const MapShape shape = kShapes[random.below(std::size(kShapes))];
    const auto piece = static_cast<int64_t>(1 + random.below(9));
    const std::string where = fmt::format("seed {} number {}, pieces of {}:\n{}", kSeed, number, piece, text);
    expect_naive<double>(plan, all_roots(plan), shape, piece, random, where);
    expect_naive<float>(plan, all_roots(plan), shape, piece, random, where);
    if (HasFatalFailure()) return;
  }
}

TEST(Evaluator, CutsLongRowsIntoStrips) {
  const Plan plan = plan_of(
      "param a[head] = 1\ninput F[token]\nmask = 0 <= d < 700\nscore = s * a + F[j] - F[i] * abs(d) + j");
  RandomStream random(91, "strips");
  for (int64_t keys : {511, 512, 513, 1024, 1300}) {
    const MapShape shape{.queries = 2, .keys = keys, .offset = keys - 2};
    for (int64_t piece : {int64_t{1} << 20, int64_t{512}, int64_t{100}})
      expect_naive<float>(plan, all_roots(plan), shape, piece, random,
                          fmt::format("{} keys by {}", keys, piece));
  }
  const MapShape tall{.queries = 1100, .keys = 3};
  expect_naive<double>(plan, all_roots(plan), tall, 3, random, "more rows than a strip");
}

TEST(Evaluator, RunsAnyRowInAnyOrder) {
  const Plan plan = plan_of("score = s + i * 100 + j + d * 0.5");
  const MapShape shape{.queries = 3, .keys = 4, .offset = 2};
  const Program program = compile(plan, {plan.score});
  Evaluator<double> evaluator(program);
  evaluator.prepare(shape, 0, 1, {});
  const double dots[] = {0.25, 0.5};
  const double* streams[] = {dots};
  double values[2];
  double* outputs[] = {values};
  for (int64_t row : {2, 0, 1, 0}) {
    evaluator.run(row, 1, 2, streams, outputs);
    for (int64_t k = 0; k < 2; ++k) {
      const auto i = static_cast<double>(2 + row), j = static_cast<double>(1 + k);
      EXPECT_EQ(values[k], dots[k] + i * 100 + j + (i - j) * 0.5);
    }
  }
}

TEST(Evaluator, CanBePreparedAgainForAnotherShapeAndHead) {
  const Plan plan = plan_of("score = h * 100 + H * 10 + n + abs(d)");
  const Program program = compile(plan, {plan.score});
  Evaluator<double> evaluator(program);
  double value = 0;
  double* outputs[] = {&value};
  const double* streams[] = {&value};
  for (int64_t keys : {9, 4, 700}) {
    evaluator.prepare({.queries = 1, .keys = keys, .offset = keys - 1}, 2, 5, {});
    evaluator.run(0, 0, 1, streams, outputs);
    EXPECT_EQ(value, 200 + 50 + static_cast<double>(keys) + static_cast<double>(keys - 1));
  }
}

TEST(Evaluator, AcceptsMapsWithoutQueriesOrKeys) {
  const Plan plan = plan_of("input F[token]\nscore = s + i + j + abs(d) + F[i] * F[j]");
  const Program program = compile(plan, {plan.score});
  for (const MapShape& shape : {MapShape{.queries = 0, .keys = 0}, MapShape{.queries = 0, .keys = 5},
                                MapShape{.queries = 5, .keys = 0}}) {
    RandomStream random(92, "empty");
    const RandomTables<double> tables(plan, shape, random);
    Evaluator<double> evaluator(program);
    evaluator.prepare(shape, 0, 1, tables.views());
    const double* streams[] = {nullptr};
    double* outputs[] = {nullptr};
    for (int64_t row = 0; row < shape.queries; ++row) evaluator.run(row, 0, 0, streams, outputs);
  }
}

// --- tables ---

// The value of the score at one pair, with the only table given as numbers of these sizes.
double read_at(const std::string& text, std::vector<double> data, std::vector<int64_t> sizes, int64_t row,
               int64_t column, std::array<int64_t, 3> origin = {0, 0, 0}) {
  const Plan plan = plan_of(text);
  const Program program = compile(plan, {plan.score});
  TableView<double> view{.data = data.data()};
  view.origin = origin;
  int64_t stride = 1;
  for (size_t place = sizes.size(); place-- > 0; stride *= sizes[place]) {
    view.size[place] = sizes[place];
    view.stride[place] = stride;
  }
  Evaluator<double> evaluator(program);
  evaluator.prepare({.queries = 8, .keys = 8}, 0, 1, {&view, 1});
  const double dot = 0;
  const double* streams[] = {&dot};
  double value = -1;
  double* outputs[] = {&value};
  evaluator.run(row, column, 1, streams, outputs);
  return value;
}

TEST(TableRead, ClampsSubscripts) {
  const std::string text = "input b[*]\nscore = b[d]";
  const std::vector<double> data = {10, 11, 12};
  EXPECT_EQ(read_at(text, data, {3}, 1, 1), 10);
  EXPECT_EQ(read_at(text, data, {3}, 2, 0), 12);
  EXPECT_EQ(read_at(text, data, {3}, 7, 0), 12) << "above the last";
  EXPECT_EQ(read_at(text, data, {3}, 0, 7), 10) << "below the first";
  EXPECT_EQ(read_at("input b[*]\nscore = b[i // 0]", data, {3}, 2, 0), 12) << "infinity";
  EXPECT_EQ(read_at("input b[*]\nscore = b[-i // 0]", data, {3}, 2, 0), 10);
  EXPECT_EQ(read_at("input b[*]\nscore = b[i // 0]", data, {3}, 0, 0), 10) << "NaN";
}

TEST(TableRead, CountsFromTheOrigin) {
  const std::string text = "input b[rel]\nscore = b[d]";
  const std::vector<double> data = {10, 11, 12, 13, 14};  // d = -2 .. 2
  EXPECT_EQ(read_at(text, data, {5}, 3, 3, {-2, 0, 0}), 12);
  EXPECT_EQ(read_at(text, data, {5}, 3, 4, {-2, 0, 0}), 11);
  EXPECT_EQ(read_at(text, data, {5}, 5, 3, {-2, 0, 0}), 14);
  EXPECT_EQ(read_at(text, data, {5}, 7, 0, {-2, 0, 0}), 14) << "farther than the table";
  EXPECT_EQ(read_at(text, data, {5}, 0, 7, {-2, 0, 0}), 10);
  EXPECT_EQ(read_at("input F[token]\nscore = F[j]", data, {5}, 0, 6, {4, 0, 0}), 12) << "the third since 4";
}

TEST(TableRead, TakesSeveralSubscripts) {
  std::vector<double> data(2 * 3 * 4);
  for (size_t index = 0; index < data.size(); ++index) data[index] = static_cast<double>(index);
  const std::string text = "input b[*, *, *]\nscore = b[i, j, d + 1]";
  EXPECT_EQ(read_at(text, data, {2, 3, 4}, 1, 0), 1 * 12 + 0 * 4 + 2);
  EXPECT_EQ(read_at(text, data, {2, 3, 4}, 1, 2), 1 * 12 + 2 * 4 + 0);
  EXPECT_EQ(read_at(text, data, {2, 3, 4}, 7, 1), 1 * 12 + 1 * 4 + 3) << "each is clamped by itself";
  EXPECT_EQ(read_at("input b[*, *]\nscore = b[1, j]", data, {2, 12}, 0, 5), 17)
      << "numbers and variables mix";
}

TEST(TableRead, NeedsNoSubscriptForASingleNumber) {
  EXPECT_EQ(read_at("param a[head] = 1\nscore = a + d", {5}, {}, 3, 1), 7);
}

}  // namespace
}  // namespace saccade
