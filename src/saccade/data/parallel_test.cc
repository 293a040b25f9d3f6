#include "saccade/data/parallel.h"

#include <gmock/gmock.h>

#include <set>

#include "saccade/base/testing.h"
#include "saccade/data/batch_order.h"
#include "saccade/data/parallel_files.h"

namespace saccade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ParallelFiles : public DirectoryTest {
 protected:
  std::vector<TranslationPair> pairs(const std::vector<std::string>& source,
                                     const std::vector<std::string>& target = {},
                                     const ParallelFormat& format = {}) const {
    return read_pairs(source, target, format);
  }
  std::string file(std::string_view name, std::string_view content) const {
    return make(name, content).string();
  }
};

MATCHER_P2(Pair, source, target, "") { return arg.source == source && arg.target == target; }

TEST_F(ParallelFiles, EmptyLinesKeepTheirPlace) {
  EXPECT_THAT(read_parallel_lines(file("a", "\xEF\xBB\xBFone\r\n\n  \nfour")),
              ElementsAre("one", "", "  ", "four"));
  EXPECT_THAT(read_parallel_lines(file("b", "")), IsEmpty());
}

TEST_F(ParallelFiles, TwoFilesGoTogetherLineByLine) {
  EXPECT_THAT(pairs({file("a", "x\n\ny\n")}, {file("b", "1\n2\n\n")}),
              ElementsAre(Pair("x", "1"), Pair("", "2"), Pair("y", "")));
}

TEST_F(ParallelFiles, FilesOfDifferentLengthsAreRefusedByName) {
  const std::string a = file("train.en", "x\ny\n"), b = file("train.de", "1\n");
  EXPECT_THAT(message_of([&] { pairs({a}, {b}); }),
              AllOf(HasSubstr("train.en has 2 lines"), HasSubstr("train.de has 1 line;")));
  EXPECT_THAT(message_of([&] { pairs({a, a}, {b}); }), HasSubstr("2 files of source and 1 file of target"));
}

TEST_F(ParallelFiles, TabsAndJson) {
  EXPECT_THAT(pairs({file("p.tsv", "a b\tc\td\n\tx\n")}), ElementsAre(Pair("a b", "c"), Pair("", "x")));
  EXPECT_THAT(message_of([&] { pairs({file("q.tsv", "a\tb\nc\n")}); }), HasSubstr("q.tsv:2: no tab"));
  EXPECT_THAT(pairs({file("p.jsonl", "{\"translation\": {\"en\": \"a\\nb\", \"de\": \"c\"}}\n\n")}, {},
                    {"translation.en", "translation.de"}),
              ElementsAre(Pair("a b", "c")));
  EXPECT_THAT(message_of([&] { pairs({file("r.jsonl", "{\"source\": 3}\n")}); }),
              HasSubstr("r.jsonl:1: the member 'source' is no text"));
}

TEST_F(ParallelFiles, CampaignsFilesGiveTheirSentences) {
  EXPECT_THAT(read_parallel_lines(file(
                  "dev.de.xml", "<doc>\n<seg id=\"1\"> A &amp; B </seg>\n<seg id=\"2\">C\nD</seg></doc>\n")),
              ElementsAre("A & B", "C D"));
  EXPECT_THAT(message_of([&] { read_parallel_lines(file("dev.sgm", "<seg id=\"1\">A")); }),
              HasSubstr("segment 1 has no end"));
  EXPECT_THAT(
      read_parallel_lines(file("train.tags.de-en.de",
                               "<url>http://x</url>\n<title>T</title>\nline\n<keywords>k</keywords>\n")),
      ElementsAre("T", "line"));
}

// --- pairs as training reads them ---

DataOptions toy_options() { return {.source = "translation", .tokenizer = "bpe:300", .length = 200}; }

TEST(Pairs, SourceEndsAndTargetBeginsAndEnds) {
  const Data data = open_pairs(toy_options(), 1);
  const PairEncoder encoder(data.tokenizer);
  const TrainingSequence sequence = data.train->read(17);
  EXPECT_EQ(sequence.source.back(), encoder.end());
  EXPECT_EQ(sequence.ids.front(), encoder.begin());
  EXPECT_EQ(sequence.ids.back(), encoder.end());
  EXPECT_EQ(encoder.source(encoder.line(sequence.source)), sequence.source);
  EXPECT_EQ(encoder.target(encoder.line(sequence.ids)), sequence.ids);
}

