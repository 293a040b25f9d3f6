#include "saccade/text/bpe.h"

#include <gtest/gtest.h>

#include <map>

#include "saccade/base/error.h"
#include "saccade/base/random.h"
#include "saccade/text/bpe_trainer.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

struct Learned {
  std::vector<std::pair<std::string, int32_t>> entries;
  std::vector<BpeModel::Merge> merges;
};

// A vocabulary of a few letters and random merges of what is there already.
Learned random_merges(RandomStream& random, const std::vector<std::string>& letters, int count) {
  Learned result;
  std::map<std::string, int32_t> ids;
  const auto add = [&](const std::string& token) {
    if (ids.emplace(token, static_cast<int32_t>(ids.size())).second)
      result.entries.emplace_back(token, static_cast<int32_t>(result.entries.size()));
  };
  for (const std::string& letter : letters) add(letter);
  std::map<BpeModel::Merge, bool> known;
  for (int made = 0; made < count; ++made) {
    const std::string left = result.entries[random.below(result.entries.size())].first;
    const std::string right = result.entries[random.below(result.entries.size())].first;
    if (left.size() + right.size() > 40 || known[{left, right}]) continue;
    known[{left, right}] = true;
    result.merges.emplace_back(left, right);
    add(left + right);
  }
  return result;
}

// The definition: the first merge in the list that applies anywhere joins its leftmost pair; and again.
std::vector<std::string> merge_slowly(std::vector<std::string> word,
                                      const std::vector<BpeModel::Merge>& merges) {
  while (true) {
    size_t best_rank = merges.size(), best_at = 0;
    for (size_t at = 0; at + 1 < word.size(); ++at) {
      for (size_t rank = 0; rank < best_rank; ++rank)
        if (merges[rank].first == word[at] && merges[rank].second == word[at + 1]) {
          best_rank = rank;
          best_at = at;
        }
    }
    if (best_rank == merges.size()) return word;
    word[best_at] += word[best_at + 1];
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

std::vector<std::string> tokens_of(const Model& model, std::string_view text) {
  WordCache cache;
  std::vector<int32_t> ids;
  model.encode(text, cache, ids);
  std::vector<int32_t> again;
  model.encode(text, cache, again);
  EXPECT_EQ(ids, again) << "the cache gives other ids";
  std::vector<std::string> result;
  for (int32_t id : ids) result.emplace_back(model.vocabulary().token(id));
  return result;
}

TEST(Bpe, MergesAsDefinedForShortAndLongWords) {
  const std::vector<std::string> letters = {"a", "b", "c", "\u2581"};
  RandomStream random(5, "bpe");
  for (int round = 0; round < 60; ++round) {
    const Learned learned = random_merges(random, letters, 40);
    const BpeModel model(Vocabulary(learned.entries, "test"), learned.merges, {}, "test");
    for (uint64_t length : {1, 2, 5, 12, 31, 32, 33, 80}) {
      std::vector<std::string> word;
      std::string text;
      for (uint64_t count = 0; count < length; ++count) text += word.emplace_back(letters[random.below(4)]);
      ASSERT_EQ(tokens_of(model, text), merge_slowly(word, learned.merges))
          << "round " << round << " of seed 5: " << text;
    }
  }
}

TEST(Bpe, FallsBackToBytesOrTheUnknownToken) {
  std::vector<std::pair<std::string, int32_t>> entries = {{"a", 0}, {"?", 1}};
  const auto make = [&](BpeOptions options) {
    return std::make_unique<BpeModel>(Vocabulary(entries, "test"), std::vector<BpeModel::Merge>(), options,
                                      "test");
  };
  using Tokens = std::vector<std::string>;
  EXPECT_EQ(tokens_of(*make({}), "axxa"), (Tokens{"a", "a"}));
  EXPECT_EQ(tokens_of(*make({.unk_token = "?"}), "axxa"), (Tokens{"a", "?", "?", "a"}));
  EXPECT_EQ(tokens_of(*make({.unk_token = "?", .fuse_unk = true}), "axxa"), (Tokens{"a", "?", "a"}));
  entries.insert(entries.end(), {{"<0xC3>", 2}, {"<0xA9>", 3}});
  EXPECT_EQ(tokens_of(*make({.unk_token = "?", .byte_fallback = true}), "a\u00E9x"),
            (Tokens{"a", "<0xC3>", "<0xA9>", "?"}));
}

TEST(Bpe, NamesAMergeThatLeadsNowhere) {
  const std::vector<std::pair<std::string, int32_t>> entries = {{"a", 0}, {"b", 1}};
  EXPECT_THROW(BpeModel(Vocabulary(entries, "test"), {{"a", "b"}}, {}, "test"), Error);
  EXPECT_THROW(BpeModel(Vocabulary(entries, "test"), {}, {.unk_token = "?"}, "test"), Error);
}

TEST(BpeTrainer, JoinsTheMostFrequentPairFirst) {
  BpeTrainer trainer({.vocabulary_size = 259, .min_frequency = 2, .special_tokens = {"<end>"}});
  trainer.add("low low low lower lowest");
  const Tokenizer tokenizer = trainer.train();
  EXPECT_EQ(tokenizer.size(), 259);
  EXPECT_EQ(tokenizer.id_of("<end>"), 0);
  EXPECT_EQ(tokenizer.token_of(257), "lo");  // "l" and "o" have smaller ids than "o" and "w"
  EXPECT_EQ(tokenizer.token_of(258), "low");
}

TEST(BpeTrainer, StopsWhenNoPairIsFrequentEnough) {
  BpeTrainer trainer({.vocabulary_size = 1000, .min_frequency = 3, .special_tokens = {}});
  trainer.add("ab ab ab xy");
  const Tokenizer tokenizer = trainer.train();
  EXPECT_EQ(tokenizer.size(), 257);  // "ab" three times; " ab" only twice
  EXPECT_THROW(BpeTrainer({.vocabulary_size = 255}), Error);
}

TEST(BpeTrainer, GivesBackItsText) {
  BpeTrainer trainer({.vocabulary_size = 400});
  const std::string text = "Der schnelle Fuchs, the quick fox; \u4E2D\u6587 \U0001F600 \n\n the end.";
  for (int count = 0; count < 3; ++count) trainer.add(text);
  const Tokenizer tokenizer = trainer.train();
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_EQ(Tokenizer::from_json(tokenizer.to_json(), "again").encode(text), tokenizer.encode(text));
}

}  // namespace
}  // namespace saccade
