// What a token gate learns from and whether it learns it: on a small random model, and on keys that were made
// to matter.
#include "saccade/distill/token_gate_training.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "saccade/distill/testing.h"

namespace saccade {
namespace {

using at::Tensor;
using testing::HasSubstr;

// A text in which every tenth token, at random, has a key that queries like; its value has nothing to say.
// What the second key head's queries like is another direction.
struct Planted {
  PairInputs inputs;
  Tensor matters;  // [key heads, n], bool
};

Planted planted_text(int64_t n, uint64_t seed) {
  torch::manual_seed(seed);
  Planted result{.matters = torch::rand({2, n}) < 0.1};
  Tensor key = torch::randn({1, 2, n, 8}), query = torch::randn({1, 4, n, 8});
  for (int64_t head = 0; head < 2; ++head)
    key[0][head].select(1, head) =
        torch::where(result.matters[head], torch::full({n}, 3.0), -torch::ones({n}));
  for (int64_t head = 0; head < 4; ++head) query[0][head].select(1, head / 2) += 5;
  result.inputs = {.queries = {query}, .keys = {key}, .value = torch::randn({1, 2, n, 8})};
  return result;
}

constexpr LessonOptions kLesson{.selection = {.query_tile = 16, .sinks = 2, .near = 8}};

TEST(TokenGateTraining, TargetsAreTheLargestLaterWeights) {
  for (const char* name : {"causal", "softcap"}) {
    const Formula formula = Formula::load(name);
    const PairInputs inputs = planted_text(320, 1).inputs;
    const GateLesson lesson = make_gate_lesson(formula, inputs, kLesson);
    const Tensor weights = reference_attention(formula.plan(), inputs, true).weights[0];
    for (int64_t key = 0; key < 320; ++key) {
      Tensor most = torch::zeros({4});
      int64_t groups = 0;
      for (int64_t row = 0; row < 320; row += 16) {
        if (key < 2 || key >= row - 8) continue;
        most = torch::maximum(most, weights.narrow(1, row, 16).select(2, key).square().sum(1).sqrt());
        ++groups;
      }
      EXPECT_LT((lesson.target.select(1, key) - most).abs().max().item<double>(), 1e-5) << name << " " << key;
      EXPECT_EQ(lesson.known[key].item<bool>(), groups >= 5) << key;
    }
  }
}

TEST(TokenGateTraining, FindsPlantedKeys) {
  std::vector<GateLesson> lessons;
  for (uint64_t seed = 1; seed <= 4; ++seed)
    lessons.push_back(make_gate_lesson(Formula::load("causal"), planted_text(256, seed).inputs, kLesson));
  const TrainedGate trained = train_gate(lessons, {.hidden = 8, .steps = 150, .tokens_at_once = 128});
  EXPECT_LT(trained.last_loss, 0.5 * trained.first_loss);
  // A text that it has not seen: of as many tokens as matter, those with the largest estimates.
  const Planted other = planted_text(256, 9);
  const Tensor estimate = trained.gate.estimate(other.inputs.keys[0], other.inputs.value)[0];
  for (int64_t head = 0; head < 4; ++head) {
    const Tensor matters = other.matters[head / 2];
    const auto count = matters.sum().item<int64_t>();
    const auto [values, best] = estimate[head].topk(count);
    const double found = matters.index_select(0, best).to(torch::kDouble).mean().item<double>();
    EXPECT_GT(found, 0.9) << head;  // a tenth would be chance
  }
  // Nothing in it depends on how it is run.
  const TrainedGate again = train_gate(lessons, {.hidden = 8, .steps = 150, .tokens_at_once = 128});
  EXPECT_TRUE(torch::equal(again.gate.input_map, trained.gate.input_map));
  EXPECT_EQ(again.last_loss, trained.last_loss);
  // What was learned on standardised features holds for plain ones.
  EXPECT_NEAR(gate_loss(trained.gate, lessons), trained.last_loss, 0.3 * trained.last_loss);
}

TEST(TokenGateTraining, TextsMustBeLongEnough) {
  const PairInputs inputs = planted_text(16, 1).inputs;
  const std::vector<GateLesson> lessons{make_gate_lesson(Formula::load("causal"), inputs, kLesson)};
  EXPECT_THROW(train_gate(lessons, {}), Error);
  EXPECT_THROW(train_gate({}, {}), Error);
  EXPECT_THROW(make_gate_lesson(Formula::load("causal"), planted_text(60, 1).inputs, kLesson), Error);
}

DistillOptions small_gate_options() {
  DistillOptions options;
  options.kind = SelectorKind::token_gate;
  options.selection = {.query_tile = 16, .sinks = 2, .near = 8};
  options.windows = {{.tokens = 128, .learn = 8, .sense = 2, .hold_out = 2}};
  options.token_gate = {.hidden = 8, .steps = 60, .tokens_at_once = 128};
  options.goal.divergence = 0.05;
  options.longest = 0;
  return options;
}

// What was measured by reading is what writing gives: token by token, with a cache that drops keys.
TEST(TokenGateDistill, TheBudgetHoldsInDecoding) {
  Transformer model = tiny_transformer();
  const TokenIds text = random_text(3000), other = random_text(256, 5);
  const DistillResult result = distill(model, text, small_gate_options(), {});
  EXPECT_TRUE(result.solution.found);
  EXPECT_TRUE(result.solution.saves);
  EXPECT_LE(result.solution.divergence, 0.05);
  EXPECT_FALSE(result.decoding.has_value());
  torch::NoGradGuard no_gradient;
  const Tensor ids = torch::tensor(other, torch::kInt).to(torch::kLong).unsqueeze(0);
  const Tensor read = model->forward({.ids = ids});
  ModelCache cache = model->make_cache();
  for (int64_t token = 0; token < 256; ++token) {
    const Tensor hidden = model->forward({.ids = ids.narrow(1, token, 1), .cache = &cache});
    EXPECT_LT((hidden - read.narrow(1, token, 1)).abs().max().item<double>(), 2e-4) << token;
  }
  // And some of it from a cache that has forgotten something.
  EXPECT_GT(cache.layer(0).first() + cache.layer(1).first(), 0);
}

TEST(TokenGateDistill, ResumesAndIsSetAnew) {
  const std::filesystem::path directory = std::filesystem::path(testing::TempDir()) / "token_gate_resume";
  std::filesystem::remove_all(directory);
  DistillOptions options = small_gate_options();
  const TokenIds text = random_text(3000);
  Transformer whole = tiny_transformer(), parts = tiny_transformer();
  const DistillResult at_once = distill(whole, text, options, {});
  int64_t asked = 0;
  EXPECT_TRUE(distill(parts, text, options,
                      {.directory = directory, .base = "x", .stop = [&] { return ++asked > 1; }})
                  .stopped);
  const DistillResult resumed =
      distill(parts, text, options, {.directory = directory, .base = "x", .resume = true});
  EXPECT_EQ(resumed.solution.density, at_once.solution.density);
  EXPECT_EQ(resumed.solution.divergence, at_once.solution.divergence);
  options.goal.divergence = 0.3;
  int64_t trained = 0;
  const DistillResult anew =
      distill(parts, text, options, {.scorers = directory, .on_event = [&](const Json& event) {
                                       trained += event["stage"] == "gate" ? 1 : 0;
                                     }});
  EXPECT_EQ(trained, 0);
  EXPECT_LT(anew.solution.density, resumed.solution.density);
  options.kind = SelectorKind::gate;
  try {
    distill(parts, text, options, {.scorers = directory});
    FAIL() << "scores were taken from a token gate";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("selectors of kind 'token_gate'; expected low_rank"));
  }
}

TEST(TokenGateDistill, RefusesFormulasBeforeAnythingIsLearned) {
  Transformer model = tiny_transformer();
  model->set_attention(Formula::load("alibi"));
  int64_t events = 0;
  try {
    distill(model, random_text(3000), small_gate_options(), {.on_event = [&](const Json&) { ++events; }});
    FAIL() << "alibi was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("formula 'alibi': it reads d"));
  }
  EXPECT_EQ(events, 0);
}

}  // namespace
}  // namespace saccade
