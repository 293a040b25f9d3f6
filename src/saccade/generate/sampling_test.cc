// Which tokens the filters leave, by hand; how often they are drawn, by counting; where stop strings end a
// text.
#include "saccade/generate/sampling.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "saccade/base/error.h"
#include "saccade/generate/stop_filter.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

// Logits whose softmax is these probabilities.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> result;
  for (const double p : probabilities) result.push_back(static_cast<float>(std::log(p)));
  return result;
}

std::vector<int64_t> tokens(const std::vector<float>& logits, const SamplingOptions& options,
                            const std::vector<int64_t>& history = {}) {
  std::vector<int64_t> result;
  for (const Candidate& each : candidates(logits, options, history)) result.push_back(each.token);
  return result;
}

const std::vector<float> kFive = logits_of({0.1, 0.4, 0.05, 0.25, 0.2});

TEST(Sampling, TemperatureZeroTakesTheLikeliestAndOfTiesTheLowestId) {
  EXPECT_THAT(tokens(kFive, {.temperature = 0}), ElementsAre(1));
  EXPECT_THAT(tokens({1, 3, 3, 2, 3}, {.temperature = 0}), ElementsAre(1));
}

TEST(Sampling, TopKKeepsTheKLikeliestAndWhatTiesWithTheLast) {
  EXPECT_THAT(tokens(kFive, {.temperature = 1, .top_k = 2}), UnorderedElementsAre(1, 3));
  EXPECT_THAT(tokens({5, 2, 2, 2, 1}, {.temperature = 1, .top_k = 2}), UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_EQ(tokens(kFive, {.temperature = 1, .top_k = 99}).size(), 5u);
}

TEST(Sampling, TopPKeepsTheFewestThatReachIt) {
  EXPECT_THAT(tokens(kFive, {.temperature = 1, .top_p = 0.01}), ElementsAre(1));
  EXPECT_THAT(tokens(kFive, {.temperature = 1, .top_p = 0.6}), UnorderedElementsAre(1, 3));
  EXPECT_THAT(tokens(kFive, {.temperature = 1, .top_p = 0.7}), UnorderedElementsAre(1, 3, 4));
  EXPECT_THAT(tokens(kFive, {.temperature = 1, .top_p = 0.94}), UnorderedElementsAre(0, 1, 3, 4));
}

TEST(Sampling, TopPCountsTheProbabilityThatTopKHasLeft) {
  // Of 0.4, 0.25, 0.2 the first two have 0.76.
  EXPECT_THAT(tokens(kFive, {.temperature = 1, .top_k = 3, .top_p = 0.75}), UnorderedElementsAre(1, 3));
}

TEST(Sampling, MinPIsAShareOfTheLikeliest) {
  EXPECT_THAT(tokens(kFive, {.temperature = 1, .min_p = 0.45}), UnorderedElementsAre(1, 3, 4));
  EXPECT_THAT(tokens(kFive, {.temperature = 1, .min_p = 1}), ElementsAre(1));
}

TEST(Sampling, TemperatureComesBeforeTheFilters) {
  // Squared, the probabilities are to each other as 0.16, 0.0625, 0.04, 0.01, 0.0025.
  EXPECT_THAT(tokens(kFive, {.temperature = 0.5, .min_p = 0.3}), UnorderedElementsAre(1, 3));
}

TEST(Sampling, RepetitionPenaltyDividesPositiveLogitsAndMultipliesNegativeOnesOnce) {
  const std::vector<float> logits{4, 3, -1, -1.5};
  EXPECT_THAT(tokens(logits, {.temperature = 0, .repetition_penalty = 2}, {0, 0}), ElementsAre(1));
  const auto left =
      candidates(logits, {.temperature = 1, .repetition_penalty = 2}, std::vector<int64_t>{2, 2, 1});
  EXPECT_NEAR(left[2].probability / left[0].probability, std::exp(-2.0 - 4.0), 1e-9);
  EXPECT_NEAR(left[1].probability / left[0].probability, std::exp(1.5 - 4.0), 1e-9);
}

TEST(Sampling, ForbiddenTokensAreNeverCandidates) {
  const float never = -std::numeric_limits<float>::infinity();
  EXPECT_THAT(tokens({never, 1, never, 0}, {.temperature = 1}), UnorderedElementsAre(1, 3));
  EXPECT_THROW(tokens({never, never}, {.temperature = 1}), Error);
  EXPECT_THROW(tokens({0, std::nanf("")}, {.temperature = 0}), Error);
}

TEST(Sampling, DrawsAsOftenAsTheProbabilitiesSay) {
  const uint64_t seed = 20240611;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  RandomStream random(seed, "test");
  constexpr int kDraws = 20000;
  std::vector<int> counts(5);
  for (int draw = 0; draw < kDraws; ++draw)
    ++counts[static_cast<size_t>(choose_token(kFive, {.temperature = 1, .top_p = 0.94}, random, {}))];
  const std::vector<double> expected{0.1 / 0.95, 0.4 / 0.95, 0, 0.25 / 0.95, 0.2 / 0.95};
  for (size_t token = 0; token < 5; ++token) {
    const double p = expected[token];  // five standard deviations
    EXPECT_NEAR(counts[token], p * kDraws, 5 * std::sqrt(p * (1 - p) * kDraws)) << "token " << token;
  }
}

TEST(Sampling, ValuesWithoutAMeaningAreRefused) {
  EXPECT_THROW((SamplingOptions{.temperature = -1}.check()), Error);
  EXPECT_THROW((SamplingOptions{.top_p = 0}.check()), Error);
  EXPECT_THROW((SamplingOptions{.min_p = 1.5}.check()), Error);
  EXPECT_THROW((SamplingOptions{.repetition_penalty = 0}.check()), Error);
  EXPECT_THROW((SamplingOptions{.top_k = -1}.check()), Error);
}

// The whole text that comes out of a filter, whose pieces are also held to the promise of never being taken
// back.
std::string filtered(const std::vector<std::string>& stops, std::string_view text, size_t piece) {
  StopFilter filter(stops);
  std::string result;
  for (size_t at = 0; at < text.size(); at += piece) result += filter.push(text.substr(at, piece));
  return result + filter.finish();
}

TEST(StopFilter, CutsAtTheFirstStopStringHoweverTheTextIsCut) {
  for (size_t piece = 1; piece < 20; ++piece) {
    EXPECT_EQ(filtered({"\n\n"}, "one\ntwo\n\nthree", piece), "one\ntwo");
    EXPECT_EQ(filtered({"abcd", "bc"}, "xabcdy", piece), "xa");
    EXPECT_EQ(filtered({"aab"}, "aaaab", piece), "aa");
    EXPECT_EQ(filtered({"STOP"}, "no STO", piece), "no STO");
    EXPECT_EQ(filtered({}, "plain", piece), "plain");
  }
}

TEST(StopFilter, ShowsNothingThatMightBecomeAStopString) {
  StopFilter filter({"User:"});
  EXPECT_EQ(filter.push("Fine. Us"), "Fine. ");
  EXPECT_EQ(filter.push("e"), "");
  EXPECT_EQ(filter.push("ful. User"), "Useful. ");
  EXPECT_EQ(filter.push(": x"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.push("more"), "");
  EXPECT_EQ(filter.finish(), "");
}

TEST(StopFilter, AnEmptyStopStringIsRefused) { EXPECT_THROW(StopFilter({""}), Error); }

}  // namespace
}  // namespace saccade
