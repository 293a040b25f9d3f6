// What can be asserted about a benchmark without a clock: its statistics, its counter of memory, that rivals
// compute what the formula says, and that the table of targets is whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "saccade/base/error.h"
#include "saccade/bench/report.h"
#include "saccade/bench/rivals.h"
#include "saccade/formula/program.h"

namespace saccade::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using torch::Tensor;

TEST(Statistics, TheMedianIsInTheMiddle) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({7}), 7);
  EXPECT_TRUE(std::isnan(median({})));
}

TEST(Statistics, ASummaryHasTheExtremes) {
  const Summary summary = summarise({5, 1, 9});
  EXPECT_EQ(summary.low, 1);
  EXPECT_EQ(summary.median, 5);
  EXPECT_EQ(summary.high, 9);
}

TEST(Statistics, TheGrowthOfAPowerLawIsItsExponent) {
  const std::vector<double> x = {512, 1024, 4096};
  for (const double exponent : {0.0, 1.0, 1.5, 2.0}) {
    std::vector<double> y;
    for (const double value : x) y.push_back(3e-9 * std::pow(value, exponent));
    EXPECT_NEAR(growth_exponent(x, y), exponent, 1e-12);
  }
}

TEST(Statistics, GrowthNeedsTwoLengthsAndPositiveNumbers) {
  EXPECT_TRUE(std::isnan(growth_exponent(std::vector{8.0}, std::vector{1.0})));
  EXPECT_TRUE(std::isnan(growth_exponent(std::vector{8.0, 8.0}, std::vector{1.0, 2.0})));
  EXPECT_TRUE(std::isnan(growth_exponent(std::vector{8.0, 16.0}, std::vector{0.0, 2.0})));
}

TEST(Rounds, EveryContestantRunsInEveryRound) {
  std::string order;
  const auto contestant = [&](const std::string& name) {
    return Contestant{.name = name, .run = [&order, name]() -> Results {
                        order += name;
                        return {};
                      }};
  };
  // No time is ever short enough for runs in a row, and each gets a second run to warm up.
  const auto measured = measure({contestant("a"), contestant("b")}, {.repeats = 3, .shortest = 1e-12});
  EXPECT_THAT(order, HasSubstr("ababab"));
  EXPECT_EQ(order.substr(order.size() - 6), "ababab");
  for (const Measurement& measurement : measured) EXPECT_EQ(measurement.seconds.size(), 3);
  order.clear();
  measure({contestant("a"), contestant("b"), contestant("c")}, {.repeats = 3, .shortest = 1e-12});
  EXPECT_EQ(order.substr(order.size() - 9), "abcbaccab");
}

TEST(Rounds, AContestantThatFailsIsReportedAndTheOthersGoOn) {
  const Contestant good{.name = "good", .run = [] { return Results{}; }};
  const Contestant bad{.name = "bad", .run = []() -> Results { fail("too large\nand more"); }};
  const auto measured = measure({bad, good}, {.repeats = 2});
  EXPECT_EQ(measured[0].failure, "too large");
  EXPECT_TRUE(measured[0].seconds.empty());
  EXPECT_EQ(measured[1].seconds.size(), 2);
}

TEST(Rounds, ResultsAreComparedByName) {
  const Tensor one = torch::ones({4}), other = one * 1.5;
  EXPECT_EQ(relative_error({{"output", one}}, {{"output", one}}), 0);
  EXPECT_DOUBLE_EQ(relative_error({{"output", other}, {"bias", one}}, {{"output", one}}), 0.5);
  EXPECT_EQ(relative_error({{"bias", one}}, {{"output", one}}), -1);
  EXPECT_FALSE(std::isfinite(relative_error({{"output", one}}, {{"output", one * NAN}})));
  EXPECT_FALSE(std::isfinite(relative_error({{"output", one}}, {{"output", torch::ones({5})}})));
}

