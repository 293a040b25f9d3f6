// Facts about documents in files: where they begin and end, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/base/testing.h"
#include "saccade/data/document_files.h"
#include "saccade/data/tokenise.h"
#include "saccade/text/bpe_trainer.h"
#include "saccade/text/testing.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> documents(std::string_view content, const DocumentFormat& format) {
  std::vector<std::string> result;
  read_documents(content, "name", format, [&](const DocumentText& document) {
    result.emplace_back(document.text());
    return true;
  });
  return result;
}

TEST(Documents, OfAFile) {
  EXPECT_THAT(documents("a\n\nb", {}), ElementsAre("a\n\nb"));
  EXPECT_THAT(documents("\xEF\xBB\xBF"
                        "a\r\n",
                        {}),
              ElementsAre("a\r\n"));
  EXPECT_THAT(documents("", {}), ElementsAre());
  EXPECT_THAT(documents(" \r\n\t\n", {}), ElementsAre());
  EXPECT_THAT(documents("\xFF\xC3", {}), ElementsAre("\xFF\xC3"));
}

TEST(Documents, OfLines) {
  const DocumentFormat format{.documents = "line"};
  EXPECT_THAT(documents("a\nb c\r\n\n  \nd", format), ElementsAre("a", "b c", "d"));
  EXPECT_THAT(documents("a\n", format), ElementsAre("a"));
  EXPECT_THAT(documents("\n\n", format), ElementsAre());
}

TEST(Documents, BetweenBlankLines) {
  const DocumentFormat format{.documents = "blank"};
  EXPECT_THAT(documents("\n\na\nb\n\n \nc", format), ElementsAre("a\nb", "c"));
  EXPECT_THAT(documents("a\r\nb\r\n\r\nc\r\n", format), ElementsAre("a\r\nb", "c"));
  EXPECT_THAT(documents("  a\n b\n", format), ElementsAre("  a\n b"));
}

TEST(Documents, UnderHeadings) {
  const DocumentFormat format{.documents = "heading"};
  const std::string text =
      " \n = One = \n \n x = 1 \n = no heading , as no blank line is before = \n = = Part = = \n y \n \n = "
      "Two = \n z";
  EXPECT_THAT(
      documents(text, format),
      ElementsAre(
          " = One = \n \n x = 1 \n = no heading , as no blank line is before = \n = = Part = = \n y \n ",
          " = Two = \n z"));
  EXPECT_THAT(documents("before\n\n= A =\n", format), ElementsAre("before\n", "= A ="));
  EXPECT_THAT(documents("= =\n\n= = =\n", format), ElementsAre("= =\n\n= = ="));
}

TEST(Documents, OfJsonl) {
  const DocumentFormat format{.jsonl = true, .field = "body"};
  EXPECT_THAT(
      documents("{\"body\": \"a\\nb\"}\r\n\n{\"id\": 3, \"body\": \"\\u00e9\"}\n{\"body\": \" \"}", format),
      ElementsAre("a\nb", "\u00e9"));
  const auto refused = [&](std::string_view content) {
    return message_of([&] { documents(content, format); });
  };
  EXPECT_THAT(refused("{\"body\": \"a\"}\n{\"text\": \"b\"}"), HasSubstr("name: line 2: no member 'body'"));
  EXPECT_THAT(refused("{\"bodi\": \"b\"}"), HasSubstr("did you mean 'bodi'"));
  EXPECT_THAT(refused("{\"body\": 3}"), HasSubstr("line 1: the member 'body' is number"));
  EXPECT_THAT(refused("\n[1]"), HasSubstr("line 2: array; expected an object"));
  EXPECT_THAT(refused("{\"body\": \"a\"} x"), HasSubstr("name: line 1:1:"));
  EXPECT_THAT(refused("{\"body\": \"\xFF\"}"), HasSubstr("line 1"));
  EXPECT_THAT(refused("{\"body\": \"a\", \"body\": \"b\"}"), HasSubstr("body"));
}

TEST(Documents, StopWhenToldTo) {
  for (const char* kind : {"line", "blank", "heading"}) {
    int count = 0;
    EXPECT_FALSE(read_documents("= a =\n\n= b =\n\n= c =\n", "name", {.documents = kind},
                                [&](const DocumentText&) { return ++count < 2; }));
    EXPECT_EQ(count, 2) << kind;
  }
}

