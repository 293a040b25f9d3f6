// Runs a program, in plain scalar code: the readable executor that faster ones are measured against. It is
// prepared once per sequence and head, and then evaluates any strip of any row.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "saccade/formula/program.h"

namespace saccade {

// One table as one sequence and head see it: only the subscripted dimensions are left. A subscript has
// `origin` taken away before it is clamped: a rel dimension of 2m - 1 entries, for d = -(m-1) .. m-1, has the
// origin
// -(m-1), and a token dimension has the position of its first token.
template <class Real>
struct TableView {
  const Real* data = nullptr;
  std::array<int64_t, 3> size = {1, 1, 1};
  std::array<int64_t, 3> stride = {0, 0, 0};
  std::array<int64_t, 3> origin = {0, 0, 0};
};

struct MapShape {
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t offset = 0;     // position of the first query
  int64_t first_key = 0;  // position of the first key; above 0 when a cache has dropped older ones
};

template <class Real>
class Evaluator {
 public:
  explicit Evaluator(const Program& program);

  // Runs the stages of one head. `tables` is in the order of the plan's tables, and must stay alive.
  void prepare(const MapShape& shape, int64_t head, int64_t heads, std::span<const TableView<Real>> tables);

  // Evaluates the outputs for the query `row` (0 .. queries-1) and the keys [first, first + count).
  // `streams[k]` points to the `count` values of stream k; `outputs[k]` receives output k.
  void run(int64_t row, int64_t first, int64_t count, std::span<const Real* const> streams,
           std::span<Real* const> outputs);

 private:
  struct Strip;
  void run_stage(Rate rate, int64_t row, int64_t first, int64_t count, std::span<const Real* const> streams);
  void run_strip(const Stage& stage, const Strip& strip, std::span<const Real* const> streams);

  const Program& program_;
  MapShape shape_;
  int64_t head_ = 0, heads_ = 1;
  std::span<const TableView<Real>> tables_;
  std::vector<std::vector<Real>> slots_;
  std::vector<Real> registers_;
};

extern template class Evaluator<float>;
extern template class Evaluator<double>;

}  // namespace saccade
