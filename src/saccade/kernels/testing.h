// What the tests of the kernels share: problems of any shape in memory without a byte to spare, and how
// results are compared with the oracle.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/base/random.h"
#include "saccade/formula/formula.h"
#include "saccade/kernels/kernels.h"
#include "saccade/kernels/memory_testing.h"
#include "saccade/kernels/oracle_testing.h"

namespace saccade::kernels::testing {

// What to run. The defaults are the least of everything.
struct Case {
  std::string formula;
  int64_t queries = 1, keys = 1;
  int64_t width = 16, value_width = 16;
  int64_t vector_width = 0;  // of computed vectors, where the formula lets it differ
  int64_t batch = 1, key_heads = 1, group = 1, offset = 0, first_key = 0;
  bool key_mask = false;
  int64_t query_tile = 0, key_tile = 1;  // with lists
  bool gather = true;
  bool log_sum_gradients = false;
  std::optional<Storage> storage = {};  // of vectors; otherwise as computed
  Layout layout = Layout::packed;
  Guard guard = Guard::heap;
  uint64_t seed = 1;

  std::string text() const {
    return fmt::format(
        "{}\n{} queries, {} keys, width {}, values {}, vectors {}, batch {}, {} key heads of {}, offset {}, "
        "first "
        "key {}, key mask {}, lists {} x {}, gather {}, log-sum gradients {}, storage {}, layout {}, seed "
        "{}, on {}",
        formula, queries, keys, width, value_width, vector_width, batch, key_heads, group, offset, first_key,
        key_mask, query_tile, key_tile, gather, log_sum_gradients, storage ? static_cast<int>(*storage) : -1,
        static_cast<int>(layout), seed, target_name());
  }
};

struct Results {
  Tensor output, log_sums, partials;
  std::vector<Tensor> queries, keys;  // gradients
  Tensor value;
  std::vector<Tensor> tables;  // [batch or 1, head or 1, elements, 1]
  ForwardReport report;
};

// A case with numbers. Queries and keys are small multiples of 1/8: dot products are exact in any order of
// summation, so that no mask or sign hangs on rounding.
template <class Real>
class Problem {
 public:
  explicit Problem(const Case& given)
      : given_(given),
        random_(given.seed, given.formula),
        formula_(Formula::parse(given.formula)),
        plan_(make_kernel_plan(formula_.plan(), given.key_mask)) {
    const Plan& plan = formula_.plan();
    inputs_.shape = {given.batch,     given.key_heads * given.group,
                     given.key_heads, given.queries,
                     given.keys,      given.offset,
                     given.first_key};
    const Shape& shape = inputs_.shape;
    if (given.key_mask) make_key_mask();
    const auto exact = [&] { return static_cast<double>(random_.below(25)) / 8 - 1.5; };
    const auto normal = [&] { return random_.normal(); };
    inputs_.queries.resize(plan.vectors.size() + 1);
    inputs_.keys.resize(plan.vectors.size() + 1);
    for (size_t index = 0; index <= plan.vectors.size(); ++index) {
      const VectorInfo* info = index == 0 ? nullptr : &plan.vectors[index - 1];
      const int64_t width = info && given.vector_width ? given.vector_width : given.width;
      if (!info || (info->used && !info->for_keys))
        inputs_.queries[index] = make({shape.batch, shape.heads, shape.queries, width}, exact).array();
      if (!info || (info->used && info->for_keys)) inputs_.keys[index] = make_keys(width, exact);
    }
    inputs_.value = make_keys(given.value_width, normal);
    for (const TableInfo& info : plan.tables) make_table(info);
    if (given.key_mask) inputs_.tables.push_back(key_mask_);
    if (given.query_tile > 0) make_lists();
    output_gradient_ = make({shape.batch, shape.heads, shape.queries, given.value_width}, normal);
    const int64_t rows = shape.batch * shape.heads * shape.queries;
    for (int64_t count = rows * plan_.norms(); count > 0; --count)
      log_sum_gradients_.push_back(static_cast<Real>(random_.normal()));
  }

  const Case& given() const { return given_; }
  const KernelPlan& plan() const { return plan_; }
  const Inputs& inputs() const { return inputs_; }
  const Tensor& output_gradient() const { return output_gradient_; }
  const std::vector<Real>& log_sum_gradients() const { return log_sum_gradients_; }
  bool differentiable(size_t table) const {
    return table < formula_.plan().tables.size() && formula_.plan().tables[table].differentiable();
  }

