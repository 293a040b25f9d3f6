// Facts about files of tokens: what is written is read, and nothing else is believed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "saccade/base/file.h"
#include "saccade/base/testing.h"
#include "saccade/data/hash.h"
#include "saccade/data/prepare.h"
#include "saccade/data/shard_files.h"
#include "saccade/text/bpe_trainer.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int32_t> tokens_of(const TokenShard& shard) {
  std::vector<int32_t> ids(static_cast<size_t>(shard.count()));
  shard.copy(0, ids);
  return ids;
}

TokenShard small_shard(int64_t vocabulary) {
  TokenBuffer buffer(vocabulary, 77);
  buffer.add(std::vector<int32_t>{0, 1, 2});
  buffer.add(std::vector<int32_t>{static_cast<int32_t>(vocabulary - 1)});
  return buffer.take("small");
}

class Shards : public DirectoryTest {
 protected:
  // The small file with some bytes replaced, and the checksum made good if asked for.
  std::string message_for(size_t place, uint64_t value, size_t bytes, bool mend = true) {
    std::string file = content();
    std::memcpy(file.data() + place, &value, bytes);
    if (mend) {
      const uint64_t sum = hash_bytes(std::string_view(file).substr(0, 56));
      std::memcpy(file.data() + 56, &sum, 8);
    }
    return refusal(file);
  }
  std::string refusal(const std::string& file) {
    make("spoilt.tokens", file);
    return message_of([&] { tokens_of(open_shard(at("spoilt.tokens"))); });
  }
  std::string content() {
    write_shard(small_shard(300), at("small.tokens"));
    return read_file(at("small.tokens"), 1000);
  }
  std::string path(std::string_view name) const { return at(name).string(); }
};

