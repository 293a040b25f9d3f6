// A formula with a caller's mask equals the one that a person would have written by hand.
#include "saccade/formula/augment.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "saccade/formula/mechanisms.h"

namespace saccade {
namespace {

const std::string kBooleanInput = "input attn_mask[batch, head, query, key]: bool\n";
const std::string kRealInput = "input attn_mask[batch, head, query, key]\n";

// The text that results, without the declaration of the new input.
std::string masked_text(const std::string& text, PairMask kind) {
  const auto masked = with_pair_mask(Formula::parse(text), kind);
  EXPECT_EQ(masked.input, "attn_mask");
  const std::string printed = masked.formula.print();
  const std::string& declaration = kind == PairMask::allowed ? kBooleanInput : kRealInput;
  EXPECT_TRUE(printed.starts_with(declaration)) << printed;
  return printed.substr(declaration.size());
}

TEST(PairMask, AllowedPairsJoinTheMask) {
  EXPECT_EQ(masked_text("weights = softmax(s)", PairMask::allowed),
            "weights = softmax(s)\nmask = attn_mask[i, j]\n");
  EXPECT_EQ(masked_text("mask = causal", PairMask::allowed), "mask = causal and attn_mask[i, j]\n");
  EXPECT_EQ(masked_text("mask = causal or j < 4", PairMask::allowed),
            "mask = (causal or j < 4) and attn_mask[i, j]\n");
}

TEST(PairMask, AddedNumbersReachWhateverReadsTheScore) {
  const std::string sum = "s_masked = s + where(attn_mask[i, j] > -inf, attn_mask[i, j], 0)\n";
  const std::string mask = "mask = attn_mask[i, j] > -inf\n";
  EXPECT_EQ(masked_text("", PairMask::added), mask + "score = s_masked\n" + sum);
  EXPECT_EQ(masked_text("score = s - abs(d)", PairMask::added), "score = s_masked - abs(d)\n" + mask + sum);
  EXPECT_EQ(masked_text("weights = sign(s) * softmax(abs(s))", PairMask::added),
            "weights = sign(s_masked) * softmax(abs(s_masked))\n" + mask + sum);
  EXPECT_EQ(masked_text("weights = softmax(2 * score, sink = 0)", PairMask::added),
            "weights = softmax(2 * s_masked, sink = 0)\n" + mask + sum);
  EXPECT_EQ(masked_text("score = s / 2 ; weights = softmax(score)", PairMask::added),
            "score = s_masked / 2\nweights = softmax(score)\n" + mask + sum);
}

TEST(PairMask, AddedNumbersReachEveryStream) {
  const auto masked = with_pair_mask(
      Formula::parse("vector q2 = linear(q) ; stream t = q2 . k ; weights = softmax(s) - softmax(t)"),
      PairMask::added);
  EXPECT_NE(masked.formula.print().find("weights = softmax(s_masked) - softmax(t_masked)"), std::string::npos)
      << masked.formula.print();
  EXPECT_TRUE(masked.formula.plan().warnings.empty());
}

TEST(PairMask, TakesNamesThatAreFree) {
  const auto masked = with_pair_mask(
      Formula::parse("input attn_mask[token] ; s_masked = s + attn_mask[j] ; score = s_masked"),
      PairMask::added);
  EXPECT_EQ(masked.input, "attn_mask_");
  EXPECT_EQ(masked.formula.print(),
            "input attn_mask_[batch, head, query, key]\n"
            "input attn_mask[token]\n"
            "s_masked = s_masked_ + attn_mask[j]\n"
            "score = s_masked\n"
            "mask = attn_mask_[i, j] > -inf\n"
            "s_masked_ = s + where(attn_mask_[i, j] > -inf, attn_mask_[i, j], 0)\n");
}

TEST(PairMask, KeepsNameAndConstants) {
  const auto formula = Formula::parse("const w = 4 ; mask = 0 <= d < w", {.name = "mine", .set = {{"w", 8}}});
  const auto masked = with_pair_mask(formula, PairMask::allowed);
  EXPECT_EQ(masked.formula.name(), "mine");
  EXPECT_EQ(masked.formula.overrides(), formula.overrides());
  EXPECT_EQ(masked.formula.plan().constants, formula.plan().constants);
}

// Positions that are given as an input do not change which entry of the mask belongs to a pair.
TEST(PairMask, IsReadByPlaceNotByPosition) {
  const auto masked =
      with_pair_mask(Formula::parse("input pos[token]: int ; mask = causal"), PairMask::allowed);
  const Plan& plan = masked.formula.plan();
  const int table = plan.table_index("attn_mask");
  const auto nodes = plan.graph.reachable({plan.mask});
  const auto read = std::ranges::find_if(
      nodes, [&](NodeId id) { return plan.graph[id].op == Op::read && plan.graph[id].symbol == table; });
  ASSERT_NE(read, nodes.end());
  for (NodeId subscript : plan.graph[*read].args) EXPECT_EQ(plan.graph[subscript].op, Op::variable);
}

TEST(PairMask, LeavesWhatAFormulaLearnsAlone) {
  for (const EmbeddedMechanism& mechanism : embedded_mechanisms()) {
    SCOPED_TRACE(mechanism.name);
    const auto formula = Formula::parse(mechanism.text);
    for (PairMask kind : {PairMask::allowed, PairMask::added}) {
      const Formula masked = with_pair_mask(formula, kind).formula;
      const auto learned = [](const Formula& of) {
        std::vector<std::string> names;
        for (const TableInfo& table : of.plan().tables)
          if (table.learned()) names.push_back(table.name);
        for (const VectorInfo& vector : of.plan().vectors) names.push_back(vector.name);
        for (const TableInfo& table : of.plan().tables)
          if (table.source == TableInfo::Source::token) names.push_back(table.name);
        return names;
      };
      EXPECT_EQ(learned(masked), learned(formula));
      EXPECT_EQ(masked.plan().warnings.size(), formula.plan().warnings.size());
      EXPECT_EQ(masked.plan().norms.size(), formula.plan().norms.size());
      EXPECT_EQ(masked.plan().tables.size(), formula.plan().tables.size() + 1);
    }
  }
}

TEST(WithoutCausal, TakesThatPartOfTheMaskAlone) {
  const auto text = [](const char* formula) {
    return print(without_causal(Formula::parse(formula)).syntax());
  };
  EXPECT_EQ(text("mask = causal\nscore = s - d\n"), text("score = s - d\n"));
  EXPECT_EQ(text("mask = causal and d < 7\n"), text("mask = d < 7\n"));
  EXPECT_EQ(text("mask = d < 7 and (causal and i > 2)\n"), text("mask = d < 7 and i > 2\n"));
  EXPECT_EQ(text("mask = causal or j < 3\n"), "mask = causal or j < 3\n");  // hides nothing else
}

TEST(WithoutCausal, KeepsWhatTheFormulaLearns) {
  for (const char* name : {"gpam", "prior", "fox", "alibi", "causal", "full"}) {
    const Formula formula = Formula::load(name), open = without_causal(formula);
    ASSERT_EQ(open.plan().tables.size(), formula.plan().tables.size()) << name;
    for (size_t table = 0; table < formula.plan().tables.size(); ++table)
      EXPECT_EQ(open.plan().tables[table].name, formula.plan().tables[table].name) << name;
  }
  const Formula set = without_causal(Formula::load("gpam", {{"lp", 0.5}}));
  EXPECT_EQ(set.overrides().at("lp"), 0.5);
}

}  // namespace
}  // namespace saccade
