// Beam search beside trying everything, on vocabularies small enough for that.
#include "saccade/generate/beam.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "saccade/base/error.h"
#include "saccade/base/random.h"

namespace saccade {
namespace {

using at::Tensor;
using Ids = std::vector<int64_t>;

// A made-up model: its logits are random numbers that depend on the sequence and on everything before.
class Toy {
 public:
  Toy(uint64_t seed, int64_t vocabulary) : random_(seed, "toy"), vocabulary_(vocabulary) {}

  std::vector<double> log_probabilities(size_t sequence, const Ids& ids) const {
    std::string name = std::to_string(sequence);
    for (const int64_t id : ids) name += "," + std::to_string(id);
    RandomStream random = random_.split(name);
    std::vector<double> result;
    double total = 0;
    for (int64_t token = 0; token < vocabulary_; ++token) result.push_back(2 * random.normal());
    for (const double logit : result) total += std::exp(logit);
    for (double& logit : result) logit -= std::log(total);
    return result;
  }

  // Runs the search as a decoder would: rows are chosen among those of the call before.
  std::vector<std::vector<Hypothesis>> search(const std::vector<size_t>& sequences,
                                              const BeamOptions& options) const {
    std::vector<std::pair<size_t, Ids>> rows;
    for (const size_t sequence : sequences) rows.push_back({sequence, {}});
    const auto logits = [&] {
      std::vector<double> all;
      for (const auto& [sequence, ids] : rows)
        for (const double each : log_probabilities(sequence, ids)) all.push_back(each + 3);
      return torch::tensor(all, torch::kDouble).view({-1, vocabulary_});
    };
    const auto step = [&](const Tensor& ids, const Tensor& chosen) {
      std::vector<std::pair<size_t, Ids>> next;
      for (int64_t row = 0; row < ids.numel(); ++row) {
        next.push_back(rows.at(static_cast<size_t>(chosen[row].item<int64_t>())));
        next.back().second.push_back(ids[row].item<int64_t>());
      }
      rows = std::move(next);
      return logits();
    };
    return beam_search(logits(), step, options);
  }

  // All texts that end or have the full length, best first.
  std::vector<Hypothesis> everything(size_t sequence, const BeamOptions& options) const {
    std::vector<Hypothesis> result;
    grow(sequence, {}, 0, options, result);
    std::ranges::sort(result, std::greater<>(), &Hypothesis::score);
    return result;
  }

 private:
  void grow(size_t sequence, const Ids& ids, double sum, const BeamOptions& options,
            std::vector<Hypothesis>& result) const {
    const std::vector<double> next = log_probabilities(sequence, ids);
    for (int64_t token = 0; token < vocabulary_; ++token) {
      Ids longer = ids;
      longer.push_back(token);
      const double reached = sum + next[static_cast<size_t>(token)];
      const bool ended = std::ranges::find(options.end_ids, token) != options.end_ids.end();
      if (ended || static_cast<int64_t>(longer.size()) == options.max_new_tokens)
        result.push_back({longer, reached,
                          reached / std::pow(static_cast<double>(longer.size()), options.length_penalty),
                          ended});
      else
        grow(sequence, longer, reached, options, result);
    }
  }

  RandomStream random_;
  int64_t vocabulary_;
};

TEST(BeamSearch, WithRoomForEverythingFindsTheBestOfEverything) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Toy toy(seed, 4);
    for (const double penalty : {0.0, 1.0, 2.0}) {
      const BeamOptions options{
          .beams = 200, .n_best = 5, .max_new_tokens = 4, .length_penalty = penalty, .end_ids = {0}};
      const std::vector<Hypothesis> expected = toy.everything(7, options);
      const std::vector<Hypothesis> found = toy.search({7}, options).front();
      ASSERT_EQ(found.size(), 5u);
      for (size_t rank = 0; rank < found.size(); ++rank) {
        EXPECT_EQ(found[rank].ids, expected[rank].ids);
        EXPECT_EQ(found[rank].ended, expected[rank].ended);
        EXPECT_NEAR(found[rank].score, expected[rank].score, 1e-9);
      }
    }
  }
}

