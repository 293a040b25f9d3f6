#include "saccade/report/result_files.h"

#include <gmock/gmock.h>

#include "saccade/base/testing.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ResultFiles : public DirectoryTest {
 protected:
  fs::path folder(std::string_view name) const {
    fs::create_directories(at(name));
    return at(name);
  }
  std::vector<std::string> kinds(const fs::path& path) const {
    std::vector<std::string> names;
    for (const Result& result : find_results(path)) names.emplace_back(result.kind->name);
    return names;
  }
};

constexpr const char* kFrontier = R"({"tokens": 8, "curves": []})";
constexpr const char* kComparison = R"({"variants": [], "lengths": [], "corruptions": []})";

TEST_F(ResultFiles, AreKnownByTheNameOfAFileInAFolder) {
  folder("run");
  make("run/recipe.toml", "name = \"x\"\n");
  EXPECT_THAT(kinds(at("run")), testing::ElementsAre("training run"));
  make("run/metrics.jsonl", "");
  EXPECT_THAT(kinds(at("run/metrics.jsonl")), testing::ElementsAre("training run"));
  folder("run/diagnosis");
  make("run/diagnosis/diagnosis.json", R"({"ranks": [], "layers": [], "histogram_edges": []})");
  EXPECT_THAT(kinds(at("run")), testing::ElementsAre("training run", "diagnosis"));
}

TEST_F(ResultFiles, AreKnownByContentWhateverTheirName) {
  EXPECT_THAT(kinds(make("x.json", kFrontier)), testing::ElementsAre("frontier"));
  EXPECT_THAT(kinds(make("y.txt", kComparison)), testing::ElementsAre("comparison"));
}

TEST_F(ResultFiles, AFolderOfResultsStandsForAllOfThem) {
  folder("a");
  make("a/comparison.json", kComparison);
  folder("empty");
  make("other.json", R"({"some": "thing"})");
  make("z.json", kFrontier);
  EXPECT_THAT(kinds(directory_), testing::ElementsAre("comparison", "frontier"));
}

TEST_F(ResultFiles, WhatIsUnknownIsToldByWhatItHas) {
  EXPECT_THAT(message_of([&] { find_results(at("none")); }),
              HasSubstr("none: there is no such file or folder"));
  EXPECT_THAT(message_of([&] { find_results(folder("empty")); }),
              HasSubstr("nothing to report on; it is empty; expected"));
  for (int index = 0; index < 9; ++index) make("file" + std::to_string(index), "");
  EXPECT_THAT(message_of([&] { find_results(directory_); }),
              HasSubstr("found empty/, file0, file1, file2, file3, file4 and 4 more"));
  EXPECT_THAT(message_of([&] { find_results(make("a.json", "[1]")); }),
              HasSubstr("found no object with members"));
  folder("b");
  make("b/comparison.json", kFrontier);
  EXPECT_THAT(message_of([&] { find_results(at("b")); }),
              HasSubstr("it does not hold what its name says; expected a comparison"));
}

TEST_F(ResultFiles, EveryKindNamesWhatWritesIt) {
  for (const ResultKind& kind : result_kinds()) {
    EXPECT_FALSE(kind.name.empty());
    EXPECT_THAT(std::string(kind.made_by), testing::StartsWith("saccade ")) << kind.name;
    EXPECT_TRUE(kind.matches != nullptr || !kind.file.empty()) << kind.name;
  }
}

TEST_F(ResultFiles, ALineThatWasCutOffAtTheEndIsLeftOut) {
  const JsonLines torn = read_json_lines(make("torn.jsonl", "{\"step\": 1}\n\n{\"step\": 2}\n{\"ste"));
  EXPECT_EQ(torn.lines.size(), 2u);
  EXPECT_TRUE(torn.torn);
  const JsonLines whole = read_json_lines(make("whole.jsonl", "{\"step\": 1}\n{\"step\": 2}"));
  EXPECT_EQ(whole.lines.size(), 2u);
  EXPECT_FALSE(whole.torn);
  EXPECT_TRUE(read_json_lines(make("none.jsonl", "")).lines.empty());
}

TEST_F(ResultFiles, ABrokenLineIsNamedByItsNumber) {
  const fs::path file = make("a.jsonl", "{}\n{}\n{\"a\": oops}\n{}\n");
  EXPECT_THAT(message_of([&] { read_json_lines(file); }), HasSubstr("a.jsonl:3:7: "));
  const fs::path ended = make("b.jsonl", "{}\n{\"a\"\n");
  EXPECT_THAT(message_of([&] { read_json_lines(ended); }), HasSubstr("b.jsonl:2:"));
}

TEST(RecipeValue, ReadsTheKeysThatStandAboveTheTables) {
  const char* recipe =
      "name = \"a \\\"b\\\" # c\"  # of the run\nseed = 12   # of weights\nset = { a = 1 }\n[train]\nsteps = "
      "5\n";
  EXPECT_EQ(recipe_value(recipe, "name"), "a \"b\" # c");
  EXPECT_EQ(recipe_value(recipe, "seed"), "12");
  EXPECT_EQ(recipe_value(recipe, "set"), "{ a = 1 }");
  EXPECT_EQ(recipe_value(recipe, "steps"), "");
}

}  // namespace
}  // namespace saccade
