#include "saccade/train/recipe.h"

#include <gmock/gmock.h>

#include "saccade/base/testing.h"
#include "saccade/models/transformer.h"
#include "saccade/train/recipe_file.h"
#include "saccade/train/recipe_model.h"

namespace saccade::recipe_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Recipe parsed(std::string_view text, std::vector<std::string> overrides = {}) {
  return parse_recipe(text, "a.toml", overrides);
}
std::string error_of(std::string_view text, std::vector<std::string> overrides = {}) {
  return message_of([&] { parsed(text, overrides); });
}

TEST(Recipe, ReadsWhatIsGivenAndKeepsTheRest) {
  const Recipe recipe = parsed(R"(
    name = "mine"        # a comment
    attention = "window"
    set = { w = 12 }
    [model]
    width = 96
    tied = false
    [data]
    train = ["a.txt", "b.txt"]
    [train]
    lr = 3e-4
    steps = 1_000
  )");
  EXPECT_EQ(recipe.name, "mine");
  EXPECT_EQ(recipe.set.at("w"), 12);
  EXPECT_EQ(recipe.model.width, 96);
  EXPECT_FALSE(recipe.model.tied);
  EXPECT_THAT(recipe.data.train, ElementsAre("a.txt", "b.txt"));
  EXPECT_EQ(recipe.train.lr, 3e-4);
  EXPECT_EQ(recipe.train.steps, 1000);
  EXPECT_EQ(recipe.train.batch, TrainOptions{}.batch);
}

TEST(Recipe, OverridesWin) {
  const Recipe recipe = parsed("attention = \"causal\"\n[train]\nsteps = 5\n",
                               {"attention=prior", "train.steps=7", "set.alpha=0.5", "data.train=x.txt",
                                "train.lr=1e-2", "sample.prompt=one two", "train.batch=4e1"});
  EXPECT_EQ(recipe.attention.all, "prior");
  EXPECT_EQ(recipe.train.steps, 7);
  EXPECT_EQ(recipe.set.at("alpha"), 0.5);
  EXPECT_THAT(recipe.data.train, ElementsAre("x.txt"));
  EXPECT_EQ(recipe.train.lr, 0.01);
  EXPECT_EQ(recipe.sample.prompt, "one two");
  EXPECT_EQ(recipe.train.batch, 40);
}

TEST(Recipe, NamesWhatIsWrong) {
  EXPECT_THAT(error_of("[train]\n\nstep = 5\n"),
              AllOf(HasSubstr("a.toml:3: there is no key 'train.step'"), HasSubstr("did you mean 'steps'?")));
  EXPECT_THAT(error_of("", {"trian.steps=5"}),
              AllOf(HasSubstr("'trian'"), HasSubstr("did you mean 'train'?")));
  EXPECT_THAT(error_of("[train]\nsteps = \"many\"\n"),
              HasSubstr("a.toml:2: train.steps is text; expected a whole number"));
  EXPECT_THAT(error_of("[train]\nsteps = 2.5\n"), HasSubstr("expected a whole number"));
  EXPECT_THAT(error_of("train = 5\n"), HasSubstr("train is a whole number; expected a group"));
  EXPECT_THAT(error_of("seed = -1\n"), HasSubstr("seed is -1; expected 0 or more"));
  EXPECT_THAT(error_of("[train]\nlr = nan\n"), HasSubstr("expected a finite number"));
  EXPECT_THAT(error_of("name = \n"), HasSubstr("a.toml:1"));
  EXPECT_THAT(error_of("", {"steps"}), HasSubstr("'steps' is no key=value"));
  EXPECT_THAT(error_of("", {"train.stesp=5"}),
              StartsWith("train.stesp=5: there is no key 'train.stesp'; did you mean 'steps'?"));
  EXPECT_THAT(error_of("", {"train.steps=few"}), StartsWith("train.steps=few: train.steps is text"));
  EXPECT_THAT(error_of("", {"train.steps=0"}), HasSubstr("train.steps is 0; expected 1 or more"));
  EXPECT_THAT(error_of("", {"train.schedule=cosin"}), HasSubstr("did you mean 'cosine'?"));
  EXPECT_THAT(error_of("", {"name=../x"}), HasSubstr("expected a word that can name a folder"));
  EXPECT_THAT(error_of("", {"model.width=10", "model.heads=4"}), HasSubstr("give model.head_dim"));
  EXPECT_THAT(error_of("", {"train.steps=5\nname='x'"}), HasSubstr("is no key=value"));
}

