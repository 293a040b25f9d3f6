#include "saccade/formula/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "saccade/formula/check_testing.h"
#include "saccade/formula/random_formula.h"

namespace saccade {
namespace {

using testing::HasSubstr;

// The operations of a stage, in order.
std::vector<std::string> code(const Program& program, Rate rate) {
  std::vector<std::string> result;
  for (const Instruction& instruction : program.stage(rate).code) {
    if (instruction.op == Op::variable)
      result.emplace_back(name_of(static_cast<Variable>(instruction.symbol)));
    else
      result.emplace_back(instruction.op == Op::read ? "read" : operation(instruction.op).name);
  }
  return result;
}

TEST(Compile, HoistsWorkToItsRate) {
  const Plan plan = plan_of(
      "param a[head] = 1\ninput F[token]\n"
      "score = s * exp(a) + log(i + 1) * F[j] - abs(d) ^ a");
  const Program program = compile(plan, {plan.score});
  using testing::ElementsAre;
  EXPECT_THAT(code(program, Rate::head), ElementsAre("read", "exp"));
  EXPECT_THAT(code(program, Rate::row), ElementsAre("i", "+", "log"));
  EXPECT_THAT(code(program, Rate::column), ElementsAre("j", "read"));
  EXPECT_THAT(code(program, Rate::diagonal), ElementsAre("d", "abs", "^"));
  EXPECT_THAT(code(program, Rate::tile), ElementsAre("*", "*", "+", "-"));
}

TEST(Compile, NeedsNoCodeForStreamsAndNumbers) {
  const Plan plan = plan_of("score = s");
  const Program program = compile(plan, {plan.score, plan.mask});
  for (const Stage& stage : program.stages) EXPECT_TRUE(stage.code.empty());
  EXPECT_EQ(program.outputs[0].kind, Operand::Kind::stream);
  EXPECT_EQ(program.outputs[1].kind, Operand::Kind::immediate);
  EXPECT_EQ(program.outputs[1].value, 1);
}

TEST(Compile, SharesEqualExpressions) {
  const Plan plan = plan_of("score = tanh(s) + tanh(s) * tanh(s)");
  EXPECT_THAT(code(compile(plan, {plan.score, plan.score}), Rate::tile),
              testing::ElementsAre("tanh", "*", "+"));
}

TEST(Compile, ReusesRegistersAfterTheirLastUse) {
  std::string chain = "s";
  for (int count = 0; count < 50; ++count) chain = "tanh(" + chain + ")";
  const Plan plan = plan_of("score = " + chain);
  EXPECT_EQ(compile(plan, {plan.score}).stage(Rate::tile).registers, 1);
  const Plan hoisted = plan_of("score = s * exp(h) * exp(h + 1) * exp(h + 2) * exp(h + 3)");
  EXPECT_EQ(compile(hoisted, {hoisted.score}).stage(Rate::head).registers, 2) << "h and one more";
}

TEST(Compile, RefusesNorms) {
  const Plan plan = plan_of("");
  EXPECT_THROW(compile(plan, {plan.weights}), std::logic_error);
}

// Follows the registers of every stage as the executor would: an operand must still hold what it is read for,
// and a slot must be filled by an earlier stage.
void expect_sound(const Program& program, const Plan& plan, const std::vector<NodeId>& roots,
                  const std::string& where) {
  std::map<int32_t, NodeId> slots;
  for (Rate rate : {Rate::head, Rate::row, Rate::column, Rate::diagonal, Rate::tile}) {
    std::map<int32_t, NodeId> registers;
    for (const Instruction& instruction : program.stage(rate).code) {
      const Node& node = plan.graph[instruction.node];
      ASSERT_EQ(instruction.op, node.op) << where;
      for (size_t index = 0; index < node.args.size(); ++index) {
        const Operand& operand = instruction.args[index];
        if (operand.kind == Operand::Kind::reg) {
          ASSERT_EQ(registers.at(operand.index), node.args[index]) << where;
        } else if (operand.kind == Operand::Kind::slot) {
          ASSERT_EQ(slots.at(operand.index), node.args[index]) << where;
          const Rate from = program.slots[static_cast<size_t>(operand.index)];
          ASSERT_TRUE(from == Rate::head || rate == Rate::tile) << where;
        }
      }
      ASSERT_LT(instruction.result, program.stage(rate).registers) << where;
      registers[instruction.result] = instruction.node;
      if (instruction.store >= 0) slots[instruction.store] = instruction.node;
    }
    if (rate != Rate::tile) continue;
    for (size_t index = 0; index < roots.size(); ++index) {
      const Operand& output = program.outputs[index];
      const bool computed = output.kind == Operand::Kind::reg || output.kind == Operand::Kind::slot;
      const auto& source = output.kind == Operand::Kind::reg ? registers : slots;
      ASSERT_TRUE(!computed || source.at(output.index) == roots[index]) << where;
    }
  }
}

TEST(Compile, NeverReadsWhatWasOverwritten) {
  constexpr uint64_t kSeed = 80;
  for (int number = 0; number < 300; ++number) {
    RandomStream random = RandomStream(kSeed, "programs").split(std::to_string(number));
    const std::string text = print(RandomFormula(random, {.depth = 4}).formula());
    const Plan plan = plan_of(text);
    std::vector<NodeId> roots{plan.mask, plan.score};
    for (const DerivativeInfo& derivative : plan.derivatives) roots.push_back(derivative.value);
    expect_sound(compile(plan, roots), plan, roots,
                 fmt::format("seed {} number {}:\n{}", kSeed, number, text));
    if (HasFatalFailure()) return;
  }
}

TEST(List, ShowsEveryInstructionWithItsExpression) {
  const Plan plan = plan_of("param a[head] = 1\nmask = causal\nscore = s - abs(a * d) ^ 0.5");
  const std::string text = list(compile(plan, {plan.mask, plan.score}), plan);
  EXPECT_THAT(text, HasSubstr("once per head (1 instruction, 1 register):\n"));
  EXPECT_THAT(text, HasSubstr("once per distance ("));
  EXPECT_THAT(text, HasSubstr("for every pair (1 instruction, 1 register):\n"));
  EXPECT_THAT(text, HasSubstr("read a "));
  EXPECT_THAT(text, HasSubstr("# s - abs(a * d) ^ 0.5\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("once per query")));
}

}  // namespace
}  // namespace saccade