TEST(BeamSearch, OneBeamIsGreedy) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Toy toy(seed, 6);
    Ids greedy;
    while (greedy.size() < 8 && (greedy.empty() || greedy.back() != 0)) {
      const std::vector<double> next = toy.log_probabilities(0, greedy);
      greedy.push_back(std::ranges::max_element(next) - next.begin());
    }
    EXPECT_EQ(toy.search({0}, {.beams = 1, .max_new_tokens = 8, .end_ids = {0}}).front().front().ids, greedy);
  }
}

TEST(BeamSearch, OtherSequencesChangeNothing) {
  const Toy toy(3, 5);
  for (const bool early : {false, true}) {
    const BeamOptions options{
        .beams = 3, .n_best = 3, .max_new_tokens = 9, .early_stopping = early, .end_ids = {0, 4}};
    const std::vector<size_t> sequences{0, 1, 2, 3, 4, 5};
    const auto together = toy.search(sequences, options);
    for (const size_t sequence : sequences) {
      const auto alone = toy.search({sequence}, options).front();
      ASSERT_EQ(together[sequence].size(), alone.size());
      for (size_t rank = 0; rank < alone.size(); ++rank) {
        EXPECT_EQ(together[sequence][rank].ids, alone[rank].ids);
        EXPECT_EQ(together[sequence][rank].score, alone[rank].score);
      }
    }
  }
}

TEST(BeamSearch, ScoresAreMeansOverTheLengthAndSorted) {
  const Toy toy(11, 5);
  const auto found = toy.search({0}, {.beams = 4, .n_best = 4, .max_new_tokens = 6, .end_ids = {0}}).front();
  ASSERT_EQ(found.size(), 4u);
  for (size_t rank = 0; rank < found.size(); ++rank) {
    double sum = 0;
    for (size_t place = 0; place < found[rank].ids.size(); ++place)
      sum += toy.log_probabilities(
          0, Ids(found[rank].ids.begin(),
                 found[rank].ids.begin() +
                     static_cast<std::ptrdiff_t>(place)))[static_cast<size_t>(found[rank].ids[place])];
    EXPECT_NEAR(found[rank].log_probability, sum, 1e-9);
    EXPECT_NEAR(found[rank].score, sum / static_cast<double>(found[rank].ids.size()), 1e-9);
  }
  EXPECT_TRUE(std::ranges::is_sorted(found, std::greater<>(), &Hypothesis::score));
}

TEST(BeamSearch, EarlyStoppingTakesTheFirstThatEnd) {
  // Token 0 ends and is likely from the start, but a longer text has the better mean.
  const auto logits = [](int64_t rows) {
    return torch::tensor({0.5, 0.3, 0.2}, torch::kDouble).log().expand({rows, 3});
  };
  int64_t steps = 0;
  const auto step = [&](const Tensor& ids, const Tensor&) {
    ++steps;
    return torch::tensor({0.001, 0.998, 0.001}, torch::kDouble).log().expand({ids.numel(), 3});
  };
  BeamOptions options{.beams = 1, .max_new_tokens = 5, .early_stopping = true, .end_ids = {0}};
  EXPECT_EQ(beam_search(logits(1), step, options).front().front().ids, (Ids{0}));
  EXPECT_EQ(steps, 0);
  options.beams = 2;
  options.early_stopping = false;
  EXPECT_EQ(beam_search(logits(1), step, options).front().front().ids, (Ids{1, 1, 1, 1, 1}));
}

TEST(BeamSearch, WrongOptionsAreRefused) {
  const auto step = [](const Tensor&, const Tensor&) { return Tensor(); };
  EXPECT_THROW(beam_search(torch::zeros({1, 3}), step, {.beams = 0}), Error);
  EXPECT_THROW(beam_search(torch::zeros({1, 3}), step, {.beams = 2, .n_best = 3}), Error);
  EXPECT_THROW(beam_search(torch::zeros({3}), step, {}), Error);
}

}  // namespace
}  // namespace saccade
