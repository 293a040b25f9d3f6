// Facts about the order of rows and about packing: nothing is lost, nothing comes twice.
#include "saccade/data/packed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "saccade/base/random.h"
#include "saccade/base/testing.h"
#include "saccade/data/permutation.h"

namespace saccade {
namespace {

TEST(Permutation, HasEveryPlaceOnce) {
  for (const int64_t size : {1, 2, 3, 4, 5, 7, 16, 17, 100, 1023, 1024, 1025, 5000}) {
    std::vector<int64_t> seen;
    const Permutation order(size, 3, 0);
    for (int64_t place = 0; place < size; ++place) seen.push_back(order(place));
    std::ranges::sort(seen);
    for (int64_t place = 0; place < size; ++place) ASSERT_EQ(seen[static_cast<size_t>(place)], place) << size;
  }
}

TEST(Permutation, DiffersByEpochAndSeed) {
  std::set<std::vector<int64_t>> orders;
  for (const auto& [seed, epoch] : {std::pair{1, 0}, {1, 1}, {1, 2}, {2, 0}, {1, 1'000'000'000}}) {
    const Permutation order(50, static_cast<uint64_t>(seed), epoch);
    std::vector<int64_t> all;
    for (int64_t place = 0; place < 50; ++place) all.push_back(order(place));
    orders.insert(all);
  }
  EXPECT_EQ(orders.size(), 5u);
}

TEST(Permutation, IsAboutAsRandomAsShuffling) {
  // How often a place keeps its neighbour, or stays: once each in the mean.
  int64_t neighbours = 0, fixed = 0;
  for (int64_t epoch = 0; epoch < 400; ++epoch) {
    const Permutation order(64, 1, epoch);
    for (int64_t place = 0; place < 64; ++place) {
      fixed += order(place) == place ? 1 : 0;
      if (place > 0) neighbours += order(place) == order(place - 1) + 1 ? 1 : 0;
    }
  }
  EXPECT_NEAR(static_cast<double>(fixed), 400, 100);
  EXPECT_NEAR(static_cast<double>(neighbours), 400, 100);
}

TEST(Permutation, HasRoomForHugeSizes) {
  const int64_t size = (int64_t{1} << 62) - 3;
  const Permutation order(size, 1, 5);
  std::set<int64_t> seen;
  for (int64_t place = size - 1000; place < size; ++place) {
    EXPECT_GE(order(place), 0);
    EXPECT_LT(order(place), size);
    seen.insert(order(place));
  }
  EXPECT_EQ(seen.size(), 1000u);
}

// Documents of the given lengths; token t of document d is 100 * d + t.
TokenShard shard(const std::vector<int>& lengths, int first = 0, int64_t vocabulary = 60'000) {
  TokenBuffer buffer(vocabulary, 0);
  for (size_t document = 0; document < lengths.size(); ++document) {
    std::vector<int32_t> ids(static_cast<size_t>(lengths[document]));
    std::iota(ids.begin(), ids.end(), 100 * (first + static_cast<int>(document)));
    buffer.add(ids);
  }
  return buffer.take("test");
}

std::vector<int32_t> all_tokens(const std::vector<TokenShard>& shards) {
  std::vector<int32_t> result;
  for (const TokenShard& each : shards) {
    std::vector<int32_t> ids(static_cast<size_t>(each.count()));
    each.copy(0, ids);
    result.insert(result.end(), ids.begin(), ids.end());
  }
  return result;
}

TEST(Packing, AsksForEveryTokenOnceInEachEpoch) {
  for (const int64_t vocabulary : {60'000, 70'000})
    for (const int64_t length : {1, 2, 3, 7, 20, 60}) {
      const std::vector<TokenShard> shards = {shard({5, 1, 30, 2}, 0, vocabulary), shard({1}, 4, vocabulary),
                                              shard({9, 9, 4}, 5, vocabulary)};
      EXPECT_EQ(shards[0].width, vocabulary > 65536 ? 4 : 2);
      const std::vector<int32_t> tokens = all_tokens(shards);
      const auto data = packed_dataset(shards, all_documents(shards), length, 9, "test");
      const int64_t rows = (static_cast<int64_t>(tokens.size()) - 1) / length;
      ASSERT_EQ(data->size(), rows);
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        std::multiset<int32_t> asked;
        for (int64_t index = 0; index < rows; ++index) {
          const TrainingSequence row = data->read(epoch * rows + index);
          ASSERT_EQ(row.ids.size(), static_cast<size_t>(length) + 1);
          asked.insert(row.ids.begin() + 1, row.ids.end());
          for (size_t place = 1; place < row.ids.size(); ++place)
            EXPECT_EQ(row.documents[place] - row.documents[place - 1],
                      row.ids[place] / 100 - row.ids[place - 1] / 100);
          EXPECT_EQ(row.documents[0], 0);
          EXPECT_TRUE(row.answers.empty());
        }
        EXPECT_EQ(asked, std::multiset<int32_t>(tokens.begin() + 1, tokens.begin() + 1 + rows * length));
      }
    }
}

TEST(Packing, ValidationComesInItsOrder) {
  const std::vector<TokenShard> shards = {shard({40, 50})};
  const auto data = packed_dataset(shards, all_documents(shards), 10, {}, "test");
  for (int64_t row = 0; row < 2 * data->size(); ++row)
    EXPECT_EQ(data->read(row).ids[0], all_tokens(shards)[static_cast<size_t>(row % data->size() * 10)]);
}

TEST(Packing, OneRowIsEnough) {
  const std::vector<TokenShard> shards = {shard({11})};
  const auto data = packed_dataset(shards, all_documents(shards), 10, 1, "test");
  EXPECT_EQ(data->size(), 1);
  EXPECT_EQ(data->read(1'000'000'000'000'000).ids, all_tokens(shards));
  EXPECT_THAT(message_of([&] { packed_dataset(shards, all_documents(shards), 11, 1, "the text"); }),
              testing::HasSubstr("the text has 11 tokens; a row of length 11 takes 12"));
  EXPECT_THAT(message_of([&] { packed_dataset(shards, {}, 1, 1, "nothing"); }),
              testing::HasSubstr("nothing has 0 tokens"));
}

TEST(Packing, ATokenBeyondTheVocabularyIsRefusedWhenItIsRead) {
  TokenShard wrong = shard({10, 20});
  wrong.vocabulary = 105;
  wrong.name = "some.tokens";
  const auto data = packed_dataset({wrong}, all_documents({wrong}), 5, {}, "test");
  EXPECT_EQ(data->read(1).ids[0], 5);
  EXPECT_THAT(message_of([&] { data->read(3); }),
              testing::HasSubstr("some.tokens: token 15 is 105; expected less than 105"));
}

TEST(HeldOut, IsDecidedByTheNumberAlone) {
  const HeldOut few(1000, 0.1), many(100'000, 0.1);
  int64_t held = 0;
  for (int64_t document = 0; document < 100'000; ++document) {
    if (document < 1000) {
      EXPECT_EQ(few(document), many(document));
    }
    held += many(document) ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(held), 10'000, 400);
}

TEST(HeldOut, LeavesSomethingOnBothSides) {
  for (const double share : {1e-9, 0.01, 0.5, 0.99, 1 - 1e-9})
    for (int64_t documents = 2; documents < 40; ++documents) {
      const HeldOut held_out(documents, share);
      int64_t held = 0;
      for (int64_t document = 0; document < documents; ++document) held += held_out(document) ? 1 : 0;
      EXPECT_GE(held, 1);
      EXPECT_LT(held, documents);
    }
  for (const double share : {0.0, 1.0, -1.0, 2.0, std::nan("")}) EXPECT_THROW(HeldOut(10, share), Error);
}

TEST(HeldOut, DividesShardsWithoutLoss) {
  const std::vector<TokenShard> shards = {shard({5, 6, 7, 1, 9, 3}), shard({2, 8, 4, 4, 4}, 6)};
  for (const double share : {0.01, 0.3, 0.7}) {
    const DividedDocuments parts = divide_documents(shards, share);
    std::vector<int32_t> seen;
    for (const auto& runs : {parts.train, parts.validation})
      for (const DocumentRun& run : runs) {
        std::vector<int32_t> ids(static_cast<size_t>(run.tokens));
        shards[run.shard].copy(run.first_token, ids);
        EXPECT_EQ(ids.front() % 100, 0);  // documents stay whole
        seen.insert(seen.end(), ids.begin(), ids.end());
      }
    EXPECT_THAT(seen, testing::UnorderedElementsAreArray(all_tokens(shards)));
    EXPECT_FALSE(parts.train.empty() || parts.validation.empty());
  }
}

TEST(HeldOut, CutsASingleDocument) {
  const std::vector<TokenShard> shards = {shard({90})};
  const DividedDocuments parts = divide_documents(shards, 0.1);
  EXPECT_EQ(parts.train.at(0).tokens, 81);
  EXPECT_EQ(parts.validation.at(0).first_token, 81);
  EXPECT_EQ(parts.validation.at(0).tokens, 9);
}

}  // namespace
}  // namespace saccade
