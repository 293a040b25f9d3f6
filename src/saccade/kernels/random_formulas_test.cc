// Formulas that nobody thought of, against the oracle.
#include <cstdlib>

#include "saccade/formula/random_formula.h"
#include "saccade/kernels/testing.h"

namespace saccade::kernels::testing {
namespace {

bool ordinary(const Sums& sums) {
  return std::ranges::all_of(sums.size, [](double size) { return size < 1e6; }) &&
         std::ranges::none_of(sums.value, [](double value) { return std::isnan(value); });
}

// Whether all numbers are such that rounding is all that can go wrong.
bool ordinary(const Expected& expected) {
  bool result = ordinary(expected.output) && ordinary(expected.log_sums) && ordinary(expected.value);
  for (const auto* list : {&expected.queries, &expected.keys, &expected.tables})
    for (const Sums& sums : *list) result &= ordinary(sums);
  return result;
}

TEST(RandomFormulas, AgreeWithTheOracle) {
  const char* wanted = std::getenv("SACCADE_FORMULAS");  // "first count" of another stretch of formulas
  uint64_t first = 0, count = 250;
  if (wanted) sscanf(wanted, "%lu %lu", &first, &count);
  uint64_t compared = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    RandomStream random(seed, "random formulas");
    RandomFormula generator(random, {.depth = 3, .positions_input = random.below(8) == 0, .smooth = true});
    const Case given{.formula = print(generator.formula()),
                     .queries = 1 + static_cast<int64_t>(random.below(random.below(4) ? 40 : 120)),
                     .keys = 1 + static_cast<int64_t>(random.below(random.below(4) ? 60 : 300)),
                     .width = 1 + static_cast<int64_t>(random.below(20)),
                     .value_width = 1 + static_cast<int64_t>(random.below(20)),
                     .batch = 1 + static_cast<int64_t>(random.below(2)),
                     .key_heads = 1 + static_cast<int64_t>(random.below(2)),
                     .group = 1 + static_cast<int64_t>(random.below(2)),
                     .offset = static_cast<int64_t>(random.below(40)),
                     .first_key = static_cast<int64_t>(random.below(8)),
                     .key_mask = random.below(4) == 0,
                     .query_tile = random.below(4) ? 0 : 48,
                     .key_tile = 16,
                     .log_sum_gradients = random.below(2) == 0,
                     .seed = seed};
    SCOPED_TRACE(given.text());
    const Problem<double> problem(given);
    const Results results = problem.run();
    const Expected expected = problem.expected();
    if (!ordinary(expected)) continue;
    ++compared;
    check_outputs(problem, results, expected, 100);
    check_gradients(problem, results, expected, 100);
  }
  EXPECT_GT(compared, count / 2);
}

}  // namespace
}  // namespace saccade::kernels::testing