TEST(Pairs, TheFirstWordIsWrittenLikeOthers) {
  const Data data = open_pairs(toy_options(), 1);
  const PairEncoder encoder(data.tokenizer);
  const std::vector<int32_t> one = encoder.source("the"), two = encoder.source("the the");
  ASSERT_EQ(one.size(), 2);
  EXPECT_EQ(two, (std::vector<int32_t>{one[0], one[0], one[1]}));
}

TEST(Pairs, WhatTokensCannotSayStaysOneLine) {
  const PairEncoder encoder(open_pairs(toy_options(), 1).tokenizer);
  EXPECT_EQ(encoder.line(encoder.source("a\nb\r c")), "a b  c");
  const std::vector<int32_t> smile = encoder.source("\U0001F600");
  EXPECT_EQ(encoder.line(std::vector<int32_t>(smile.begin(), smile.begin() + 2)), "\uFFFD");
}

TEST(Pairs, SameSeedSamePairs) {
  const Data one = open_pairs(toy_options(), 1), two = open_pairs(toy_options(), 1),
             other = open_pairs(toy_options(), 2);
  EXPECT_EQ(one.train->read(5).source, two.train->read(5).source);
  EXPECT_NE(one.train->read(5).source, one.train->read(6).source);
  EXPECT_NE(one.validation_pairs[0].source, other.validation_pairs[0].source);
}

std::vector<TranslationPair> some_pairs(int64_t count) {
  std::vector<TranslationPair> pairs;
  for (int64_t number = 0; number < count; ++number)
    pairs.push_back(write_translation(3, RandomStream(1, "some").split(std::to_string(number))));
  return pairs;
}

TEST(Pairs, EmptyAndLongOnesAreLeftOutAndCounted) {
  std::vector<TranslationPair> pairs = some_pairs(20);
  pairs[3].source = " ";
  pairs[5].target = "";
  pairs[7].source = std::string(5000, 'x');
  const PairEncoder encoder(open_pairs(toy_options(), 1).tokenizer);
  int64_t left_out = 0;
  EXPECT_EQ(pairs_dataset(pairs, encoder, 200, {}, "the pairs", &left_out)->size(), 17);
  EXPECT_EQ(left_out, 3);
  EXPECT_THAT(message_of([&] { pairs_dataset(pairs, encoder, 1, {}, "the pairs"); }),
              HasSubstr("of 20 the pairs none can be used"));
}

TEST(Pairs, NeighboursAreJoined) {
  const std::vector<TranslationPair> pairs{{"a ", "1"}, {"b", "2"}, {"", "3"}};
  EXPECT_THAT(concatenated(pairs, 2), ElementsAre(Pair("a b", "1 2"), Pair("", "3")));
}

TEST(BucketedBatches, EveryPairOnceInAnEpochAndNoBatchTooLarge) {
  const std::vector<TranslationPair> pairs = some_pairs(500);
  const PairEncoder encoder(open_pairs(toy_options(), 1).tokenizer);
  const auto data = pairs_dataset(pairs, encoder, 400, 7, "the pairs");
  constexpr int64_t kTokens = 600;
  const auto order = bucketed_batches(*data, kTokens, 7);
  std::vector<int64_t> first_epoch;
  int64_t step = 0, padded = 0, real = 0;
  while (first_epoch.size() < 500) {
    const std::vector<int64_t> numbers = order->sequences(step++);
    int64_t longest = 0;
    for (const int64_t number : numbers) {
      longest = std::max(longest, data->length(number).longest());
      real += data->length(number).longest();
    }
    padded += longest * static_cast<int64_t>(numbers.size());
    EXPECT_LE(longest * static_cast<int64_t>(numbers.size()), kTokens);
    first_epoch.insert(first_epoch.end(), numbers.begin(), numbers.end());
  }
  EXPECT_EQ(std::set<int64_t>(first_epoch.begin(), first_epoch.end()).size(), 500);
  EXPECT_LT(static_cast<double>(padded), 1.1 * static_cast<double>(real));
  EXPECT_NE(order->sequences(0), order->sequences(step));
  // A step is a matter of its number, not of what was asked before.
  EXPECT_EQ(bucketed_batches(*data, kTokens, 7)->sequences(step + 3), order->sequences(step + 3));
}

TEST(BucketedBatches, DataWithoutEndAreRefused) {
  EXPECT_THAT(message_of([] { bucketed_batches(*open_pairs(toy_options(), 1).train, 100, 1); }),
              HasSubstr("they have no end"));
}

}  // namespace
}  // namespace saccade
