#include "saccade/train/comparison.h"

#include <gmock/gmock.h>

#include "saccade/base/file.h"
#include "saccade/base/testing.h"
#include "saccade/train/recipe_file.h"
#include "saccade/train/run_directory.h"

namespace saccade::comparison_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Recipe small() {
  const std::vector<std::string> overrides = {"model.width=32",
                                              "model.layers=2",
                                              "model.heads=2",
                                              "data.length=64",
                                              "train.steps=4",
                                              "data.tokenizer=bpe:300",
                                              "train.batch=2",
                                              "train.warmup=1",
                                              "train.lr=0.01",
                                              "train.checkpoint_every=2",
                                              "train.validation_sequences=4",
                                              "model.initial_deviation=0"};
  return parse_recipe("", "test", overrides);
}

TEST(Variants, CombineMechanismsAndSweeps) {
  const std::vector<Variant> variants =
      variants_of({"causal", "my/own.attn"}, {{"lp", {"0", "0.5"}}, {"train.lr", {"1e-3"}}});
  ASSERT_EQ(variants.size(), 4u);
  EXPECT_EQ(variants[3].name, "own lp=0.5 train.lr=1e-3");
  EXPECT_THAT(variants[3].overrides, ElementsAre("attention=my/own.attn", "set.lp=0.5", "train.lr=1e-3"));
}

TEST(Control, HasAtLeastAsManyParameters) {
  const Recipe recipe = small();
  const std::vector<Variant> variants = variants_of({"causal", "diff", "gpam"}, {});
  const std::vector<Variant> control = control_of(recipe, variants);
  ASSERT_EQ(control.size(), 1u);
  const auto parameters = [&](const Variant& variant) {
    const Recipe mine = changed(recipe, variant.overrides);
    Transformer model(architecture_of(mine, 300));
    model->set_attention(mine.formula());
    return model->parameter_count();
  };
  EXPECT_GE(parameters(control[0]), parameters(variants[1]));
  EXPECT_LT(parameters(control[0]), parameters(variants[1]) + 2 * 32 * 3);
  EXPECT_TRUE(control_of(recipe, variants_of({"causal", "prior"}, {})).empty());
}

class CompareTest : public DirectoryTest {};

TEST_F(CompareTest, TrainsAllOnTheSameDataAndGoesOn) {
  const std::vector<Variant> variants = variants_of({"causal", "gpam"}, {});
  ComparisonOptions options{.runs = 2, .lengths = {1, 2}, .directory = at("c")};
  int64_t steps = 0, stop_after = 6;
  options.on_step = [&](const TrainingStep&) { ++steps; };
  options.interrupted = [&] { return steps >= stop_after; };
  EXPECT_THAT(message_of([&] { compare(small(), variants, options); }), HasSubstr("interrupted"));
  stop_after = 1000;
  const Comparison found = compare(small(), variants, options);
  EXPECT_EQ(steps, 2 * 2 * 4);  // nothing was trained twice
  ASSERT_EQ(found.variants.size(), 2u);
  for (const VariantResult& result : found.variants) {
    ASSERT_EQ(result.runs.size(), 2u);
    EXPECT_NE(result.runs[0].loss, result.runs[1].loss);
    for (const RunOutcome& run : result.runs) {
      EXPECT_EQ(run.length_losses.size(), 2u);
      EXPECT_TRUE(std::isfinite(run.length_losses[1]));
      EXPECT_EQ(run.damage.size(), 3u);
      EXPECT_GT(run.parameters, 0);
    }
  }
  EXPECT_GT(found.variants[1].runs[0].formula_parameters, 0);
  // The same once more: all is there.
  const Comparison again = compare(small(), variants, options);
  EXPECT_EQ(steps, 16);
  EXPECT_EQ(again.variants[1].losses(), found.variants[1].losses());
  EXPECT_THAT(table_of(found), HasSubstr("gpam"));
  for (const NamedPicture& picture : pictures_of(found, at("c"), "a title"))
    EXPECT_THAT(picture.svg, HasSubstr("</svg>")) << picture.file;
  Recipe other = small();
  other.train.steps = 5;
  EXPECT_THAT(message_of([&] { compare(other, variants, options); }), HasSubstr("another recipe"));
}

TEST_F(CompareTest, FindsAWrongMechanismBeforeTheFirstRun) {
  int64_t steps = 0;
  ComparisonOptions options{.runs = 1, .directory = at("c")};
  options.on_step = [&](const TrainingStep&) { ++steps; };
  EXPECT_THAT(message_of([&] {
                compare(small(), variants_of({"causal", "gapm"}, {}), options);
              }),
              HasSubstr("did you mean 'gpam'?"));
  EXPECT_EQ(steps, 0);
}

}  // namespace
}  // namespace saccade::comparison_test
