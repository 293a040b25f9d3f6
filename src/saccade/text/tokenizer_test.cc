#include "saccade/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "saccade/base/error.h"
#include "saccade/base/random.h"
#include "saccade/text/stream_decoder.h"
#include "saccade/text/testing.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> tokens_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> result;
  for (int32_t id : tokenizer.encode(text)) result.emplace_back(tokenizer.token_of(id));
  return result;
}

std::string random_bytes(RandomStream& random, size_t length) {
  std::string result;
  for (size_t count = 0; count < length; ++count) result += static_cast<char>(random.below(256));
  return result;
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Tokenizer, MergesWhatWasLearnedFirst) {
  const Tokenizer tokenizer = Tokenizer::from_gguf(small_byte_vocabulary());
  EXPECT_EQ(tokens_of(tokenizer, "sing the thing"),
            (std::vector<std::string>{"s", "ing", "\u0120the", "\u0120", "th", "ing"}));
}

TEST(Tokenizer, FindsControlTokensInTheText) {
  const Tokenizer tokenizer = Tokenizer::from_gguf(small_byte_vocabulary());
  const auto ids = tokenizer.encode("the<|end|>the");
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(ids[1], 0);
  EXPECT_TRUE(tokenizer.is_special(0));
  EXPECT_EQ(tokenizer.decode(ids), "thethe");
  EXPECT_EQ(tokenizer.decode(ids, false), "the<|end|>the");
}

TEST(Tokenizer, GivesBackAnyBytes) {
  const Tokenizer tokenizer = Tokenizer::from_gguf(small_byte_vocabulary());
  RandomStream random(1, "bytes");
  for (int count = 0; count < 200; ++count) {
    const std::string text = random_bytes(random, random.below(60));
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << "text " << count << " of seed 1";
  }
}

TEST(Tokenizer, PutsTheTokensAroundThatTheFileAsksFor) {
  GgufVocabulary vocabulary = small_byte_vocabulary();
  vocabulary.bos = 0;
  vocabulary.add_bos = true;
  const Tokenizer tokenizer = Tokenizer::from_gguf(vocabulary);
  EXPECT_EQ(tokenizer.encode("the").front(), 0);
  EXPECT_EQ(tokenizer.encode("the", false).size(), 1u);
  EXPECT_EQ(tokenizer.encode_pair("the", "the").ids.size(), 4u);
}

TEST(Tokenizer, SurvivesItsOwnJson) {
  const Tokenizer tokenizer = Tokenizer::from_gguf(small_byte_vocabulary());
  const Tokenizer again = Tokenizer::from_json(tokenizer.to_json(), "again");
  EXPECT_EQ(again.to_json(), tokenizer.to_json());
  EXPECT_EQ(again.encode("sing<|end|> the thing"), tokenizer.encode("sing<|end|> the thing"));
  EXPECT_EQ(again.size(), tokenizer.size());
}

TEST(Tokenizer, NamesWhatItCannotDo) {
  GgufVocabulary vocabulary = small_byte_vocabulary();
  vocabulary.pre = "lama-bpe";
  EXPECT_THAT(message_of([&] { Tokenizer::from_gguf(vocabulary); }),
              AllOf(HasSubstr("tokenizer.ggml.pre 'lama-bpe' is not supported"),
                    HasSubstr("did you mean 'llama-bpe'")));
  vocabulary.model = "t5";
  EXPECT_THAT(message_of([&] { Tokenizer::from_gguf(vocabulary); }), HasSubstr("'t5' is not supported"));

  const auto of_json = [](std::string_view text) {
    return message_of([&] { Tokenizer::from_json(text, "tokenizer.json"); });
  };
  EXPECT_EQ(of_json(R"({"model": {"type": "Unigram", "vocab": [["a", 0.0]]}})"),
            "tokenizer.json: model: model type 'Unigram' is not supported; supported: BPE, WordPiece");
  EXPECT_THAT(
      of_json(R"({"normalizer": {"type": "Precompiled"}, "model": {}})"),
      HasSubstr("tokenizer.json: normalizer: normalizer type 'Precompiled' is not supported; supported: "));
  EXPECT_THAT(of_json(R"({"model": {"type": "BPE", "dropout": 0.1, "vocab": {}, "merges": []}})"),
              HasSubstr("dropout 0.1 is not supported"));
  EXPECT_THAT(of_json("{\n\"model\": {]"), HasSubstr("tokenizer.json:2: "));
  EXPECT_THAT(of_json(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}})"),
              HasSubstr("'b' is not in the vocabulary"));
}

TEST(Tokenizer, ServesManyThreads) {
  const Tokenizer tokenizer = Tokenizer::from_gguf(small_byte_vocabulary());
  const std::string text = "sing the thing, the king of the rings";
  const auto expected = tokenizer.encode(text);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int count = 0; count < 4; ++count)
    threads.emplace_back([&] {
      for (int again = 0; again < 200; ++again) wrong += tokenizer.encode(text) != expected;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(StreamDecoder, HoldsBackIncompleteCharacters) {
  const Tokenizer tokenizer = Tokenizer::from_gguf(small_byte_vocabulary());
  StreamDecoder decoder(tokenizer);
  const auto ids = tokenizer.encode("a\u20ACb");
  ASSERT_EQ(ids.size(), 5u);
  const char* const expected[] = {"a", "", "", "\u20AC", "b"};
  for (size_t index = 0; index < ids.size(); ++index) EXPECT_EQ(decoder.push(ids[index]), expected[index]);
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, GivesTheWholeTextInTheEnd) {
  const Tokenizer tokenizer = Tokenizer::from_gguf(small_byte_vocabulary());
  RandomStream random(2, "stream");
  for (int count = 0; count < 200; ++count) {
    const std::string text = random_bytes(random, random.below(40)) + "the \u20AC";
    StreamDecoder decoder(tokenizer);
    std::string streamed;
    for (int32_t id : tokenizer.encode(text)) {
      const std::string part = decoder.push(id);
      EXPECT_TRUE(is_utf8(part));
      streamed += part;
    }
    EXPECT_EQ(streamed + decoder.finish(), replace_invalid(text)) << "text " << count << " of seed 2";
  }
}

}  // namespace
}  // namespace saccade
