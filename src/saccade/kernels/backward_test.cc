// Gradients of vectors and tables against the oracle, and the oracle's own against differences.
#include "saccade/kernels/cases_testing.h"

namespace saccade::kernels::testing {
namespace {

template <class Real>
class Backward : public ::testing::Test {
 public:
  static void check_all(const std::vector<Case>& cases) {
    for (const Case& given : cases) check<Real>(given, true);
  }
};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Backward, Reals);

TYPED_TEST(Backward, ShippedMechanisms) { this->check_all(formula_cases(shipped_formulas())); }
TYPED_TEST(Backward, UnusualFormulas) { this->check_all(formula_cases(unusual_formulas())); }
TYPED_TEST(Backward, AllLengthsUpTo70) { this->check_all(length_cases()); }
TYPED_TEST(Backward, SeveralTiles) { this->check_all(tile_cases()); }
TYPED_TEST(Backward, WidthsFrom1To256) { this->check_all(width_cases()); }
TYPED_TEST(Backward, ArraysWithGaps) { this->check_all(layout_cases()); }
TYPED_TEST(Backward, PaddedKeysMayHoldNaN) { this->check_all(padding_cases()); }
TYPED_TEST(Backward, ListsOfKeys) { this->check_all(list_cases()); }

TEST(Backward, NarrowStorage) {
  for (const Case& given : half_cases()) check<float>(given, true);
}

}  // namespace
}  // namespace saccade::kernels::testing