// One declaration, all contestants: outputs and gradients agree wherever a rival claims to compute the same.
TEST(Rivals, ComputeWhatTheFormulaSays) {
  const std::vector<std::string> formulas = {"full",    "causal",     "window",   "prior",    "alibi",
                                             "gpam",    "diff",       "softcap",  "document", "t5",
                                             "sigmoid", "sink_logit", "retention"};
  std::set<std::string> seen;
  for (const std::string& formula : formulas)
    for (const Task task : {Task::forward, Task::training, Task::decoding}) {
      if (task == Task::decoding && formula == "full") continue;
      const bench::Setup setup{.formula = {.name = formula},
                               .task = task,
                               .shape = self_attention(40, 4, 8, 2),
                               .dtype = at::kDouble,
                               .path = Path::reference};
      const auto scene = make_scene(setup);
      const Form form = form_of(scene->formula.plan());
      std::vector<Contestant> contestants{make_contestant("saccade", scene)};
      for (const Rival& rival : rivals())
        if (rival.fits(*scene, form)) {
          contestants.push_back(make_contestant(rival.name, scene));
          contestants.back().equal_to = 0;
          seen.emplace(rival.name);
        }
      const auto measured = measure(contestants, {.repeats = 1, .shortest = 1e-12});
      for (size_t index = 1; index < measured.size(); ++index) {
        SCOPED_TRACE(formula + ", " + std::string(name_of(task)) + ", " + contestants[index].name);
        EXPECT_EQ(measured[index].failure, "");
        EXPECT_GE(measured[index].error, 0);
        EXPECT_LT(measured[index].error, 1e-5);  // tables and positions are float in the dense map
      }
    }
  EXPECT_EQ(seen.size(), rivals().size()) << "a rival that no formula here fits";
}

TEST(Rivals, KnowWhatTheyCanCompute) {
  const auto form = [](const std::string& name) { return form_of(Formula::load(name).plan()); };
  EXPECT_TRUE(form("full").plain() && form("full").unmasked);
  EXPECT_TRUE(form("causal").plain() && form("causal").causal);
  EXPECT_TRUE(form("window").plain() && !form("window").causal && !form("window").unmasked);
  EXPECT_TRUE(form("prior").biased && form("prior").learned);
  EXPECT_TRUE(form("alibi").biased && !form("alibi").learned);
  EXPECT_TRUE(form("gpam").mixed && !form("gpam").single);
  for (const std::string name : {"softcap", "sigmoid", "sink_logit", "relu2"})
    EXPECT_FALSE(form(name).single || form(name).mixed) << name;
  EXPECT_THROW(find_rival("spda"), Error);
}

TEST(Sparsity, ListsAreSortedAndAsDenseAsAsked) {
  const auto scene = make_scene({.formula = {.name = "full"},
                                 .shape = self_attention(64, 2, 8),
                                 .sparsity = Sparsity{.density = 0.25, .query_tile = 16, .key_tile = 1}});
  const KeyLists& lists = *scene->problem.call.lists;
  ASSERT_EQ(lists.starts.sizes(), (std::vector<int64_t>{1, 2, 5}));
  ASSERT_EQ(lists.keys.numel(), 2 * 4 * 16);
  const auto starts = lists.starts.accessor<int32_t, 3>();
  const auto keys = lists.keys.accessor<int32_t, 1>();
  for (int64_t head = 0; head < 2; ++head)
    for (int64_t tile = 0; tile < 4; ++tile) {
      EXPECT_EQ(starts[0][head][tile + 1] - starts[0][head][tile], 16);
      for (int64_t place = starts[0][head][tile]; place < starts[0][head][tile + 1]; ++place) {
        EXPECT_LT(keys[place], 64);
        if (place > starts[0][head][tile]) {
          EXPECT_LT(keys[place - 1], keys[place]);
        }
      }
    }
  EXPECT_EQ(starts[0][0][4], starts[0][1][0]);
  EXPECT_DOUBLE_EQ(useful_operations(*scene), 0.25 * 2 * 64 * 64 * 4 * 8);
}