  // Without gradients, what only they need is not asked for.
  Results run(const ForwardOptions& options = {}, bool with_gradients = true) const {
    const Shape& shape = inputs_.shape;
    const int64_t heads = shape.batch * shape.heads, value_width = given_.value_width;
    Results results;
    results.output = Tensor(storage(), {shape.batch, shape.heads, shape.queries, value_width},
                            result_layout(), given_.guard);
    const auto compute = storage_of<Real>();
    results.log_sums =
        Tensor(compute, {plan_.norms(), heads, shape.queries, 1}, Layout::packed, given_.guard);
    if (with_gradients && plan_.needs_partials())
      results.partials =
          Tensor(compute, {static_cast<int64_t>(plan_.terms.size()), heads, shape.queries, value_width},
                 Layout::packed, given_.guard);
    results.report =
        forward<Real>(plan_, inputs_, options,
                      {results.output.array(), results.log_sums.array().data, results.partials.array().data});
    if (with_gradients) run_backward(options, results);
    return results;
  }

  void run_backward(const ForwardOptions& options, Results& results) const {
    const Shape& shape = inputs_.shape;
    const auto make_like = [&](const Array& array, int64_t of_heads, int64_t tokens) {
      return array ? Tensor(storage(), {shape.batch, of_heads, tokens, array.width}, result_layout(),
                            given_.guard)
                   : Tensor();
    };
    Gradients gradients;
    for (const Array& array : inputs_.queries)
      gradients.queries.push_back(
          results.queries.emplace_back(make_like(array, shape.heads, shape.queries)).array());
    for (const Array& array : inputs_.keys)
      gradients.keys.push_back(
          results.keys.emplace_back(make_like(array, shape.key_heads, shape.keys)).array());
    gradients.value = (results.value = make_like(inputs_.value, shape.key_heads, shape.keys)).array();
    for (size_t index = 0; index < inputs_.tables.size(); ++index) {
      Gradients::TableGradient& gradient = gradients.tables.emplace_back();
      const Table& table = inputs_.tables[index];
      if (!differentiable(index)) {
        results.tables.emplace_back();
        continue;
      }
      const int64_t batches = table.batch_stride ? shape.batch : 1,
                    parts = table.head_stride ? shape.heads : 1;
      Tensor& sums = results.tables.emplace_back(
          Tensor(Storage::float64, {batches, parts, table.elements(), 1}, Layout::packed, given_.guard));
      sums.fill([] { return 0.5; });  // gradients are added
      gradient = {static_cast<double*>(sums.array().data),
                  table.batch_stride ? parts * table.elements() : 0,
                  table.head_stride ? table.elements() : 0,
                  {table.size[1] * table.size[2], table.size[2], 1}};
    }
    backward<Real>(
        plan_, inputs_, options,
        {results.output.array(), output_gradient_.array(), results.log_sums.array().data,
         given_.log_sum_gradients ? log_sum_gradients_.data() : nullptr, results.partials.array().data},
        gradients);
  }

  Expected expected(bool with_gradients = true) const {
    const std::vector<double> log_sums(log_sum_gradients_.begin(), log_sum_gradients_.end());
    return Oracle<Real>(formula_.plan(), inputs_, given_.key_mask ? &key_mask_ : nullptr)
        .run(with_gradients ? &output_gradient_.array() : nullptr,
             given_.log_sum_gradients ? log_sums.data() : nullptr);
  }

 private:
  Storage storage() const { return given_.storage.value_or(storage_of<Real>()); }
  Layout result_layout() const { return given_.layout == Layout::shared ? Layout::packed : given_.layout; }

  template <class F>
  Tensor make(std::array<int64_t, 4> sizes, F next) {
    Tensor tensor(storage(), sizes, given_.layout, given_.guard);
    tensor.fill(next);
    return kept_.emplace_back(tensor);
  }

