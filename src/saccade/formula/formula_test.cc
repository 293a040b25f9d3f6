#include "saccade/formula/formula.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "saccade/base/file.h"
#include "saccade/formula/random_formula.h"

namespace saccade {
namespace {

using testing::HasSubstr;

TEST(Formula, IsEqualWhenItSaysTheSame) {
  const Formula formula = Formula::parse("const w = 4\nmask = 0 <= d < w # near\n");
  EXPECT_EQ(formula, Formula::parse("const w=4;mask (0<=d and d<w)", {.name = "other"}));
  EXPECT_FALSE(formula == Formula::parse("const w = 5\nmask = 0 <= d < w"));
  EXPECT_FALSE(formula == Formula::parse("const w = 4\nmask = 0 <= d < w\nscore = s"));
  EXPECT_FALSE(formula == Formula::parse("const w = 4\nmask = 0 <= d < w", {.set = {{"w", 5}}}));
  EXPECT_FALSE(formula == Formula::parse("const w = 4\nmask = 0 <= d < w", {.set = {{"n", 5}}}));
}

TEST(Formula, KeepsItsTextAndNameAndPrintsACanonicalOne) {
  const std::string text = "mask causal;score   s";
  const Formula formula = Formula::parse(text, {.name = "mine"});
  EXPECT_EQ(formula.text(), text);
  EXPECT_EQ(formula.name(), "mine");
  EXPECT_EQ(formula.print(), "mask = causal\nscore = s\n");
}

TEST(Formula, PrintsToAnEqualFormula) {
  constexpr uint64_t kSeed = 95;
  for (int number = 0; number < 200; ++number) {
    RandomStream random = RandomStream(kSeed, "formulas").split(std::to_string(number));
    const Formula formula = Formula::parse(print(RandomFormula(random, {}).formula()));
    ASSERT_EQ(formula, Formula::parse(formula.print())) << "seed " << kSeed << " number " << number;
  }
}

TEST(Formula, IsSummarisedByItsFirstComment) {
  EXPECT_EQ(Formula::parse("\n  #  Nearer keys first.  \n# More.\nmask causal").summary(),
            "Nearer keys first.");
  EXPECT_EQ(Formula::parse("mask causal\n# Too late.").summary(), "");
  EXPECT_EQ(Formula::parse("").summary(), "");
}

TEST(Formula, MayBeEmpty) {
  const Formula formula = Formula::parse("# nothing but plain attention\n");
  EXPECT_EQ(formula.print(), "");
  EXPECT_EQ(formula.plan().graph.print(formula.plan().weights, {}), "softmax(s)");
}

TEST(FormulaLoad, ReadsFiles) {
  const std::string path = testing::TempDir() + "/near.attn";
  write_atomic(path, "mask = 0 <= d < 3\n");
  EXPECT_EQ(Formula::load(path).name(), path);
  EXPECT_EQ(Formula::load(path).plan().decoding.ring, 3);
  std::filesystem::remove(path);
}

TEST(FormulaLoad, NamesTheFileInItsErrors) {
  const std::string path = testing::TempDir() + "/wrong.attn";
  write_atomic(path, "mask = 0 <= e < 3\n");
  try {
    Formula::load(path);
    ADD_FAILURE() << "e is unknown";
  } catch (const FormulaError& error) {
    EXPECT_THAT(error.what(), HasSubstr(path + ":1:13: unknown name 'e'"));
  }
  std::filesystem::remove(path);
}

std::string load_error(const std::string& name) {
  try {
    Formula::load(name);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(FormulaLoad, SuggestsAShippedName) {
  EXPECT_EQ(load_error("causl"), "'causl' is neither a file nor a shipped mechanism; did you mean 'causal'?");
  EXPECT_THAT(load_error("no/such/file"), HasSubstr("no/such/file"));
}

TEST(FormulaLoad, RefusesNamesThatNoFileCanHave) {
  EXPECT_THAT(load_error(std::string(5000, 'a')), HasSubstr("is neither a file nor a shipped mechanism"));
  EXPECT_THAT(load_error(""), HasSubstr("is neither a file nor a shipped mechanism"));
  EXPECT_NE(load_error(std::string("causal\0", 7)), "");
}

}  // namespace
}  // namespace saccade
