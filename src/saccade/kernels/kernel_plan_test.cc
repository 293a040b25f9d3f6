// What the kernels make of a formula: which part runs per pair, which band of distances is left, where
// gradients are summed.
#include "saccade/kernels/kernel_plan.h"

#include <gtest/gtest.h>

#include "saccade/formula/formula.h"

namespace saccade::kernels {
namespace {

KernelPlan plan_of(const std::string& text, bool key_mask = false) {
  return make_kernel_plan(Formula::parse(text).plan(), key_mask);
}

size_t instructions(const Program& program) { return program.stage(Rate::tile).code.size(); }

TEST(KernelPlan, AddsTablesToProductsInsteadOfRunningThem) {
  for (const char* text :
       {"param a[head] = 1\nparam b[head] = 1\nscore = s - abs(a * d) ^ b", "score = s + 0.1 * j",
        "score = 0.1 * d + s", "input r[head, rel]\nscore = s + r[d]"}) {
    SCOPED_TRACE(text);
    const KernelPlan plan = plan_of(text);
    EXPECT_EQ(instructions(plan.forward), 0u);
    EXPECT_EQ(plan.products[0].addend.kind, Operand::Kind::slot);
    EXPECT_EQ(plan.terms[0].argument.kind, Operand::Kind::stream);
  }
}

TEST(KernelPlan, KeepsAStreamThatIsReadTwice) {
  for (const char* text : {"score = s + 0.1 * j + 0 * abs(s)", "weights = s * softmax(s + 0.1 * j)",
                           "score = 0.1 * j - s", "score = s + 0.1 * i"}) {
    SCOPED_TRACE(text);
    const KernelPlan plan = plan_of(text);
    EXPECT_EQ(plan.products[0].addend_node, kNoNode);
    EXPECT_GT(instructions(plan.forward), 0u);
  }
}

TEST(KernelPlan, FindsTheBandOfDistances) {
  const auto band = [](const std::string& mask) { return plan_of("mask = " + mask).band; };
  const auto expect = [](const Band& found, std::optional<int64_t> low, std::optional<int64_t> high,
                         bool exact) {
    EXPECT_EQ(found.low, low);
    EXPECT_EQ(found.high, high);
    EXPECT_EQ(found.exact, exact);
  };
  expect(band("causal"), 0, {}, true);
  expect(band("0 <= d < 10"), 0, 9, true);
  expect(band("-3 <= d <= 7"), -3, 7, true);
  expect(band("d < 5"), {}, 4, true);
  expect(band("causal and d % 2 == 0"), 0, {}, false);
  expect(band("causal and (j < 4 or d < 256)"), 0, {}, false);
  expect(plan_of("input doc[token]: int\nmask = causal and doc[i] == doc[j]").band, 0, {}, false);
  expect(plan_of("mask = causal", true).band, 0, {}, false);  // a padded key may be hidden as well
  EXPECT_FALSE(plan_of("score = s").masked);
  EXPECT_TRUE(plan_of("score = s", true).masked);
}

TEST(KernelPlan, TrustsNoBandWhenPositionsAreGiven) {
  const Band band = plan_of("input pos[token]: int\nmask = causal").band;
  EXPECT_FALSE(band.low || band.high || band.exact);
}

TEST(KernelPlan, SumsGradientsAlongWhatAValueDependsOn) {
  const auto rate_of_sum = [](const std::string& text) {
    const KernelPlan plan = plan_of(text);
    for (const Target& target : plan.targets)
      if (!target.links.empty()) return std::pair(target.rate, target.product >= 0);
    return std::pair(Rate::tile, false);
  };
  EXPECT_EQ(rate_of_sum("param a[head] = 1\nscore = s - a * abs(d)"), std::pair(Rate::diagonal, true));
  EXPECT_EQ(rate_of_sum("input c[token]\nscore = s + c[j]"), std::pair(Rate::column, true));
  EXPECT_EQ(rate_of_sum("input c[token]\nscore = s * c[i]"), std::pair(Rate::row, false));
  EXPECT_EQ(rate_of_sum("param a[head] = 1\nscore = s * a"), std::pair(Rate::head, false));
  const KernelPlan pair = plan_of("input m[query, key]\nscore = s + m[i, j]");
  ASSERT_EQ(pair.targets.size(), 2u);
  EXPECT_TRUE(pair.targets[0].table == 0 || pair.targets[1].table == 0);
}

TEST(KernelPlan, RunsNoAdjointProgramWhereTheSlopeIsOne) {
  EXPECT_EQ(instructions(plan_of("param a[head] = 1\nscore = s - a * abs(d)").adjoint), 0u);
  EXPECT_EQ(instructions(plan_of("vector q2 = linear(relu(q))\nstream t = q2 . k\nparam l[head] = 0.1\n"
                                 "weights = softmax(s) - l * softmax(t)")
                             .adjoint),
            0u);
  EXPECT_GT(instructions(plan_of("score = 5 * tanh(s / 5)").adjoint), 0u);
}

TEST(KernelPlan, KnowsCoefficientsOfRowsFromThoseOfPairs) {
  const KernelPlan rows = plan_of("param l[head] = 0.1\nweights = l * softmax(s)");
  EXPECT_FALSE(rows.terms[0].inside);
  EXPECT_TRUE(rows.needs_partials());
  EXPECT_EQ(rows.row_targets.size(), 1u);
  const KernelPlan pairs = plan_of("weights = sign(s) * softmax(abs(s))");
  EXPECT_TRUE(pairs.terms[0].inside);
  EXPECT_FALSE(pairs.needs_partials());
  EXPECT_TRUE(plan_of("score = s").terms[0].unit);
}

TEST(KernelPlan, PutsALearnedScaleIntoTheFormula) {
  const KernelPlan plan = plan_of("param g[head] = 1\nscale = g\nscore = s");
  EXPECT_EQ(plan.products[0].scale.kind, Operand::Kind::immediate);
  EXPECT_EQ(plan.products[0].scale.value, 1);
  EXPECT_EQ(instructions(plan.forward), 1u);
  EXPECT_EQ(plan_of("scale = 0.5 * (h + 1)\nscore = s").products[0].scale.kind, Operand::Kind::slot);
}

}  // namespace
}  // namespace saccade::kernels