TEST(UsefulWork, LeavesOutWhatTheMaskForbids) {
  const auto operations = [](const std::string& formula, Task task, int64_t n) {
    return useful_operations(
        *make_scene({.formula = {.name = formula}, .task = task, .shape = self_attention(n, 2, 8)}));
  };
  const double all = 2.0 * 256 * 256 * 4 * 8;
  EXPECT_DOUBLE_EQ(operations("full", Task::forward, 256), all);
  EXPECT_DOUBLE_EQ(operations("full", Task::training, 256), 3.5 * all);
  EXPECT_NEAR(operations("causal", Task::forward, 256), all / 2, 0.01 * all);
  EXPECT_NEAR(operations("last10", Task::forward, 256), all * 10 / 256, 0.01 * all);
  EXPECT_DOUBLE_EQ(operations("causal", Task::decoding, 255), all / 256);
  EXPECT_NEAR(operations("diff", Task::forward, 256), 1.5 * all / 2, 0.01 * all);
}

TEST(Growth, IsFoundForWhatRanAtSeveralLengths) {
  const auto row = [](int64_t n, double seconds, int64_t bytes) {
    return ComparisonRow{.formula = "f",
                         .task = Task::forward,
                         .length = n,
                         .contestant = "c",
                         .seconds = {seconds, seconds, seconds},
                         .bytes = bytes};
  };
  const auto result = growth({row(100, 1, 10), row(200, 4, 20)});
  ASSERT_EQ(result.size(), 1);
  EXPECT_NEAR(result[0].time, 2, 1e-12);
  EXPECT_NEAR(result[0].memory, 1, 1e-12);
  EXPECT_TRUE(growth({row(100, 1, 10)}).empty());
}

TEST(Sparsity, BothWaysThroughListsGiveTheSame) {
  bench::Setup setup{.formula = {.name = "causal"},
                     .task = Task::training,
                     .shape = self_attention(64, 2, 8),
                     .sparsity = Sparsity{.density = 0.25, .query_tile = 16, .key_tile = 1}};
  Results results[2];
  for (const bool gather : {false, true}) {
    setup.sparsity->gather = gather;
    results[gather] = saccade_contestant(make_scene(setup)).run();
  }
  EXPECT_EQ(results[0].size(), 4);
  EXPECT_LT(relative_error(results[0], results[1]), 1e-5);
}

TEST(Targets, HaveUniqueNamesAndKnownRows) {
  std::set<std::string> names;
  std::set<std::string_view> rows;
  for (const TargetRow& row : target_rows()) rows.insert(row.name);
  for (const Target& target : targets()) {
    EXPECT_TRUE(names.insert(target.name).second) << target.name;
    EXPECT_TRUE(rows.contains(target.row)) << target.row;
    EXPECT_GE(target.entries.size(), 2) << target.name;
    EXPECT_EQ(target.entries[0].contestant, "saccade") << target.name;
    EXPECT_GT(target.mark, 0) << target.name;
  }
}

TEST(Targets, EveryAimIsMeasured) {
  std::vector<std::string> names;
  for (const TargetRow& row : target_rows()) {
    names.emplace_back(row.name);
    const auto all = targets();
    const bool here = std::ranges::find(all, row.name, &Target::row) != all.end();
    EXPECT_NE(here, !row.measured_by.empty()) << row.name;
  }
  EXPECT_THAT(names,
              ElementsAre("plain forward", "causal forward", "training step", "one head, one sequence",
                          "learnable prior", "table and tile programs", "window 256", "GPAM and differential",
                          "decoding with grouped heads", "sparse at density 0.25", "tuned way through lists",
                          "bf16 storage", "compiled FlexAttention"));
}

TEST(Targets, EveryContestantFitsItsFormula) {
  for (Target target : targets())
    for (Entry& entry : target.entries) {
      if (entry.contestant == "saccade" || entry.setup.sparsity) continue;
      entry.setup.shape.queries = entry.setup.shape.keys = 8;
      const auto scene = make_scene(entry.setup);
      EXPECT_TRUE(find_rival(entry.contestant).fits(*scene, form_of(scene->formula.plan()))) << target.name;
    }
}

TEST(Targets, TheProgramsHaveAsManyInstructionsAsTheySay) {
  const auto instructions = [](const FormulaSource& source) {
    const Formula formula = load(source);
    const Program program = compile(formula.plan(), {formula.plan().mask, formula.plan().norms[0].argument});
    return program.stage(Rate::tile).code.size();
  };
  EXPECT_EQ(instructions(five_instructions()), 5);
  EXPECT_EQ(instructions(eight_instructions()), 8);
}

