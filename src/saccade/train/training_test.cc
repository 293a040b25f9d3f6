// Trainings of very small models: that they learn, go on where they were left bit for bit, and leave nothing
// broken.
#include <gmock/gmock.h>

#include <fstream>

#include "saccade/base/file.h"
#include "saccade/base/testing.h"
#include "saccade/data/source.h"
#include "saccade/models/initialise.h"
#include "saccade/models/model_files.h"
#include "saccade/train/batch.h"
#include "saccade/train/optimiser.h"
#include "saccade/train/recipe_file.h"
#include "saccade/train/run_directory.h"
#include "saccade/train/schedule.h"
#include "saccade/train/token_loss.h"
#include "saccade/train/trainer.h"

namespace saccade::training_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Recipe small(std::vector<std::string> overrides = {}) {
  std::vector<std::string> all = {"model.width=32",
                                  "model.layers=2",
                                  "model.heads=2",
                                  "data.length=64",
                                  "data.tokenizer=bpe:300",
                                  "train.batch=4",
                                  "train.steps=6",
                                  "train.warmup=2",
                                  "train.validation_sequences=4",
                                  "train.lr=0.01",
                                  "train.checkpoint_every=2",
                                  "train.validate_every=3",
                                  "model.initial_deviation=0"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return parse_recipe("", "test", all);
}

std::vector<double> losses_of(const fs::path& run) {
  std::vector<double> losses;
  for (const Json& line : RunDirectory::read_lines(run / "metrics.jsonl")) losses.push_back(line.at("loss"));
  return losses;
}

class Training : public DirectoryTest {
 protected:
  TrainingResult run(const Recipe& recipe, const std::string& name, TrainingOptions options = {}) {
    options.directory = at(name);
    Team alone;
    return train(recipe, options, alone);
  }
  // Stops after so many steps, as Ctrl-C would.
  TrainingResult run_until(const Recipe& recipe, const std::string& name, int64_t steps,
                           bool resume = false) {
    auto done = std::make_shared<int64_t>(0);
    TrainingOptions options;
    options.resume = resume;
    options.on_step = [done](const TrainingStep& step) { *done = step.step; };
    options.interrupted = [done, steps] { return *done >= steps - 1; };
    return run(recipe, name, options);
  }
};

TEST_F(Training, GoesOnBitForBit) {
  for (const char* extra : {"train.average=0", "train.average=0.9", "model.dropout=0.2"}) {
    const Recipe recipe = small({extra, "attention=gpam", "train.micro_batch=2"});
    const std::string name = extra;
    const TrainingResult whole = run(recipe, name + "whole");
    const TrainingResult first = run_until(recipe, name + "parts", 3);
    EXPECT_EQ(first.end, TrainingEnd::interrupted);
    EXPECT_EQ(first.step, 3);
    const TrainingResult second = run(recipe, name + "parts", {.resume = true});
    EXPECT_EQ(second.end, TrainingEnd::finished);
    EXPECT_EQ(losses_of(whole.directory), losses_of(second.directory)) << extra;
    EXPECT_EQ(losses_of(whole.directory).size(), 6u);
    EXPECT_EQ(whole.validation.nll, second.validation.nll);
    const auto expected = whole.model->named_parameters(), found = second.model->named_parameters();
    for (const auto& item : expected)
      EXPECT_TRUE(torch::equal(item.value(), found[item.key()])) << item.key();
  }
}

TEST_F(Training, LosesAtMostOneIntervalWhenItIsKilled) {
  const Recipe recipe = small();
  const TrainingResult whole = run(recipe, "whole");
  struct Killed {};
  TrainingOptions options;
  options.on_step = [](const TrainingStep& step) {
    if (step.step == 5) throw Killed{};  // nothing after this point runs, as with kill -9
  };
  EXPECT_THROW(run(recipe, "killed", options), Killed);
  std::ofstream(at("killed") / "metrics.jsonl", std::ios::app) << "{\"step\": 6, \"lo";  // half a line
  fs::create_directories(at("killed") / "checkpoints" / ".writing");
  std::ofstream(at("killed") / "checkpoints" / ".writing" / "model.safetensors") << "half";
  const TrainingResult again = run(recipe, "killed", {.resume = true});
  EXPECT_EQ(losses_of(again.directory), losses_of(whole.directory));
  EXPECT_FALSE(fs::exists(at("killed") / "checkpoints" / ".writing"));
}

TEST_F(Training, KeepsTheNewestAndTheBestCheckpoints) {
  const TrainingResult result =
      run(small({"train.steps=12", "train.keep=2", "train.validate_every=3"}), "run");
  const RunDirectory folder(at("run"));
  std::vector<int64_t> steps = folder.steps();
  ASSERT_GE(steps.size(), 2u);
  EXPECT_EQ(steps.back(), 12);
  EXPECT_EQ(folder.best(), result.best_step);
  EXPECT_LE(steps.size(), 3u);
  const Transformer loaded = load_model(find_model(at("run").string()));
  EXPECT_EQ(loaded->parameter_count(), result.parameters);
}

TEST_F(Training, PruningSparesAnOldBest) {
  RunDirectory folder(at("run"));
  for (const int64_t step : {1, 2, 3, 4, 5}) folder.write_checkpoint(step, [](const fs::path&) {});
  folder.set_best(2);
  folder.prune(2);
  EXPECT_THAT(folder.steps(), ElementsAre(2, 4, 5));
  EXPECT_EQ(folder.best(), 2);
}

TEST_F(Training, RefusesWhatWouldDestroyOrMixRuns) {
  run(small({"train.steps=2"}), "run");
  EXPECT_THAT(message_of([&] { run(small(), "run"); }), HasSubstr("--resume goes on with it"));
  EXPECT_THAT(message_of([&] { run(small({"model.width=64"}), "run", {.resume = true}); }),
              AllOf(HasSubstr("model.width = 32, not 64"), HasSubstr("must stay the same")));
  EXPECT_THAT(message_of([&] { run(small(), "none", {.resume = true}); }), HasSubstr("no run to go on with"));
  const RunDirectory held(at("run"));
  EXPECT_THAT(message_of([&] { run(small({"train.steps=2"}), "run", {.resume = true}); }),
              HasSubstr("another process is training"));
}

TEST_F(Training, RefusesFormulasThatSeeTheFutureOrNeedInputs) {
  EXPECT_THAT(message_of([&] { run(small({"attention=full"}), "full"); }),
              HasSubstr("might see what it should predict"));
  EXPECT_THAT(message_of([&] { run(small({"attention=document"}), "document"); }),
              HasSubstr("needs the input 'doc'"));
  EXPECT_FALSE(RunDirectory::is_run(at("full")));
}

TEST_F(Training, GoesOnForLonger) {
  run(small({"train.steps=4", "train.schedule=constant"}), "run");
  const TrainingResult more =
      run(small({"train.steps=8", "train.schedule=constant"}), "run", {.resume = true});
  const TrainingResult whole = run(small({"train.steps=8", "train.schedule=constant"}), "whole");
  EXPECT_EQ(losses_of(more.directory), losses_of(whole.directory));
}

TEST_F(Training, StopsWhenSomethingIsNotFiniteAndSaysWhere) {
  TrainingOptions options;
  options.on_start = [](const Transformer& model) {
    const torch::NoGradGuard no_gradient;
    model->named_parameters()["block_1.mlp.up.weight"][3][2] = std::numeric_limits<float>::quiet_NaN();
  };
  const TrainingResult result = run(small(), "weight", options);
  EXPECT_EQ(result.end, TrainingEnd::not_finite);
  EXPECT_THAT(result.problem, AllOf(HasSubstr("step 1"), HasSubstr("the parameter 'block_1.mlp.up.weight'")));
  options.on_start = [](const Transformer& model) {
    const torch::NoGradGuard no_gradient;
    model->named_parameters()["block_1.mlp.down.weight"].fill_(1e38);
  };
  EXPECT_THAT(run(small(), "activation", options).problem, HasSubstr("the output of block 1"));
  // One that goes wrong late leaves its earlier checkpoints alone.
  Transformer model{nullptr};
  options.on_start = [&](const Transformer& started) { model = started; };
  options.on_step = [&](const TrainingStep& step) {
    const torch::NoGradGuard no_gradient;
    if (step.step == 5) model->named_parameters()["tokens"].fill_(std::numeric_limits<float>::infinity());
  };
  EXPECT_EQ(run(small(), "late", options).end, TrainingEnd::not_finite);
  EXPECT_EQ(RunDirectory(at("late")).steps().back(), 4);
}

TEST_F(Training, EndsEarlyWithoutProgress) {
  const TrainingResult result = run(
      small({"train.steps=40", "train.validate_every=1", "train.patience=3", "train.lr=30", "train.clip=0"}),
      "run");
  EXPECT_EQ(result.end, TrainingEnd::early);
  EXPECT_LT(result.step, 40);
  EXPECT_EQ(result.step, result.best_step + 3);
}

TEST_F(Training, MicroBatchesAndRecomputingChangeNothing) {
  const std::vector<double> plain =
      losses_of(run(small({"attention=prior", "model.dropout=0.1"}), "plain").directory);
  for (const std::string extra : {"train.micro_batch=1", "train.recompute=true"}) {
    const std::vector<double> other =
        losses_of(run(small({"attention=prior", "model.dropout=0.1", extra}), extra.substr(6, 5)).directory);
    ASSERT_EQ(plain.size(), other.size());
    for (size_t step = 0; step < plain.size(); ++step) EXPECT_NEAR(plain[step], other[step], 2e-5) << extra;
  }
}

TEST_F(Training, FormulaParametersHaveTheirOwnRate) {
  const auto alpha = [&](const std::string& rate, const std::string& name) {
    const TrainingResult result = run(small({"attention=prior", "train.formula_lr=" + rate}), name);
    return (result.model->named_parameters()["block_0.attention.alpha"] - 1).abs().max().item<double>();
  };
  EXPECT_EQ(alpha("0", "fixed"), 0);
  EXPECT_GT(alpha("5", "fast"), 2 * alpha("1", "same"));
}

// Every mechanism can learn a batch by heart; what cannot be known, the first guesses, is left out of the
// loss by giving all sequences the same begin.
class Overfit : public ::testing::TestWithParam<const char*> {};

TEST_P(Overfit, LearnsABatchByHeart) {
  Recipe recipe = small({std::string("attention=") + GetParam(), "train.weight_decay=0", "train.warmup=5",
                         "train.steps=150", "train.min_lr=0.05"});
  Architecture a = architecture_of(recipe, 20);
  Transformer model(a);
  model->set_attention(recipe.formula());
  initialise(model, {.seed = 1, .deviation = 0});
  Optimiser optimiser(model, recipe.train);
  torch::manual_seed(4);
  at::Tensor ids = torch::randint(2, 20, {4, 25}, torch::kLong);
  ids.select(1, 0).copy_(torch::arange(4));  // tells the sequences apart
  const at::Tensor inputs = ids.narrow(1, 0, 24).contiguous(), targets = ids.narrow(1, 1, 24).contiguous();
  double loss = 0;
  for (int64_t step = 0; step < recipe.train.steps; ++step) {
    optimiser.clear_gradients();
    const at::Tensor value = token_loss(model, model->forward({.ids = inputs}), targets) / 96.0;
    value.backward();
    optimiser.clip_gradients(1);
    optimiser.step(learning_rate(recipe.train, step));
    loss = value.item<double>();
  }
  EXPECT_LT(loss, 0.05) << GetParam();
}

INSTANTIATE_TEST_SUITE_P(All, Overfit,
                         ::testing::Values("causal", "prior", "alibi", "ape", "gpam", "diff", "cog", "fox",
                                           "softpick", "sigmoid", "relu2", "retention", "softcap",
                                           "off_by_one", "sink_logit", "t5", "kerple_log", "kerple_power",
                                           "logn", "window", "sink_window"),
                         [](const auto& each) { return std::string(each.param); });

TEST(TokenLoss, EqualsTheLossOfTorch) {
  Recipe recipe = small();
  Transformer model(architecture_of(recipe, 50));
  initialise(model, {.seed = 2, .deviation = 0.3});
  model->to(torch::kDouble);
  torch::manual_seed(1);
  const at::Tensor ids = torch::randint(50, {3, 11}, torch::kLong);
  at::Tensor targets = torch::randint(50, {3, 11}, torch::kLong);
  targets[1][4] = kNoTarget;
  targets[2].narrow(0, 0, 5).fill_(kNoTarget);
  for (const double smoothing : {0.0, 0.2}) {
    const at::Tensor ours = token_loss(model, model->forward({.ids = ids}), targets, smoothing);
    ours.backward();
    std::map<std::string, at::Tensor> found;
    for (const auto& item : model->named_parameters()) found[item.key()] = item.value().grad().clone();
    model->zero_grad();
    const at::Tensor logits = model->logits(model->forward({.ids = ids})).reshape({-1, 50});
    const at::Tensor plain =
        at::cross_entropy_loss(logits, targets.reshape({-1}), {}, at::Reduction::Sum, kNoTarget, smoothing);
    plain.backward();
    EXPECT_NEAR(ours.item<double>(), plain.item<double>(), 1e-9);
    for (const auto& item : model->named_parameters())
      EXPECT_TRUE(torch::allclose(found[item.key()], item.value().grad(), 1e-8, 1e-10)) << item.key();
    model->zero_grad();
  }
}

TEST(Schedule, RisesAndFalls) {
  TrainOptions options{.steps = 110, .lr = 1, .warmup = 10, .min_lr = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(options, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 9), 1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 10), 1);
  EXPECT_NEAR(learning_rate(options, 60), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate(options, 110), 0.1, 1e-12);
  options.schedule = "linear";
  EXPECT_NEAR(learning_rate(options, 35), 0.775, 1e-12);
  options.schedule = "constant";
  EXPECT_EQ(learning_rate(options, 100), 1);
  options.warmup = 0;
  EXPECT_EQ(learning_rate(options, 0), 1);
}

}  // namespace
}  // namespace saccade::training_test