TEST(Recipe, PrintsWhatReadsBack) {
  Recipe recipe;
  recipe.name = "odd \"name\"";
  recipe.set = {{"w", 3}, {"lp", -0.25}};
  recipe.sample.prompt = "two\nlines\t\\ \x01";
  recipe.data.train = {"a b.txt", "c\"d"};
  recipe.train.lr = 1.0 / 3;
  recipe.train.epsilon = 1e-12;
  recipe.seed = 12345678901234;
  const Recipe again = parse_recipe(print_recipe(recipe), "printed");
  EXPECT_EQ(print_recipe(again), print_recipe(recipe));
  EXPECT_EQ(again.train.lr, recipe.train.lr);
  EXPECT_EQ(again.sample.prompt, recipe.sample.prompt);
  EXPECT_EQ(again.data.train, recipe.data.train);
  EXPECT_EQ(again.name, recipe.name);
}

TEST(Recipe, KnowsWhatMayChange) {
  int64_t changeable = 0;
  for (const RecipeKey& key : recipe_keys()) changeable += may_change(key.key) ? 1 : 0;
  EXPECT_EQ(changeable, 14 + 3);  // each name in the list is a key, and the three of the sample
  for (const char* key :
       {"seed", "model.width", "data.length", "train.batch", "train.beta2", "train.average"})
    EXPECT_FALSE(may_change(key)) << key;
}

TEST(Recipe, DescribesAnArchitecture) {
  const Recipe recipe = parsed("", {"model.width=48", "model.heads=4", "model.kv_heads=2",
                                    "model.positions=none", "model.embedded_qkv=first"});
  const Architecture a = architecture_of(recipe, 100);
  EXPECT_EQ(a.vocabulary, 100);
  EXPECT_EQ(a.head_dim, 12);
  EXPECT_EQ(a.inner, 128);
  EXPECT_FALSE(a.rotary.has_value());
  EXPECT_EQ(a.embedded_qkv, EmbeddedQkv::first);
  const auto refusal = [](std::vector<std::string> overrides) {
    return message_of([&] { architecture_of(parsed("", overrides), 100); });
  };
  EXPECT_THAT(refusal({"model.family=llama", "model.embedded_qkv=all"}),
              HasSubstr("model.embedded_qkv = \"none\""));
  EXPECT_THAT(refusal({"model.family=gpt2"}), HasSubstr("model.norm = \"layer\""));
  EXPECT_THAT(refusal({"model.vocabulary=10"}), HasSubstr("the tokenizer has 100 tokens"));
}

TEST(RecipeAttention, GoesToAllSlotsOrToOne) {
  const Recipe plain = parsed("attention = \"gpam\"\n[model]\nencoder_layers = 2\n", {});
  for (const AttentionSlot slot : {AttentionSlot::encoder, AttentionSlot::decoder, AttentionSlot::cross})
    EXPECT_EQ(plain.attention.in(slot), "gpam");
  EXPECT_EQ(plain.attention.title(), "gpam");
  const Recipe mixed = changed(plain, std::vector<std::string>{"attention.cross=full"});
  EXPECT_EQ(mixed.attention.in(AttentionSlot::encoder), "gpam");
  EXPECT_EQ(mixed.attention.in(AttentionSlot::cross), "full");
  EXPECT_EQ(mixed.attention.title(), "gpam-gpam-full");
  EXPECT_EQ(print_recipe(parse_recipe(print_recipe(mixed), "printed")), print_recipe(mixed));
  const Recipe again = changed(mixed, std::vector<std::string>{"attention=causal"});
  EXPECT_EQ(again.attention, AttentionChoice{});
  EXPECT_THAT(message_of([&] { changed(plain, std::vector<std::string>{"attention.encode=full"}); }),
              HasSubstr("did you mean 'encoder'?"));
}

