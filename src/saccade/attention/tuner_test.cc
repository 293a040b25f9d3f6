#include "saccade/attention/tuner.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <fstream>

#include "saccade/attention/fused.h"
#include "saccade/base/file.h"

namespace saccade::tuner_test {
namespace {

using ::testing::HasSubstr;

// A call whose lists name every `step`-th key.
PairInputs call(int64_t queries, int64_t keys, int64_t step) {
  torch::manual_seed(1);
  PairInputs inputs;
  inputs.queries = {torch::randn({1, 2, queries, 16})};
  inputs.keys = {torch::randn({1, 2, keys, 16})};
  inputs.value = torch::randn({1, 2, keys, 16});
  const int64_t tiles = (queries + 15) / 16;
  const torch::Tensor row = torch::arange(0, keys, step, torch::kInt);
  inputs.lists =
      KeyLists{.query_tile = 16,
               .key_tile = 1,
               .starts = (torch::arange(tiles + 1, torch::kInt) * row.size(0)).reshape({1, 1, tiles + 1}),
               .keys = row.repeat({tiles})};
  return inputs;
}

class TunerTest : public ::testing::Test {
 protected:
  TunerTest() { std::filesystem::create_directories(directory_); }
  ~TunerTest() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path directory_ =
      std::filesystem::path(::testing::TempDir()) /
      ("tuner_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
  std::filesystem::path file_ = directory_ / "deep" / "tuning.json";
  Formula formula_ = Formula::parse("mask = causal");
};

TEST_F(TunerTest, ChoosesTheShorterAndRemembersIt) {
  const PairInputs inputs = call(64, 64, 2);
  Tuner tuner(file_);
  const TunedChoice first = tuner.choose(formula_, inputs);
  EXPECT_GT(first.gather_seconds, 0);
  EXPECT_EQ(first.gather, first.gather_seconds <= first.hide_seconds);
  // Not measured again: the times are the same to the last bit, here and from the file.
  EXPECT_EQ(tuner.choose(formula_, inputs).gather_seconds, first.gather_seconds);
  Tuner later(file_);
  EXPECT_EQ(later.known(), 1u);
  EXPECT_EQ(later.choose(formula_, inputs).hide_seconds, first.hide_seconds);
}

TEST_F(TunerTest, TakesWhatTheFileSays) {
  const PairInputs inputs = call(64, 64, 2);
  Tuner(file_).choose(formula_, inputs);
  std::string text = read_file(file_, 1 << 20);
  for (const bool gather : {true, false}) {
    const std::string other = gather ? "\"gather\": false" : "\"gather\": true",
                      wanted = gather ? "\"gather\": true" : "\"gather\": false";
    if (const size_t at = text.find(other); at != std::string::npos) text.replace(at, other.size(), wanted);
    write_atomic(file_, text);
    EXPECT_EQ(Tuner(file_).choose(formula_, inputs).gather, gather);
  }
}

TEST_F(TunerTest, TrainingIsAnotherKindAndMeasuredToo) {
  PairInputs inputs = call(32, 32, 2);
  Tuner tuner(file_);
  tuner.choose(formula_, inputs);
  inputs.queries[0].requires_grad_(true);
  tuner.choose(formula_, inputs);
  EXPECT_EQ(tuner.known(), 2u);
  EXPECT_FALSE(inputs.queries[0].grad().defined()) << "measuring left a gradient behind";
}

TEST_F(TunerTest, KindsRoundSizesAndDensity) {
  const auto kind = [&](int64_t queries, int64_t keys, int64_t step) {
    return Tuner::kind_of(formula_, call(queries, keys, step));
  };
  EXPECT_EQ(kind(1024, 1024, 4), kind(1030, 1030, 4));
  EXPECT_NE(kind(1024, 1024, 4), kind(2048, 2048, 4));
  EXPECT_NE(kind(1024, 1024, 4), kind(1024, 1024, 2));
  EXPECT_THAT(kind(1024, 1024, 4), HasSubstr("density 0.25 forward"));
}

TEST_F(TunerTest, SpoiltFilesAreWrittenAnew) {
  std::filesystem::create_directories(file_.parent_path());
  for (const char* text : {"", "{", "[1, 2]", "{\"x\": 3}", "{\"x\": {\"y\": {}}}"}) {
    std::ofstream(file_) << text;
    Tuner tuner(file_);
    EXPECT_EQ(tuner.known(), 0u) << text;
    tuner.choose(formula_, call(32, 32, 2));
    EXPECT_EQ(Tuner(file_).known(), 1u) << text;
  }
}

TEST_F(TunerTest, WithoutAFileLongListsAreHidden) {
  Tuner tuner{std::filesystem::path()};
  EXPECT_TRUE(tuner.choose(formula_, call(32, 32, 4)).gather);
  EXPECT_FALSE(tuner.choose(formula_, call(32, 32, 1)).gather);
  EXPECT_EQ(tuner.known(), 0u);
}

TEST_F(TunerTest, BothWaysGiveTheSame) {
  for (const int64_t step : {1, 3, 7}) {
    PairInputs inputs = call(130, 300, step);
    inputs.gather = true;
    const torch::Tensor picked = fused_attention(formula_, inputs).output;
    inputs.gather = false;
    EXPECT_TRUE(torch::allclose(picked, fused_attention(formula_, inputs).output, 1e-5, 1e-6));
  }
}

}  // namespace
}  // namespace saccade::tuner_test