TEST(Documents, AnUnknownKindIsCorrected) {
  EXPECT_THAT(message_of([] { documents("a", {.documents = "headings"}); }),
              HasSubstr("expected file, blank, line, heading; did you mean 'heading'?"));
}

class Files : public DirectoryTest {
 protected:
  std::string path(std::string_view name) const { return at(name).string(); }
};

TEST_F(Files, OfAPatternComeInTheOrderOfTheirBytes) {
  for (const char* name : {"b.txt", "a.txt", "B.txt", "c.text", "[x].txt"}) make(name, name);
  EXPECT_THAT(find_data_files({path("c.text"), path("?.txt")}),
              ElementsAre(at("c.text"), at("B.txt"), at("a.txt"), at("b.txt")));
  EXPECT_THAT(find_data_files({path("[x].txt")}), ElementsAre(at("[x].txt")));  // it is there
  EXPECT_THAT(message_of([&] { find_data_files({path("*.csv")}); }), HasSubstr("no file fits"));
}

TEST_F(Files, ThatHoldNothingAreNamed) {
  make("empty.txt", "");
  make("blank.txt", " \n\n");
  make("good.txt", "x");
  EXPECT_THAT(message_of([&] { DocumentFiles({path("empty.txt")}, {}); }),
              HasSubstr("empty.txt: the file is empty"));
  EXPECT_THAT(message_of([&] {
                DocumentFiles({path("good.txt"), path("blank.txt")}, {}).count();
              }),
              HasSubstr("blank.txt: there is no document"));
  EXPECT_THAT(message_of([&] { DocumentFiles({path("none.txt")}, {}); }), HasSubstr("none.txt"));
  EXPECT_THAT(message_of([&] { DocumentFiles({directory_.string()}, {}); }), HasSubstr("is a directory"));
}

TEST(Tokeniser, DoesNotDependOnThreads) {
  std::vector<std::vector<int32_t>> first;
  for (const int threads : {1, 2, 5}) {
    std::vector<std::vector<int32_t>> all;
    Tokeniser tokeniser(
        DocumentEncoder(BpeTrainer({.vocabulary_size = 257}).train()),
        [&](const DocumentText&, std::span<const int32_t> ids) { all.emplace_back(ids.begin(), ids.end()); },
        threads);
    for (int document = 0; document < 300; ++document)
      tokeniser.add(DocumentText(std::string(static_cast<size_t>(1 + document * 7 % 50), 'a')));
    tokeniser.finish();
    EXPECT_EQ(all.size(), 300u);
    if (threads == 1) first = all;
    EXPECT_EQ(all, first);
  }
}

TEST(DocumentEncoder, PutsTheEndOfTextFirst) {
  const DocumentEncoder encoder(BpeTrainer({.vocabulary_size = 257}).train());
  EXPECT_THAT(encoder.encode("ab"), ElementsAre(0, 65, 66));
}

TEST(DocumentEncoder, KeepsWhatTheTokenizerPutsAround) {
  const Tokenizer sentence_piece = Tokenizer::from_gguf({.model = "llama",
                                                         .tokens = {"<unk>", "<s>", "</s>", "\u2581", "a",
                                                                    "\u2581"
                                                                    "a"},
                                                         .scores = {0, 0, 0, -3, -4, -1},
                                                         .types = {2, 3, 3, 1, 1, 1},
                                                         .bos = 1,
                                                         .eos = 2,
                                                         .unk = 0});
  const DocumentEncoder encoder(sentence_piece);
  EXPECT_EQ(encoder.encode("a").front(), 1);
  EXPECT_EQ(encoder.encode("a").back(), 2);
  EXPECT_EQ(encoder.encode("a").size(), 3u);
}

TEST(Vocabulary, SharesAFingerprintOnlyWithItself) {
  const Tokenizer bytes = BpeTrainer({.vocabulary_size = 257}).train();
  BpeTrainer trainer({.vocabulary_size = 258});
  trainer.add("aa aa aa");
  EXPECT_NE(vocabulary_fingerprint(bytes), vocabulary_fingerprint(trainer.train()));
  EXPECT_EQ(vocabulary_fingerprint(bytes),
            vocabulary_fingerprint(Tokenizer::from_json(bytes.to_json(), "again")));
}

}  // namespace
}  // namespace saccade