  // Padding holds NaN.
  template <class F>
  Array make_keys(int64_t width, F next) {
    const Shape& shape = inputs_.shape;
    int64_t number = 0;
    return make({shape.batch, shape.key_heads, shape.keys, width},
                [&] {
                  const int64_t token = number++ / width, batch = token / shape.keys / shape.key_heads;
                  const bool padding =
                      given_.key_mask && given_.layout != Layout::shared &&
                      static_cast<const Real*>(key_mask_.data)[batch * shape.keys + token % shape.keys] == 0;
                  return padding ? std::numeric_limits<double>::quiet_NaN() : next();
                })
        .array();
  }

  void make_key_mask() {
    const Shape& shape = inputs_.shape;
    Tensor mask(storage_of<Real>(), {shape.batch, 1, shape.keys, 1}, Layout::packed, given_.guard);
    mask.fill([&] { return random_.below(4) ? 1.0 : 0.0; });
    kept_.push_back(mask);
    key_mask_ = {mask.array().data, shape.keys, 0, {shape.keys, 1, 1}, {1, 0, 0}, {shape.first_key, 0, 0}};
  }

  void make_table(const TableInfo& info) {
    using Kind = Dimension::Kind;
    const Shape& shape = inputs_.shape;
    const int64_t last = std::max(shape.offset + shape.queries, shape.first_key + shape.keys);
    Table table;
    const std::vector<Dimension> dimensions = info.subscripted();
    // Some have a gap between their elements, and some lie the other way round.
    const bool reversed = random_.below(2);
    int64_t stride = 1 + static_cast<int64_t>(random_.below(2));
    for (size_t count = 0; count < dimensions.size(); ++count) {
      const size_t place = reversed ? count : dimensions.size() - 1 - count;
      const Dimension& dimension = dimensions[place];
      table.size[place] = dimension.kind == Kind::token   ? last - shape.first_key
                          : dimension.kind == Kind::query ? shape.queries
                          : dimension.kind == Kind::key   ? shape.keys
                          : dimension.kind == Kind::rel ? 2 * static_cast<int64_t>(1 + random_.below(40)) - 1
                          : dimension.kind == Kind::fixed ? std::min<int64_t>(dimension.size, 64)
                                                          : 1 + static_cast<int64_t>(random_.below(6));
      table.stride[place] = stride;
      table.origin[place] = origin_of(dimension, table.size[place], shape.offset, shape.first_key);
      stride *= table.size[place];
    }
    const bool of_batch = info.has(Kind::batch) || (info.implied() & kReadsBatch && random_.below(2));
    int64_t elements = stride;
    if (info.has(Kind::head)) table.head_stride = std::exchange(elements, elements * shape.heads);
    if (of_batch) table.batch_stride = std::exchange(elements, elements * shape.batch);
    Tensor numbers(storage_of<Real>(), {1, 1, elements, 1}, Layout::packed, given_.guard);
    numbers.fill([&] { return number_of(info); });
    kept_.push_back(numbers);
    table.data = numbers.array().data;
    inputs_.tables.push_back(table);
  }

  double number_of(const TableInfo& info) {
    if (info.type == Type::boolean) return static_cast<double>(random_.below(2));
    if (info.type == Type::integer) return static_cast<double>(random_.below(24)) - 4;
    return static_cast<float>(std::clamp(random_.normal(), info.low, info.high));
  }

  void make_lists() {
    const Shape& shape = inputs_.shape;
    const int64_t tiles = (shape.queries + given_.query_tile - 1) / given_.query_tile,
                  key_tiles = (shape.keys + given_.key_tile - 1) / given_.key_tile;
    const bool by_head = random_.below(2), by_batch = random_.below(2);
    for (int64_t row = 0; row < (by_head ? shape.heads : 1) * (by_batch ? shape.batch : 1); ++row) {
      for (int64_t tile = 0; tile < tiles; ++tile) {
        list_starts_.push_back(static_cast<int32_t>(list_keys_.size()));
        const uint64_t share = random_.below(4);  // from none to most
        for (int64_t key = 0; key < key_tiles; ++key)
          if (random_.below(4) < share) list_keys_.push_back(static_cast<int32_t>(key));
      }
      list_starts_.push_back(static_cast<int32_t>(list_keys_.size()));
    }
    list_keys_.shrink_to_fit();
    inputs_.lists = {given_.query_tile,
                     given_.key_tile,
                     list_starts_.data(),
                     list_keys_.data(),
                     by_batch ? (by_head ? shape.heads : 1) * (tiles + 1) : 0,
                     by_head ? tiles + 1 : 0,
                     given_.gather};
  }

