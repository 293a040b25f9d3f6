// What must hold to the last bit: results depend neither on skipping nor on the number of threads, and
// nothing outside of the arrays is touched.
#include <omp.h>

#include "saccade/kernels/cases_testing.h"

namespace saccade::kernels::testing {
namespace {

// A place where two tensors differ, or "" when every bit is the same.
std::string difference(const char* what, const Tensor& a, const Tensor& b) {
  const std::vector<double> first = a.numbers(), second = b.numbers();
  if (first.size() != second.size())
    return fmt::format("{}: {} and {} numbers", what, first.size(), second.size());
  for (size_t k = 0; k < first.size(); ++k)
    if (std::memcmp(&first[k], &second[k], sizeof(double)) != 0 && !(first[k] == 0 && second[k] == 0))
      return fmt::format("{}: number {} is {:.17g} and {:.17g}", what, k, first[k], second[k]);
  return "";
}

void expect_same(const Results& a, const Results& b) {
  EXPECT_EQ(difference("output", a.output, b.output), "");
  EXPECT_EQ(difference("log-sums", a.log_sums, b.log_sums), "");
  EXPECT_EQ(difference("partials", a.partials, b.partials), "");
  for (size_t index = 0; index < a.queries.size(); ++index) {
    EXPECT_EQ(difference("gradient of queries", a.queries[index], b.queries[index]), "");
    EXPECT_EQ(difference("gradient of keys", a.keys[index], b.keys[index]), "");
  }
  EXPECT_EQ(difference("gradient of values", a.value, b.value), "");
  for (size_t index = 0; index < a.tables.size(); ++index)
    EXPECT_EQ(difference("gradient of a table", a.tables[index], b.tables[index]), "");
}

class Threads {
 public:
  explicit Threads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  ~Threads() { omp_set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

// Every formula in a few shapes: dense and stacked, several units, lists.
std::vector<Case> varied_cases() {
  std::vector<Case> cases = formula_cases(all_formulas());
  Rotation formulas(all_formulas());
  RandomStream random(1, "varied");
  for (int64_t turn = 0; turn < 24; ++turn)
    cases.push_back({.formula = formulas.next(),
                     .queries = 150 + 7 * turn,
                     .keys = 390 - 5 * turn,
                     .width = 6,
                     .value_width = 5,
                     .offset = 200,
                     .key_mask = turn % 3 == 0,
                     .query_tile = turn % 2 ? 48 : 0,
                     .key_tile = turn % 4 == 1 ? 1 : 16,
                     .seed = random.next()});
  for (int64_t turn = 0; turn < 12; ++turn)  // decoding by lists, in several chunks
    cases.push_back({.formula = turn % 2 ? "mask = causal" : formulas.next(),
                     .queries = 1 + turn % 3,
                     .keys = 1301,
                     .width = 8,
                     .key_heads = 1 + turn % 3,
                     .group = 3,
                     .offset = 1298,
                     .query_tile = 4,
                     .key_tile = turn % 4 == 1 ? 16 : 1,
                     .gather = turn % 5 != 0,
                     .seed = random.next()});
  return cases;
}

template <class Real>
class Invariants : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Invariants, Reals);

TYPED_TEST(Invariants, SkippingChangesNoBit) {
  int64_t skipped = 0, skipped_of_lists = 0;
  for (const Case& given : varied_cases()) {
    SCOPED_TRACE(given.text());
    const Problem<TypeParam> problem(given);
    const Results with = problem.run({.skip = true}), without = problem.run({.skip = false});
    expect_same(with, without);
    if (given.gather) {  // lists that are walked over leave out what they empty in any case
      EXPECT_EQ(without.report.empty, 0);
    }
    (given.query_tile > 0 ? skipped_of_lists : skipped) += with.report.empty;
  }
  EXPECT_GT(skipped, 0) << "no case had anything to skip";
  EXPECT_GT(skipped_of_lists, 0) << "no block of picked keys was skipped";
}

TYPED_TEST(Invariants, ThreadsChangeNoBit) {
  for (const Case& given : varied_cases()) {
    SCOPED_TRACE(given.text());
    const Problem<TypeParam> problem(given);
    std::optional<Results> alone;
    for (int threads : {1, 2, 3, 5}) {
      const Threads now(threads);
      const Results results = problem.run();
      if (!alone) alone = results;
      expect_same(*alone, results);
    }
  }
}

TYPED_TEST(Invariants, EpsilonBoundsTheWeightThatIsLost) {
  constexpr double kEpsilon = 1e-3;
  const Case given{
      .formula = "mask = causal\nscore = s - 0.5 * d", .queries = 1100, .keys = 1100, .width = 4};
  const Problem<TypeParam> problem(given);
  const Results all = problem.run({}, false), most = problem.run({.epsilon = kEpsilon}, false);
  EXPECT_EQ(all.report.negligible, 0);
  EXPECT_GT(most.report.negligible, 0) << "nothing was left out";
  double largest = 0;
  for (double value : Rows(problem.inputs().value, 0, 0, given.keys).numbers)
    largest = std::max(largest, std::fabs(value));
  const std::vector<double> a = all.output.numbers(), b = most.output.numbers();
  for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 2 * kEpsilon * largest) << k;
  const std::vector<double> c = all.log_sums.numbers(), d = most.log_sums.numbers();
  for (size_t k = 0; k < c.size(); ++k) ASSERT_NEAR(c[k], d[k], 2 * kEpsilon) << k;
}

TYPED_TEST(Invariants, NothingOutsideOfTheArraysIsTouched) {
  // A page without permissions lies right behind every array, and then right before it.
  std::vector<Case> cases = width_cases();
  for (auto make : {length_cases, layout_cases, list_cases, padding_cases})
    for (const Case& given : make()) cases.push_back(given);
  uint64_t number = 0;
  for (Case& given : cases) {
    given.guard = number++ % 4 ? Guard::page_after : Guard::page_before;
    SCOPED_TRACE(given.text());
    const Results results = Problem<TypeParam>(given).run();
    EXPECT_TRUE(results.output.gaps_untouched());
  }
}

TEST(Invariants, NothingOutsideOfNarrowArraysIsTouched) {
  for (Case given : half_cases())
    for (Guard guard : {Guard::page_after, Guard::page_before}) {
      given.guard = guard;
      Problem<float>(given).run();
    }
}

}  // namespace
}  // namespace saccade::kernels::testing
