// Facts about what a recipe's data section opens.
#include "saccade/data/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "saccade/base/file.h"
#include "saccade/base/testing.h"
#include "saccade/data/document_encoder.h"
#include "saccade/data/document_files.h"
#include "saccade/data/prepare.h"
#include "saccade/text/bpe_trainer.h"

namespace saccade {
namespace {

using testing::HasSubstr;

class Source : public DirectoryTest {
 protected:
  std::string path(std::string_view name) const { return at(name).string(); }

  static std::string refusal(const DataOptions& options) {
    return message_of([&] { open_data(options, 1); });
  }
};

// All that a dataset asks for in its first epoch, as text.
std::multiset<std::string> rows(const Data& data, const Dataset& dataset) {
  std::multiset<std::string> result;
  for (int64_t index = 0; index < dataset.size(); ++index)
    result.insert(data.tokenizer.decode(dataset.read(index).ids, false));
  return result;
}

TEST_F(Source, TasksNeedNoFiles) {
  for (const char* task : {"stories", "recall", "induction", "passkey", "translation"}) {
    const Data data = open_data({.source = task, .length = 200}, 5);
    EXPECT_LE(data.tokenizer.size(), 512);
    EXPECT_GT(data.tokenizer.size(), 257);
    EXPECT_EQ(data.train->read(2).ids, open_data({.source = task, .length = 200}, 5).train->read(2).ids);
    EXPECT_NE(data.train->read(2).ids, data.validation->read(2).ids);
    EXPECT_EQ(data.validation_texts.size(), 64u);
    EXPECT_THAT(data.train->read(0).answers, testing::Contains(1));
  }
  EXPECT_THAT(refusal({.source = "storis"}), HasSubstr("did you mean 'stories'"));
  EXPECT_THAT(refusal({.source = "txt"}), HasSubstr("did you mean 'text'"));
  EXPECT_THAT(refusal({.source = "stories", .train = {"a"}}), HasSubstr("makes its own text"));
  EXPECT_THAT(refusal({.source = "recall", .generator_size = 65}), HasSubstr("1 to 64"));
  EXPECT_THAT(refusal({.source = "text"}), HasSubstr("needs files"));
  EXPECT_THAT(refusal({.length = 0}), HasSubstr("a length of 0"));
  EXPECT_THAT(refusal({.tokenizer = "gpt2"}), HasSubstr("expected bytes or bpe:<size>"));
  EXPECT_THAT(refusal({.tokenizer = "bpe:"}), HasSubstr("a number after 'bpe:'"));
  EXPECT_THAT(refusal({.tokenizer = "bpe:5x"}), HasSubstr("a number after 'bpe:'"));
  EXPECT_THAT(refusal({.tokenizer = "bpe:-5"}), HasSubstr("a vocabulary of -5"));
}

TEST_F(Source, TheUsualVocabularyHasTheAnswersOfStoriesWhole) {
  const Data data = open_data({.source = "stories"}, 1);
  int64_t pieces = 0, words = 0;
  for (int64_t index = 0; index < 100; ++index) {
    const TrainingSequence row = data.train->read(index);
    for (size_t place = 0; place < row.ids.size(); ++place)
      if (row.answers[place] == 1) {
        ++pieces;
        words += data.tokenizer.decode(std::span(&row.ids[place], 1)).starts_with(' ') ? 1 : 0;
      }
  }
  EXPECT_LT(pieces * 10, words * 12);  // the second piece of a word can be guessed by its spelling
  EXPECT_GT(words, 500);
}

TEST_F(Source, ASingleTextIsCutAtALine) {
  std::string text;
  for (int line = 0; line < 100; ++line) text += fmt::format("line {:03}\n", line);
  make("a.txt", text);
  const Data data = open_data({.source = "text",
                               .train = {path("a.txt")},
                               .validation_share = 0.1,
                               .tokenizer = "bytes",
                               .length = 8},
                              1);
  ASSERT_EQ(data.validation_texts.size(), 1u);
  EXPECT_EQ(data.validation_texts[0], text.substr(text.size() - 10 * 9));
  EXPECT_EQ(data.train->size(), 90 * 9 / 8);
  EXPECT_EQ(data.tokenizer.size(), 257);
  EXPECT_EQ(data.validation->read(0).ids[0], 0);
  EXPECT_EQ(data.tokenizer.decode(data.validation->read(0).ids), "line 090");
}

TEST_F(Source, ATextWithoutLinesIsCutBetweenCharacters) {
  std::string text;
  for (int count = 0; count < 50; ++count) text += "\u4e2d";
  make("a.txt", text);
  for (const double share : {0.1, 0.11, 0.125, 0.5}) {
    const Data data = open_data({.source = "text",
                                 .train = {path("a.txt")},
                                 .validation_share = share,
                                 .tokenizer = "bytes",
                                 .length = 2},
                                1);
    EXPECT_EQ(data.validation_texts.at(0).size() % 3, 0u);
    EXPECT_TRUE(data.validation_texts.at(0).starts_with("\u4e2d"));
  }
}

TEST_F(Source, BytesThatAreNoTextComeBack) {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  make("a.bin", text);
  make("b.bin", text + "x");
  const Data data = open_data({.source = "text",
                               .train = {path("a.bin")},
                               .validation = {path("b.bin")},
                               .tokenizer = "bytes",
                               .length = 256},
                              1);
  EXPECT_EQ(data.tokenizer.decode(data.train->read(0).ids), text);
}

TEST_F(Source, DocumentsAreHeldOutWhole) {
  std::string text;
  for (int document = 0; document < 200; ++document) text += fmt::format("d{:03}\n", document);
  make("a.txt", text);
  const DataOptions options{.source = "text",
                            .train = {path("a.txt")},
                            .validation_share = 0.2,
                            .tokenizer = "bytes",
                            .documents = "line",
                            .length = 5};
  const Data data = open_data(options, 1);
  std::multiset<std::string> seen = rows(data, *data.train), held = rows(data, *data.validation);
  EXPECT_NEAR(static_cast<double>(data.validation_texts.size()), 40, 20);
  for (const std::string& document : data.validation_texts)
    EXPECT_FALSE(seen.contains("<|endoftext|>" + document + "<|endoftext|>"));
  // All tokens but each part's last few are asked for; documents are five tokens long, and so are rows.
  EXPECT_EQ(seen.size() + held.size(), 198u);
  // More documents leave the old ones where they are.
  make("a.txt", text + "more\neven more\n");
  const Data more = open_data(options, 1);
  EXPECT_THAT(more.validation_texts, testing::IsSupersetOf(data.validation_texts));
}

TEST_F(Source, OrderIsThatOfTheSeed) {
  std::string text;
  for (int document = 0; document < 300; ++document) text += fmt::format("d{:03}\n", document);
  make("a.txt", text);
  make("b.txt", "something else to look at");
  DataOptions options{.source = "text",
                      .train = {path("a.txt")},
                      .validation = {path("b.txt")},
                      .tokenizer = "bytes",
                      .length = 5};
  const Data one = open_data(options, 1), again = open_data(options, 1), two = open_data(options, 2);
  int64_t same = 0;
  for (int64_t index = 0; index < 3 * one.train->size(); ++index) {
    EXPECT_EQ(one.train->read(index).ids, again.train->read(index).ids);
    same += one.train->read(index).ids == two.train->read(index).ids ? 1 : 0;
  }
  EXPECT_LT(same, one.train->size() / 4);
  EXPECT_EQ(rows(one, *one.train), rows(two, *two.train));
}

TEST_F(Source, MayBeReadByManyThreads) {
  const Data data = open_data({.length = 128}, 1);
  std::vector<TrainingSequence> found(64);
  {
    std::vector<std::jthread> threads;
    for (size_t thread = 0; thread < 4; ++thread)
      threads.emplace_back([&, thread] {
        for (size_t index = thread; index < found.size(); index += 4)
          found[index] = data.train->read(static_cast<int64_t>(index));
      });
  }
  for (size_t index = 0; index < found.size(); ++index)
    EXPECT_EQ(found[index].ids, data.train->read(static_cast<int64_t>(index)).ids);
}

TEST_F(Source, WhatDoesNotSufficeIsRefused) {
  make("short.txt", "abc");
  make("one.txt", "a");
  make("good.txt", std::string(1000, 'x'));
  const auto text = [&](const char* name) {
    return DataOptions{.source = "text", .train = {path(name)}, .tokenizer = "bytes", .length = 10};
  };
  EXPECT_THAT(refusal(text("short.txt")),
              HasSubstr("the training text has 3 tokens; a row of length 10 takes 11"));
  EXPECT_THAT(refusal(text("one.txt")), HasSubstr("too short to be divided"));
  DataOptions options = text("good.txt");
  for (const double share : {0.0, 1.0, -0.5}) {
    options.validation_share = share;
    EXPECT_THAT(refusal(options), HasSubstr("expected more than 0 and less than 1"));
  }
  options.validation_share = 1e-30;
  EXPECT_THAT(refusal(options), HasSubstr("the validation text has 2 tokens"));
  options.validation_share = 0.005;
  EXPECT_THAT(refusal(options), HasSubstr("the validation text has 6 tokens"));
  options.validation = {path("good.txt")};
  EXPECT_THAT(refusal(options), HasSubstr("for training and for validation"));
  options = text("good.txt");
  options.documents = "lines";
  EXPECT_THAT(refusal(options), HasSubstr("did you mean 'line'"));
  options = text("good.txt");
  options.generator_size = 3;
  EXPECT_THAT(refusal(options), HasSubstr("generator size"));
}

TEST_F(Source, TokensGiveTheRowsOfTheirText) {
  std::string text;
  for (int document = 0; document < 300; ++document)
    text += fmt::format("{{\"text\": \"number {}\"}}\n", document);
  make("a.jsonl", text);
  DataOptions options{.source = "jsonl", .train = {path("a.jsonl")}, .tokenizer = "bpe:280", .length = 16};
  const Data from_text = open_data(options, 3);
  prepare_tokens({.train = {path("a.jsonl")},
                  .format = {.jsonl = true},
                  .directory = path("tokens"),
                  .shard_tokens = 100},
                 from_text.tokenizer);
  options = {.source = "tokens", .train = {path("tokens")}, .length = 16};
  const Data from_tokens = open_data(options, 3);
  ASSERT_EQ(from_tokens.train->size(), from_text.train->size());
  ASSERT_EQ(from_tokens.validation->size(), from_text.validation->size());
  EXPECT_EQ(from_tokens.validation_texts, from_text.validation_texts);
  for (int64_t index = 0; index < 2 * from_text.train->size(); ++index) {
    EXPECT_EQ(from_tokens.train->read(index).ids, from_text.train->read(index).ids);
    EXPECT_EQ(from_tokens.train->read(index).documents, from_text.train->read(index).documents);
  }
  EXPECT_EQ(from_tokens.validation->read(0).ids, from_text.validation->read(0).ids);
  // The tokenizer that lies beside the tokens frames documents as the one that made them.
  EXPECT_EQ(DocumentEncoder(from_tokens.tokenizer).encode("number 7"),
            DocumentEncoder(from_text.tokenizer).encode("number 7"));
  options.validation = {path("tokens/train-00001.tokens")};
  EXPECT_THAT(refusal(options), HasSubstr("train-00001.tokens is named for training and for validation"));
  options.validation.clear();
  EXPECT_THAT(message_of([&] { open_data(options, 3, BpeTrainer({.vocabulary_size = 257}).train()); }),
              HasSubstr("another vocabulary"));
}

TEST_F(Source, WikiTextAndShakespeare) {
  const std::filesystem::path shared =
      std::filesystem::path(__FILE__).parent_path() / "../../../../shared/data";
  const std::string wiki = (shared / "wikitext-2/valid.txt").lexically_normal().string();
  const std::string plays = (shared / "tinyshakespeare/input.txt").lexically_normal().string();
  if (!std::filesystem::exists(wiki) || !std::filesystem::exists(plays))
    GTEST_SKIP() << "there is no " << wiki << " or no " << plays;
  const Data articles =
      open_data({.source = "text", .train = {wiki}, .tokenizer = "bpe:1024", .documents = "heading"}, 1);
  EXPECT_EQ(articles.tokenizer.size(), 1024);
  EXPECT_GT(articles.validation_texts.size(), 0u);
  for (const std::string& text : articles.validation_texts)
    EXPECT_TRUE(text.starts_with(" = ")) << text.substr(0, 80);
  EXPECT_EQ(DocumentFiles({wiki}, {.documents = "heading"}).count(), 60);  // as its makers say
  const Data play = open_data({.source = "text", .train = {plays}, .tokenizer = "bytes"}, 1);
  const std::string text = read_file(plays, 10'000'000);
  EXPECT_TRUE(text.ends_with(play.validation_texts.at(0)));
  std::multiset<char> seen;
  for (int64_t index = 0; index < play.train->size(); ++index) {
    const TrainingSequence row = play.train->read(index);
    for (const char letter : play.tokenizer.decode(std::span(row.ids).subspan(1))) seen.insert(letter);
  }
  const auto covered = static_cast<size_t>(play.train->size() * 256);
  EXPECT_EQ(seen, std::multiset<char>(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(covered)));
}

}  // namespace
}  // namespace saccade