TEST_F(Shards, AreReadAsTheyWereWritten) {
  for (const int64_t vocabulary : {257, 65536, 65537, 200'000}) {
    TokenShard shard = small_shard(vocabulary);
    shard.number = 4;
    shard.last = false;
    write_shard(shard, at("a.tokens"));
    const TokenShard again = open_shard(at("a.tokens"));
    EXPECT_EQ(again.width, vocabulary > 65536 ? 4 : 2);
    EXPECT_EQ(again.vocabulary, vocabulary);
    EXPECT_EQ(again.fingerprint, 77u);
    EXPECT_EQ(again.number, 4);
    EXPECT_FALSE(again.last);
    EXPECT_THAT(tokens_of(again), ElementsAre(0, 1, 2, vocabulary - 1));
    EXPECT_THAT(again.ends, ElementsAre(3u, 4u));
  }
}

TEST_F(Shards, ThatAreSpoiltAreRefused) {
  EXPECT_THAT(message_for(0, 0, 1), HasSubstr("spoilt.tokens: this is no file of tokens"));
  EXPECT_THAT(message_for(8, 2, 4), HasSubstr("version 2 of the format"));
  EXPECT_THAT(message_for(16, 5, 8, false), HasSubstr("checksum"));
  EXPECT_THAT(message_for(12, 3, 4), HasSubstr("tokens of 3 bytes"));
  EXPECT_THAT(message_for(16, 5, 8), HasSubstr("cut off"));
  EXPECT_THAT(message_for(16, ~uint64_t{0}, 8), HasSubstr("cut off"));
  EXPECT_THAT(message_for(24, uint64_t{1} << 61, 8), HasSubstr("cut off"));
  EXPECT_THAT(message_for(24, 3, 8), HasSubstr("documents of 4 tokens"));
  EXPECT_THAT(message_for(32, 65537, 8), HasSubstr("does not fit 2 bytes"));
  EXPECT_THAT(message_for(32, 0, 8), HasSubstr("a vocabulary of 0"));
  EXPECT_THAT(message_for(52, 2, 4), HasSubstr("mark of the last file"));
  EXPECT_THAT(message_for(64, 0, 8), HasSubstr("a document ends at token 0"));
  EXPECT_THAT(message_for(64, 4, 8), HasSubstr("a document ends at token 4"));
  EXPECT_THAT(message_for(64, 5, 8), HasSubstr("a document ends at token 5"));
  EXPECT_THAT(message_for(64 + 16, 300, 2), HasSubstr("token 0 is 300; expected less than 300"));
  EXPECT_THAT(refusal(content() + "x"), HasSubstr("cut off or is damaged"));
  const std::string whole = content();
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_THAT(refusal(whole.substr(0, size)), HasSubstr("spoilt.tokens: ")) << size;
}

TEST_F(Shards, OfASeriesMustAllBeThere) {
  const Tokenizer tokenizer = BpeTrainer({.vocabulary_size = 257}).train();
  ShardWriter writer(directory_, "train", tokenizer, 3);
  for (int32_t document = 0; document < 5; ++document) writer.add(std::vector<int32_t>{0, document, 9});
  writer.finish();
  EXPECT_EQ(writer.files(), 5);
  EXPECT_EQ(open_shard_files({directory_.string()}, "train").shards.size(), 5u);
  EXPECT_THAT(message_of([&] { open_shard_files({directory_.string()}, "validation"); }),
              HasSubstr("no validation-00000.tokens"));
  EXPECT_TRUE(open_validation_beside({directory_.string()}).shards.empty());
  EXPECT_EQ(open_shard_files({path("train-0000[13].tokens")}, "train").shards.size(),
            2u);  // a choice is fine
  EXPECT_THAT(message_of([&] { tokenizer_beside(open_shard_files({directory_.string()}, "train")); }),
              HasSubstr("tokenizer.json"));
  std::filesystem::rename(at("train-00004.tokens"), at("away"));
  EXPECT_THAT(message_of([&] { open_shard_files({directory_.string()}, "train"); }),
              HasSubstr("train-00003.tokens: the files that come after it are missing"));
  std::filesystem::rename(at("away"), at("train-00004.tokens"));
  std::filesystem::remove(at("train-00002.tokens"));
  EXPECT_THAT(message_of([&] { open_shard_files({directory_.string()}, "train"); }),
              HasSubstr("file 2 is missing"));
}

TEST_F(Shards, EndWithTheDocumentThatFillsThem) {
  const Tokenizer tokenizer = BpeTrainer({.vocabulary_size = 257}).train();
  ShardWriter writer(directory_, "train", tokenizer, 4);
  for (const size_t length : {1, 2, 30, 1, 3, 1}) writer.add(std::vector<int32_t>(length, 5));
  writer.finish();
  std::vector<int64_t> counts;
  for (const TokenShard& shard : open_shard_files({directory_.string()}, "train").shards)
    counts.push_back(shard.count());
  EXPECT_THAT(counts, ElementsAre(33, 4, 1));
}

TEST_F(Shards, AreNotLeftHalfWrittenByPrepare) {
  make("a.jsonl", "{\"text\": \"one two\"}\n{\"text\": \"three\"}\nnot json\n");
  PrepareOptions options{.train = {path("a.jsonl")},
                         .format = {.jsonl = true},
                         .tokenizer = "bytes",
                         .directory = path("out"),
                         .shard_tokens = 2};
  EXPECT_THAT(message_of([&] { prepare_tokens(options); }), HasSubstr("a.jsonl: line 3"));
  EXPECT_FALSE(std::filesystem::exists(at("out")));
  options.train = {make("b.jsonl", "{\"text\": \"one two\"}\n{\"text\": \"three\"}\n").string()};
  options.validation = {make("c.jsonl", "{\"text\": \"four\"}").string()};
  const Prepared result = prepare_tokens(options);
  EXPECT_EQ(result.train.documents, 2);
  EXPECT_EQ(result.train.tokens, 8 + 6);
  EXPECT_EQ(result.train.files, 2);
  EXPECT_EQ(result.validation.tokens, 5);
  const ShardFiles files = open_shard_files({path("out")}, "train");
  EXPECT_EQ(tokenizer_beside(files).decode(tokens_of(files.shards[0])), "one two");
  EXPECT_NO_THROW(require_vocabulary(files, tokenizer_beside(files)));
  BpeTrainer other({.vocabulary_size = 258});
  other.add("aa aa");
  EXPECT_THAT(message_of([&] { require_vocabulary(files, other.train()); }), HasSubstr("another vocabulary"));
  EXPECT_THAT(message_of([&] { prepare_tokens(options); }), HasSubstr("has something in it"));
}

}  // namespace
}  // namespace saccade
