// What the tests of the shipped mechanisms share: the dense map of weights, computed pair by pair from a
// plan. The norms are written out from their definitions, so that a test holds a mechanism to its publication
// and not to the code that will run it fast.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "saccade/base/error.h"
#include "saccade/formula/evaluator.h"
#include "saccade/formula/formula.h"

namespace saccade::dense {

using Matrix = std::vector<std::vector<double>>;

// The values of an input, param or token for one sequence and head, without the implied dimensions.
struct Table {
  Table(std::vector<double> list) : values(std::move(list)), size{static_cast<int64_t>(values.size())} {}
  Table(std::initializer_list<double> list) : Table(std::vector<double>(list)) {}
  Table(std::vector<double> list, std::vector<int64_t> sizes)
      : values(std::move(list)), size(std::move(sizes)) {}

  std::vector<double> values;
  std::vector<int64_t> size;
};

struct Call {
  MapShape shape;
  int64_t head = 0, heads = 1;
  std::map<std::string, Table> tables;    // a param that is not given has its start value
  std::map<std::string, Matrix> streams;  // a stream that is not given is 0
};

// Every token against every token.
inline MapShape square(int64_t n) { return {.queries = n, .keys = n}; }
// The last of n tokens against all of them, as in decoding.
inline MapShape last_row(int64_t n) { return {.queries = 1, .keys = n, .offset = n - 1}; }

// A matrix from a function of row and column.
template <class F>
Matrix matrix(int64_t rows, int64_t columns, F f) {
  Matrix result(static_cast<size_t>(rows), std::vector<double>(static_cast<size_t>(columns)));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      result[static_cast<size_t>(row)][static_cast<size_t>(column)] = f(row, column);
  return result;
}

// Scores of both signs without a pattern, between -2 and 2.
inline Matrix scores(int64_t n) {
  return matrix(n, n, [](int64_t i, int64_t j) {
    return 2 * std::sin(3.7 * static_cast<double>(i) + 5.3 * static_cast<double>(j * j) + 1);
  });
}

// The value of each root for every pair.
template <class Real = double>
std::vector<Matrix> evaluate(const Plan& plan, const std::vector<NodeId>& roots, const Call& call) {
  std::vector<std::vector<Real>> storage;
  std::vector<TableView<Real>> views;
  for (const TableInfo& info : plan.tables) {
    const std::vector<Dimension> dimensions = info.subscripted();
    Table table{0.0};
    if (const auto given = call.tables.find(info.name); given != call.tables.end()) {
      table = given->second;
    } else {
      require(info.learned(), "the test gives no values for '{}'", info.name);
      const Call start{.shape = square(1), .head = call.head, .heads = call.heads};
      Plan without_tables = plan;
      without_tables.tables.clear();
      double elements = 1;
      table.size.clear();
      for (const Dimension& dimension : dimensions) {
        elements *= static_cast<double>(dimension.size);
        table.size.push_back(dimension.size);
      }
      table.values.assign(static_cast<size_t>(elements),
                          evaluate(without_tables, {info.start}, start)[0][0][0]);
    }
    TableView<Real> view;
    int64_t stride = 1;
    for (size_t place = dimensions.size(); place-- > 0;) {
      view.size[place] = table.size.at(place);
      view.stride[place] = stride;
      if (dimensions[place].kind == Dimension::Kind::rel) view.origin[place] = -(view.size[place] - 1) / 2;
      stride *= view.size[place];
    }
    storage.emplace_back(table.values.begin(), table.values.end());
    view.data = storage.back().data();
    views.push_back(view);
  }

  const Program program = compile(plan, roots);
  Evaluator<Real> evaluator(program);
  evaluator.prepare(call.shape, call.head, call.heads, views);
  const auto rows = static_cast<size_t>(call.shape.queries), columns = static_cast<size_t>(call.shape.keys);
  std::vector<Matrix> result(roots.size(), Matrix(rows, std::vector<double>(columns)));
  for (size_t row = 0; row < rows; ++row) {
    std::vector<std::vector<Real>> streams, outputs(roots.size(), std::vector<Real>(columns));
    std::vector<const Real*> stream_pointers;
    std::vector<Real*> output_pointers;
    for (const StreamInfo& stream : plan.streams) {
      const auto given = call.streams.find(stream.name);
      if (given == call.streams.end())
        streams.emplace_back(columns, Real(0));
      else
        streams.emplace_back(given->second.at(row).begin(), given->second.at(row).end());
    }
    for (const auto& stream : streams) stream_pointers.push_back(stream.data());
    for (auto& output : outputs) output_pointers.push_back(output.data());
    evaluator.run(static_cast<int64_t>(row), 0, call.shape.keys, stream_pointers, output_pointers);
    for (size_t root = 0; root < roots.size(); ++root)
      result[root][row].assign(outputs[root].begin(), outputs[root].end());
  }
  return result;
}

inline Matrix mask(const Formula& formula, const Call& call) {
  return evaluate(formula.plan(), {formula.plan().mask}, call)[0];
}

inline Matrix score(const Formula& formula, const Call& call) {
  return evaluate(formula.plan(), {formula.plan().score}, call)[0];
}

// One row of a norm. What is not allowed adds nothing to the sum and gets nothing.
inline std::vector<double> norm(Op kind, const std::vector<double>& x, const std::vector<double>& allowed,
                                const double* sink) {
  std::vector<double> weight(x.size(), 0.0);
  double largest = sink ? *sink : -std::numeric_limits<double>::infinity(), sum = 0;
  for (size_t j = 0; j < x.size(); ++j)
    if (allowed[j] != 0) largest = std::max(largest, x[j]);
  for (size_t j = 0; j < x.size(); ++j) {
    if (allowed[j] == 0) continue;
    weight[j] = kind == Op::softmax ? std::exp(x[j] - largest) : kind == Op::l1 ? x[j] : std::expm1(x[j]);
    sum += std::fabs(weight[j]);
    if (kind == Op::softpick) weight[j] = std::max(weight[j], 0.0);
  }
  if (sink) sum += std::exp(*sink - largest);
  for (double& value : weight) value = sum == 0 ? 0 : value / sum;
  return weight;
}

// The weight of every pair: the sum over terms of coefficient times norm.
inline Matrix weights(const Formula& formula, const Call& call) {
  const Plan& plan = formula.plan();
  std::vector<NodeId> roots{plan.mask};
  for (const NormInfo& info : plan.norms) {
    roots.push_back(info.argument);
    roots.push_back(info.sink == kNoNode ? info.argument : info.sink);
  }
  for (const TermInfo& term : plan.terms) roots.push_back(term.coefficient);
  const std::vector<Matrix> values = evaluate(plan, roots, call);
  const Matrix& allowed = values[0];
  Matrix result = matrix(call.shape.queries, call.shape.keys, [](int64_t, int64_t) { return 0.0; });
  for (size_t row = 0; row < result.size(); ++row) {
    for (size_t index = 0; index < plan.terms.size(); ++index) {
      const TermInfo& term = plan.terms[index];
      const std::vector<double>& coefficient = values[1 + 2 * plan.norms.size() + index][row];
      std::vector<double> normed(result[row].size(), 1.0);
      if (term.norm >= 0) {
        const auto place = static_cast<size_t>(term.norm);
        const bool has_sink = plan.norms[place].sink != kNoNode;
        normed = norm(plan.norms[place].kind, values[1 + 2 * place][row], allowed[row],
                      has_sink ? values[2 + 2 * place][row].data() : nullptr);
      }
      for (size_t j = 0; j < normed.size(); ++j)
        if (allowed[row][j] != 0) result[row][j] += coefficient[j] * normed[j];
    }
  }
  return result;
}

inline double sum(const std::vector<double>& row) {
  double total = 0;
  for (double value : row) total += value;
  return total;
}

// A mask as a drawing: a line for each query, '#' where a key is seen.
inline std::string picture(const Matrix& mask) {
  std::string text;
  for (const std::vector<double>& row : mask) {
    for (double value : row) text += value != 0 ? '#' : '.';
    text += '\n';
  }
  return text;
}

}  // namespace saccade::dense
