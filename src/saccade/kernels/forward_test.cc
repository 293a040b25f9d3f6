// Outputs and log-sums against the oracle.
#include "saccade/kernels/cases_testing.h"

namespace saccade::kernels::testing {
namespace {

template <class Real>
class Forward : public ::testing::Test {
 public:
  static void check_all(const std::vector<Case>& cases) {
    for (const Case& given : cases) check<Real>(given, false);
  }
};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Forward, Reals);

TYPED_TEST(Forward, ShippedMechanisms) { this->check_all(formula_cases(shipped_formulas())); }
TYPED_TEST(Forward, UnusualFormulas) { this->check_all(formula_cases(unusual_formulas())); }
TYPED_TEST(Forward, AllLengthsUpTo70) { this->check_all(length_cases()); }
TYPED_TEST(Forward, SeveralTiles) { this->check_all(tile_cases()); }
TYPED_TEST(Forward, WidthsFrom1To256) { this->check_all(width_cases()); }
TYPED_TEST(Forward, ArraysWithGaps) { this->check_all(layout_cases()); }
TYPED_TEST(Forward, PaddedKeysMayHoldNaN) { this->check_all(padding_cases()); }
TYPED_TEST(Forward, ListsOfKeys) { this->check_all(list_cases()); }

TEST(Forward, NarrowStorage) {
  for (const Case& given : half_cases()) check<float>(given, false);
}

TEST(Forward, NoKeysGiveNoOutput) {
  for (const char* text : {"mask = causal", "weights = l1(s) + 0.5 * softpick(s) + s"})
    for (int64_t queries : {1, 130}) {
      const Case given{.formula = text, .queries = queries, .keys = 0};
      const Results results = Problem<float>(given).run({}, false);
      EXPECT_THAT(results.output.numbers(), ::testing::Each(0.0)) << text;
      EXPECT_THAT(results.log_sums.numbers(), ::testing::Each(-std::numeric_limits<double>::infinity()))
          << text;
    }
}

}  // namespace
}  // namespace saccade::kernels::testing