TEST(Targets, AMarkHasASide) {
  EXPECT_TRUE(is_met(Comparison::speedup, 1.5, 1.5));
  EXPECT_FALSE(is_met(Comparison::speedup, 1.4, 1.5));
  EXPECT_TRUE(is_met(Comparison::cost, 1.0, 1.05));
  EXPECT_FALSE(is_met(Comparison::cost, 1.1, 1.05));
  for (const Comparison comparison : {Comparison::speedup, Comparison::cost})
    EXPECT_FALSE(is_met(comparison, NAN, 1));
}

TEST(Targets, AWrongResultMeetsNoMark) {
  Outcome outcome{
      .target = {.comparison = Comparison::speedup, .mark = 2}, .value = {3, 3, 3}, .error = 1e-6};
  EXPECT_TRUE(outcome.met());
  outcome.error = 0.1;
  EXPECT_FALSE(outcome.met());
  outcome.error = NAN;
  EXPECT_FALSE(outcome.met());
}

TEST(Targets, AMarkBeyondTheMachineIsToldApart) {
  const Outcome missed{.target = {.name = "short", .comparison = Comparison::speedup, .mark = 2},
                       .value = {1, 1, 1},
                       .gigaflops = 50,
                       .needed_gigaflops = 100};
  const auto text = [&](double peak) { return targets_text({2, {80, 2, peak}}, {missed}); };
  EXPECT_THAT(text(99), HasSubstr("MISS*"));
  EXPECT_THAT(text(99), HasSubstr("1 target out of reach"));
  EXPECT_THAT(text(101), Not(HasSubstr("MISS*")));
  EXPECT_THAT(text(101), HasSubstr("MISS"));
}

TEST(Targets, ATrialJudgesEach) {
  bench::Setup setup{
      .formula = {.name = "causal"}, .shape = self_attention(16, 2, 8), .path = Path::reference};
  bench::Setup longer = setup;
  longer.shape = self_attention(32, 2, 8);
  const std::vector<Target> small = {
      {"row", "time", Comparison::speedup, 1e-9, {{"saccade", setup}, {"sdpa", setup}}},
      {"row", "memory", Comparison::memory, 1e9, {{"saccade", setup}, {"naive", setup}}},
      {"row", "growth", Comparison::memory_growth, 3, {{"saccade", setup}, {"saccade", longer}}},
      {"row", "impossible", Comparison::speedup, 1, {{"saccade", setup}, {"sdpa-built", setup}}},
      {"row", "cost", Comparison::cost, 2, {{"saccade", longer}, {"saccade", setup}}},
      {"row",
       "choice",
       Comparison::choice,
       1e9,
       {{"saccade", setup}, {"saccade", longer}, {"saccade", setup}}}};
  const std::vector<Outcome> outcomes = try_targets(small, {.repeats = 1, .shortest = 1e-12});
  ASSERT_EQ(outcomes.size(), 6);
  EXPECT_TRUE(outcomes[0].met());
  EXPECT_LT(outcomes[0].error, 1e-5);
  EXPECT_GE(outcomes[0].error, 0);
  EXPECT_FALSE(outcomes[1].met());
  EXPECT_GT(outcomes[1].value.median, 0);
  EXPECT_TRUE(outcomes[2].met());
  EXPECT_GT(outcomes[2].value.median, 1);
  EXPECT_THAT(outcomes[3].failure, HasSubstr("cannot compute"));
  EXPECT_FALSE(outcomes[3].met());
  // What a mark needs is to our rate as the mark is to what was measured; with one round, exactly.
  const double speedup = outcomes[0].needed_gigaflops / outcomes[0].gigaflops * outcomes[0].value.median;
  EXPECT_NEAR(speedup / 1e-9, 1, 1e-6);
  EXPECT_NEAR(outcomes[4].gigaflops / outcomes[4].needed_gigaflops * outcomes[4].value.median, 2, 1e-6);
  EXPECT_EQ(outcomes[1].needed_gigaflops, 0);
  EXPECT_GE(outcomes[5].value.median, 1);  // beside the lesser of the others, which is itself or even less
  EXPECT_EQ(to_json(outcomes)["targets"][0]["name"], "time");
}

}  // namespace
}  // namespace saccade::bench