TEST(RecipeAttention, AnEncoderSeesBothWays) {
  const Recipe recipe = parsed("attention = \"gpam\"\n[model]\nencoder_layers = 2\n", {});
  EXPECT_TRUE(recipe.formula(AttentionSlot::decoder).plan().decoding.possible);
  EXPECT_FALSE(recipe.formula(AttentionSlot::encoder).plan().decoding.possible);
  EXPECT_FALSE(recipe.formula(AttentionSlot::cross).plan().decoding.possible);
}

TEST(RecipeAttention, NumbersGoToTheFormulasThatHaveThem) {
  const Recipe recipe = parsed(
      "attention = { all = \"causal\", cross = \"gpam\" }\nset = { lp = 0.5 }\n[model]\nencoder_layers = 2\n",
      {});
  EXPECT_EQ(recipe.formula(AttentionSlot::cross).overrides().at("lp"), 0.5);
  EXPECT_TRUE(recipe.formula(AttentionSlot::encoder).overrides().empty());
  const Recipe wrong = changed(recipe, std::vector<std::string>{"set.zeta=1"});
  EXPECT_THAT(message_of([&] { wrong.formula(); }),
              HasSubstr("set.zeta is a number of none of the formulas"));
}

TEST(RecipeAttention, PairsNeedAnEncoder) {
  EXPECT_THAT(message_of([] { parsed("[data]\nsource = \"parallel\"\n", {}); }),
              HasSubstr("model.encoder_layers of 1 or more"));
  EXPECT_THAT(message_of([] { parsed("[train]\nbatch_tokens = 100\n", {}); }),
              HasSubstr("train.batch_tokens is 100"));
}

// The recipes that are shipped, with the sizes that they promise.
TEST(ShippedRecipes, CanBeBuilt) {
  const std::filesystem::path folder = std::filesystem::path(SACCADE_SOURCE_DIR) / "recipes";
  std::map<std::string, int64_t> parameters;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    const Recipe recipe = load_recipe(entry.path());
    // A file may also say the pair of languages, which the folder of a run need not repeat.
    EXPECT_TRUE(entry.path().stem().string().starts_with(recipe.name));
    const Transformer model = make_model(
        recipe, architecture_of(recipe, recipe.model.vocabulary > 0 ? recipe.model.vocabulary : 257));
    parameters[entry.path().stem().string()] = model->parameter_count();
    EXPECT_EQ(print_recipe(parse_recipe(print_recipe(recipe), "printed")), print_recipe(recipe));
  }
  for (const char* name :
       {"tiny", "small", "qwen-134m-fineweb", "gpam-wikitext103", "gpam-enwik8", "ape", "gpt2-124m",
        "translation", "multi30k-en-de", "multi30k-short", "iwslt14-de-en", "wmt14-en-de"})
    EXPECT_TRUE(parameters.contains(name)) << name;
  EXPECT_EQ(parameters["gpt2-124m"], 124439808);  // what the published model has
  EXPECT_NEAR(static_cast<double>(parameters["qwen-134m-fineweb"]), 134.5e6, 0.1e6);
  const Recipe qwen = load_recipe(folder / "qwen-134m-fineweb.toml");
  EXPECT_EQ(qwen.train.steps, 640);
  EXPECT_NEAR(static_cast<double>(qwen.train.batch * qwen.data.length), 4.2e6, 0.01e6);
}

}  // namespace
}  // namespace saccade::recipe_test