  Case given_;
  RandomStream random_;
  Formula formula_;
  KernelPlan plan_;
  Inputs inputs_;
  Table key_mask_;
  Tensor output_gradient_;
  std::vector<Real> log_sum_gradients_;
  std::vector<int32_t> list_starts_, list_keys_;
  std::vector<Tensor> kept_;
};

// Holds numbers to what is expected, in units of `tolerance` times the size of what was summed.
inline void expect_near(const char* what, const Tensor& tensor, const Sums& expected, double tolerance,
                        double before = 0) {
  const std::vector<double> numbers = tensor.numbers();
  ASSERT_EQ(numbers.size(), expected.value.size()) << what;
  EXPECT_TRUE(tensor.gaps_untouched()) << what << ": wrote between the numbers";
  size_t wrong = 0, worst = 0;
  double most = 1;
  for (size_t at = 0; at < numbers.size(); ++at) {
    const double want = expected.value[at] + before;
    if (numbers[at] == want) continue;
    const double excess =
        std::fabs(numbers[at] - want) / (tolerance * expected.size[at] + 1e-15 * std::fabs(before) + 1e-36);
    if (excess <= 1) continue;
    ++wrong;
    if (!(excess <= most)) most = excess, worst = at;
  }
  const auto [batch, heads, tokens, width] = tensor.sizes();
  const auto place = static_cast<int64_t>(worst);
  EXPECT_EQ(wrong, 0U) << fmt::format(
      "{}: {} of {} numbers are wrong; the worst, at [{}, {}, {}, {}], is {:.17g} and should be {:.17g}, "
      "{:.3g} times "
      "the tolerance away",
      what, wrong, numbers.size(), place / width / tokens / heads, place / width / tokens % heads,
      place / width % tokens, place % width, numbers[worst], expected.value[worst] + before, most);
}

template <class Real>
double tolerance_of(const Case& given) {
  if (given.storage == Storage::bfloat16) return 0x1p-6;
  if (given.storage == Storage::float16) return 0x1p-9;
  return sizeof(Real) == 8 ? 1e-12 : 2e-5;
}

// `slack` is for numbers that have lost digits on their way to a sum.
template <class Real>
void check_outputs(const Problem<Real>& problem, const Results& results, const Expected& expected,
                   double slack = 1) {
  const double tolerance = slack * tolerance_of<Real>(problem.given());
  expect_near("output", results.output, expected.output, tolerance);
  expect_near("log-sums", results.log_sums, expected.log_sums, slack * (sizeof(Real) == 8 ? 1e-12 : 1e-5));
}

template <class Real>
void check_gradients(const Problem<Real>& problem, const Results& results, const Expected& expected,
                     double slack = 1) {
  const double tolerance = slack * tolerance_of<Real>(problem.given());
  for (size_t index = 0; index < results.queries.size(); ++index) {
    if (results.queries[index].array())
      expect_near("gradient of queries", results.queries[index], expected.queries[index], tolerance);
    if (results.keys[index].array())
      expect_near("gradient of keys", results.keys[index], expected.keys[index], tolerance);
  }
  expect_near("gradient of values", results.value, expected.value, tolerance);
  for (size_t index = 0; index < expected.tables.size(); ++index)
    if (results.tables[index].array())
      expect_near("gradient of a table", results.tables[index], expected.tables[index], tolerance, 0.5);
}

// Lists may lack the keys nearby, so that all that is left of a steep prior is large and rounded accordingly.
template <class Real>
constexpr double kListSlack = sizeof(Real) == 8 ? 1 : 10;

// Runs a case, backwards too or not, and compares everything.
template <class Real>
void check(const Case& given, bool with_gradients) {
  const double slack = given.query_tile > 0 ? kListSlack<Real> : 1;
  SCOPED_TRACE(given.text());
  const Problem<Real> problem(given);
  const Results results = problem.run({}, with_gradients);
  const Expected expected = problem.expected(with_gradients);
  check_outputs(problem, results, expected, slack);
  if (with_gradients) check_gradients(problem, results, expected, slack);
}

}  // namespace saccade::kernels::testing
