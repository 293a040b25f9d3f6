#include "saccade/formula/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "saccade/formula/check_testing.h"
#include "saccade/formula/naive_evaluation.h"
#include "saccade/formula/random_formula.h"

namespace saccade {
namespace {

class GraphTest : public testing::Test {
 protected:
  NodeId whole(double value) { return graph.number(value, Type::integer); }
  NodeId real(double value) { return graph.number(value, Type::real); }
  std::string text(NodeId id) { return graph.print(id, {}); }

  Graph graph;
  NodeId i = graph.variable(Variable::i), j = graph.variable(Variable::j), d = graph.variable(Variable::d),
         h = graph.variable(Variable::h), n = graph.variable(Variable::n), s = graph.stream(0);
};

TEST_F(GraphTest, EqualNodesAreOne) {
  const NodeId first = graph.apply(Op::add, {graph.apply(Op::abs, {d}), s});
  const NodeId size = graph.size();
  EXPECT_EQ(graph.apply(Op::add, {graph.apply(Op::abs, {d}), s}), first);
  EXPECT_EQ(graph.size(), size);
  EXPECT_NE(graph.apply(Op::add, {s, graph.apply(Op::abs, {d})}), first) << "operands keep their order";
  EXPECT_NE(graph.read(0, Type::real, 0, {i}), graph.read(1, Type::real, 0, {i}));
  EXPECT_NE(graph.read(0, Type::real, 0, {i}), graph.read(0, Type::real, 0, {j}));
}

TEST_F(GraphTest, NumbersOfAnotherTypeOrSignAreOthers) {
  EXPECT_NE(whole(1), real(1));
  EXPECT_NE(real(0), real(-0.0));
  EXPECT_NE(whole(1), graph.boolean(true));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(real(nan), real(nan));
}

TEST_F(GraphTest, FoldsConstants) {
  EXPECT_EQ(graph.apply(Op::add, {whole(2), whole(3)}), whole(5));
  EXPECT_EQ(graph.apply(Op::divide, {whole(6), whole(3)}), real(2)) << "a quotient is real";
  EXPECT_EQ(graph.apply(Op::less, {whole(2), whole(3)}), graph.boolean(true));
  EXPECT_EQ(graph.apply(Op::where, {graph.boolean(false), whole(2), real(3)}), real(3));
  EXPECT_EQ(graph.apply(Op::floor, {real(2.5)}), whole(2));
}

TEST_F(GraphTest, RemovesExactIdentities) {
  EXPECT_EQ(graph.apply(Op::add, {s, whole(0)}), s);
  EXPECT_EQ(graph.apply(Op::add, {whole(0), s}), s);
  EXPECT_EQ(graph.apply(Op::subtract, {s, whole(0)}), s);
  EXPECT_EQ(graph.apply(Op::multiply, {s, whole(1)}), s);
  EXPECT_EQ(graph.apply(Op::multiply, {real(1), s}), s);
  EXPECT_EQ(graph.apply(Op::divide, {s, whole(1)}), s);
  EXPECT_EQ(graph.apply(Op::power, {s, whole(1)}), s);
  EXPECT_EQ(graph.apply(Op::negate, {graph.apply(Op::negate, {s})}), s);
  const NodeId positive = graph.apply(Op::greater, {s, whole(0)}), yes = graph.boolean(true),
               no = graph.boolean(false);
  EXPECT_EQ(graph.apply(Op::logical_not, {graph.apply(Op::logical_not, {positive})}), positive);
  EXPECT_EQ(graph.apply(Op::logical_and, {yes, positive}), positive);
  EXPECT_EQ(graph.apply(Op::logical_and, {positive, no}), no);
  EXPECT_EQ(graph.apply(Op::logical_or, {positive, no}), positive);
  EXPECT_EQ(graph.apply(Op::logical_or, {yes, positive}), yes);
  EXPECT_EQ(graph.apply(Op::where, {yes, s, i}), s);
  EXPECT_EQ(graph.apply(Op::where, {positive, s, s}), s);
}

TEST_F(GraphTest, KeepsWhatIsNotExact) {
  EXPECT_EQ(text(graph.apply(Op::multiply, {s, whole(0)})), "s * 0") << "it may be NaN";
  EXPECT_EQ(text(graph.apply(Op::subtract, {s, s})), "s - s");
  EXPECT_EQ(text(graph.apply(Op::divide, {s, s})), "s / s");
  EXPECT_EQ(text(graph.apply(Op::power, {s, whole(0)})), "s ^ 0");
  const NodeId sum = graph.apply(Op::add, {graph.apply(Op::add, {s, real(0.1)}), real(0.2)});
  EXPECT_EQ(text(sum), "s + 0.1 + 0.2") << "floats are not re-associated";
}

TEST_F(GraphTest, ASimplificationKeepsTheType) {
  // Otherwise d + 0.0 could subscript a table, and only when the literal happens to be 0.
  EXPECT_EQ(graph[graph.apply(Op::add, {d, real(0)})].type, Type::real);
  EXPECT_EQ(graph[graph.apply(Op::multiply, {d, real(1)})].type, Type::real);
  EXPECT_EQ(graph[graph.apply(Op::divide, {d, whole(1)})].type, Type::real);
  EXPECT_EQ(graph[graph.apply(Op::power, {d, whole(1)})].type, Type::real);
  EXPECT_EQ(graph[graph.apply(Op::where, {graph.boolean(true), d, real(1)})].type, Type::real);
  EXPECT_EQ(graph[graph.apply(Op::add, {d, whole(0)})].type, Type::integer);
}

TEST_F(GraphTest, RecognisesTheDistance) {
  EXPECT_EQ(graph.apply(Op::subtract, {i, j}), d);
  EXPECT_EQ(text(graph.apply(Op::subtract, {j, i})), "-d");
}

TEST_F(GraphTest, ComparesDistancesHoweverTheyAreWritten) {
  const NodeId causal = graph.apply(Op::greater_equal, {d, whole(0)});
  EXPECT_EQ(graph.apply(Op::greater_equal, {i, j}), causal);
  EXPECT_EQ(graph.apply(Op::less_equal, {j, i}), causal);
  EXPECT_EQ(text(graph.apply(Op::less, {i, graph.apply(Op::add, {j, whole(64)})})), "d < 64");
  EXPECT_EQ(text(graph.apply(Op::greater, {graph.apply(Op::add, {j, whole(64)}), i})), "d < 64");
  EXPECT_EQ(text(graph.apply(Op::equal, {graph.apply(Op::subtract, {i, whole(2)}), j})), "d == 2");
  EXPECT_EQ(text(graph.apply(Op::not_equal, {j, graph.apply(Op::negate, {graph.apply(Op::negate, {i})})})),
            "d != 0");
  EXPECT_EQ(text(graph.apply(Op::less, {graph.apply(Op::add, {i, h}), j})), "d < 0 - h");
  EXPECT_EQ(text(graph.apply(Op::less, {i, h})), "i < h") << "that is no distance";
  EXPECT_EQ(text(graph.apply(Op::less, {graph.apply(Op::add, {i, i}), graph.apply(Op::add, {j, j})})),
            "i + i < j + j")
      << "twice a distance is none";
  EXPECT_EQ(text(graph.apply(Op::less, {i, graph.apply(Op::multiply, {whole(2), j})})), "i < 2 * j");
}

TEST_F(GraphTest, DoesNotMoveInfinities) {
  // At i = 0 both quotients are NaN or infinite; x < x is false then, and so is x <= x for a NaN.
  const NodeId quotient = graph.apply(Op::floor_divide, {h, i});
  const NodeId left = graph.apply(Op::add, {i, quotient}), right = graph.apply(Op::add, {j, quotient});
  EXPECT_EQ(text(graph.apply(Op::less_equal, {left, right})), "i + h // i <= j + h // i");
  const NodeId huge = whole(1e20);
  EXPECT_EQ(text(graph.apply(Op::less, {graph.apply(Op::add, {i, huge}), graph.apply(Op::add, {j, huge})})),
            "i + 100000000000000000000 < j + 100000000000000000000");
}

TEST_F(GraphTest, KnowsTheRateOfEveryNode) {
  const auto rate = [&](Op op, NodeId x, NodeId y) { return graph.rate(graph.apply(op, {x, y})); };
  EXPECT_EQ(graph.rate(whole(3)), Rate::constant);
  EXPECT_EQ(graph.rate(n), Rate::constant);
  EXPECT_EQ(rate(Op::multiply, h, n), Rate::head);
  EXPECT_EQ(rate(Op::multiply, i, h), Rate::row);
  EXPECT_EQ(rate(Op::multiply, j, h), Rate::column);
  EXPECT_EQ(rate(Op::multiply, d, h), Rate::diagonal);
  EXPECT_EQ(rate(Op::multiply, i, j), Rate::tile);
  EXPECT_EQ(rate(Op::multiply, i, d), Rate::tile);
  EXPECT_EQ(rate(Op::multiply, s, h), Rate::tile);
  EXPECT_EQ(graph.rate(graph.read(0, Type::real, kReadsHead | kReadsBatch, {d})), Rate::diagonal);
  EXPECT_EQ(graph.rate(graph.read(0, Type::real, kReadsBatch, {})), Rate::head);
  EXPECT_EQ(graph.rate(graph.norm(Op::softmax, i, kNoNode)), Rate::tile) << "a weight belongs to a pair";
}

TEST_F(GraphTest, ReachableListsOperandsBeforeUsers) {
  const NodeId sum = graph.apply(Op::add, {graph.apply(Op::abs, {d}), s});
  EXPECT_THAT(graph.reachable({sum}), testing::ElementsAre(d, s, graph.apply(Op::abs, {d}), sum));
  EXPECT_THAT(graph.reachable({kNoNode}), testing::IsEmpty());
}

TEST_F(GraphTest, PrintsNumbersAndNames) {
  EXPECT_EQ(text(graph.apply(Op::add, {s, real(-0.5)})), "s + -0.5");
  EXPECT_EQ(text(graph.apply(Op::power, {s, whole(-2)})), "s ^ -2");
  EXPECT_EQ(text(real(std::numeric_limits<double>::infinity())), "inf");
  EXPECT_EQ(text(graph.boolean(false)), "not full");
  const NodeId sum = graph.apply(Op::add, {graph.apply(Op::abs, {d}), s});
  EXPECT_EQ(graph.print(sum, {{graph.apply(Op::abs, {d}), "far"}}), "far + s");
}

TEST_F(GraphTest, PrintsHugeExpressionsInBrief) {
  NodeId doubled = s;
  for (int count = 0; count < 60; ++count) doubled = graph.apply(Op::add, {doubled, doubled});
  EXPECT_LT(graph.print(doubled, {}, 100).size(), 120u);
}

// Lowering folds, simplifies and shares; a walk over the syntax tree knows nothing of that and must agree.
TEST(Lowering, ComputesWhatIsWritten) {
  constexpr uint64_t kSeed = 50;
  for (int number = 0; number < 400; ++number) {
    RandomStream random = RandomStream(kSeed, "lowering").split(std::to_string(number));
    const RandomFormula::Options options{.depth = 2 + static_cast<int>(random.below(4)),
                                         .positions_input = random.below(4) == 0};
    const std::string text = print(RandomFormula(random, options).formula());
    const Formula formula = Formula::parse(text);
    const Plan& plan = formula.plan();
    Pair<double> pair{.shape = {.queries = 4, .keys = 6, .offset = 3, .first_key = 1}, .head = 1, .heads = 3};
    const RandomTables<double> tables(plan, pair.shape, random);
    for (int count = 0; count < 8; ++count) {
      pair.row = static_cast<int64_t>(random.below(4));
      pair.column = static_cast<int64_t>(random.below(6));
      pair.streams.assign(plan.streams.size(), 0);
      for (double& value : pair.streams) value = random.normal();
      NaiveGraph<double> graph(plan.graph, tables.views(), pair);
      NaiveSyntax syntax(formula, tables.views(), pair);
      for (const auto& [name, node] : {std::pair{"mask", plan.mask}, std::pair{"score", plan.score}})
        ASSERT_TRUE(identical(graph.at(node), syntax.output(name)))
            << fmt::format("seed {} number {}: {} is {}, not {}, at i = {}, j = {} of\n{}", kSeed, number,
                           name, graph.at(node), syntax.output(name), pair.i(), pair.j(), text);
    }
  }
}

}  // namespace
}  // namespace saccade
