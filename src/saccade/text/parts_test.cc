// Normalizers, pre-tokenizers, decoders and added tokens, one fact each; tests/tokenizers_test.py compares
// them with the `tokenizers` package at length.
#include <gtest/gtest.h>

#include "saccade/base/error.h"
#include "saccade/text/added_tokens.h"
#include "saccade/text/decoders.h"
#include "saccade/text/normalizers.h"
#include "saccade/text/post_processors.h"
#include "saccade/text/pre_tokenizers.h"
#include "saccade/text/unicode.h"

namespace saccade {
namespace {

using Strings = std::vector<std::string>;

std::string normalized(const char* description, std::string text) {
  const Json json = parse_json(description, "test");
  make_normalizer(JsonPart(json, "test"))->normalize(text);
  return text;
}

Strings pieces(const char* description, std::string_view text) {
  const Json json = parse_json(description, "test");
  Strings result;
  make_pre_tokenizer(JsonPart(json, "test"), false)->split({text, true}, [&](const Piece& piece) {
    result.emplace_back(piece.text);
  });
  return result;
}

Strings decoded(const char* description, Strings tokens) {
  const Json json = parse_json(description, "test");
  make_decoder(JsonPart(json, "test"))->decode(tokens);
  return tokens;
}

TEST(Normalizers, KnowUnicodesNormalForms) {
  EXPECT_EQ(normalized(R"({"type": "NFC"})", "e\u0301x"), "\u00E9x");
  EXPECT_EQ(normalized(R"({"type": "NFD"})", "\u00E9x"), "e\u0301x");
  EXPECT_EQ(normalized(R"({"type": "NFKC"})", "\uFB01\u2460"), "fi1");
  EXPECT_EQ(normalized(R"({"type": "NFKD"})", "\u1E9B\u0323"), "s\u0323\u0307");
}

TEST(Normalizers, TreatBertsTextAsBertDoes) {
  EXPECT_EQ(normalized(R"({"type": "BertNormalizer"})", "H\u00C9LLO\t\u4E2D\u200Bx"), "hello  \u4E2D x");
  EXPECT_EQ(normalized(R"({"type": "BertNormalizer", "lowercase": false})", "\u00C9A"), "\u00C9A");
}

TEST(Normalizers, ChangeWhatTheySay) {
  EXPECT_EQ(normalized(R"({"type": "Lowercase"})", "\u0130\u03A3A"), "i\u0307\u03C3a");
  EXPECT_EQ(normalized(R"({"type": "Strip"})", " \u3000a b\n"), "a b");
  EXPECT_EQ(normalized(R"({"type": "Replace", "pattern": {"String": " "}, "content": "_"})", "a b"), "a_b");
  EXPECT_EQ(normalized(R"({"type": "Prepend", "prepend": "_"})", "a"), "_a");
  EXPECT_EQ(normalized(R"({"type": "Prepend", "prepend": "_"})", ""), "");
}

TEST(PreTokenizers, CutWhereTheySay) {
  EXPECT_EQ(pieces(R"({"type": "Whitespace"})", "Hi there, you!"), (Strings{"Hi", "there", ",", "you", "!"}));
  EXPECT_EQ(pieces(R"({"type": "WhitespaceSplit"})", " a  b,"), (Strings{"a", "b,"}));
  EXPECT_EQ(pieces(R"({"type": "BertPreTokenizer"})", "it's ok"), (Strings{"it", "'", "s", "ok"}));
  EXPECT_EQ(pieces(R"({"type": "Digits", "individual_digits": true})", "a12"), (Strings{"a", "1", "2"}));
  EXPECT_EQ(pieces(R"({"type": "Digits", "individual_digits": false})", "a12"), (Strings{"a", "12"}));
  EXPECT_EQ(pieces(R"({"type": "ByteLevel", "add_prefix_space": true})", "a b"),
            (Strings{"\u0120a", "\u0120b"}));
  EXPECT_EQ(pieces(R"({"type": "Metaspace"})", "a b"), (Strings{"\u2581a", "\u2581b"}));
  EXPECT_EQ(pieces(R"({"type": "Metaspace", "prepend_scheme": "never"})", "a b"), (Strings{"a", "\u2581b"}));
}

TEST(PreTokenizers, SplitInFiveWays) {
  const auto split = [](const char* behaviour) {
    const std::string text = fmt::format(
        R"({{"type": "Split", "pattern": {{"String": "-"}}, "behavior": "{}", "invert": false}})", behaviour);
    return pieces(text.c_str(), "the-final--countdown");
  };
  EXPECT_EQ(split("Removed"), (Strings{"the", "final", "countdown"}));
  EXPECT_EQ(split("Isolated"), (Strings{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split("MergedWithPrevious"), (Strings{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split("MergedWithNext"), (Strings{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split("Contiguous"), (Strings{"the", "-", "final", "--", "countdown"}));
  EXPECT_THROW(split("Sideways"), Error);
}

TEST(Decoders, PutTogetherWhatWasCut) {
  EXPECT_EQ(decoded(R"({"type": "WordPiece"})", {"he", "##llo", "."}), (Strings{"he", "llo", "."}));
  EXPECT_EQ(decoded(R"({"type": "ByteLevel"})", {"\u0120a", "\u00C3", "\u00A9"}), (Strings{" a\u00E9"}));
  EXPECT_EQ(decoded(R"({"type": "Metaspace"})", {"\u2581a", "\u2581b"}), (Strings{"a", " b"}));
  EXPECT_EQ(decoded(R"({"type": "ByteFallback"})", {"<0xC3>", "<0xA9>", "x", "<0xC3>"}),
            (Strings{"\u00E9", "x", "\uFFFD"}));
  EXPECT_EQ(decoded(R"({"type": "Strip", "content": " ", "start": 1, "stop": 0})", {"  a"}), (Strings{" a"}));
  EXPECT_EQ(decoded(R"({"type": "BPEDecoder"})", {"a</w>", "b</w>"}), (Strings{"a ", "b"}));
}

TEST(AddedTokens, AreFoundLongestFirst) {
  const AddedToken shorter{.id = 1, .content = "[X]"}, longer{.id = 2, .content = "[X][Y]"};
  TokenFinder finder;
  finder.add(shorter.content, &shorter);
  finder.add(longer.content, &longer);
  std::string found;
  finder.split("a[X][Y][X]b", [&](std::string_view text, const AddedToken* token) {
    found += token ? std::to_string(token->id) : std::string(text);
  });
  EXPECT_EQ(found, "a21b");
}

TEST(AddedTokens, TakeWhiteSpaceAlongOrNeedWordsEnds) {
  const AddedToken mask{.id = 1, .content = "<m>", .lstrip = true, .rstrip = true};
  const AddedToken word{.id = 2, .content = "ab", .single_word = true};
  TokenFinder finder;
  finder.add(mask.content, &mask);
  finder.add(word.content, &word);
  std::string found;
  finder.split("x  <m>\ny ab abc", [&](std::string_view text, const AddedToken* token) {
    found += token ? fmt::format("[{}]", token->id) : std::string(text);
  });
  EXPECT_EQ(found, "x[1]y [2] abc");
}

TEST(PostProcessors, SurroundOneTextOrTwo) {
  const Json json =
      parse_json(R"({"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]})", "test");
  const PostProcessor bert(JsonPart(json, "test"));
  const std::vector<int32_t> a = {7}, b = {8, 9};
  EXPECT_EQ(bert.process(a, true).ids, (std::vector<int32_t>{1, 7, 2}));
  EXPECT_EQ(bert.process(a, b, true).ids, (std::vector<int32_t>{1, 7, 2, 8, 9, 2}));
  EXPECT_EQ(bert.process(a, b, true).type_ids, (std::vector<int32_t>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(bert.process(a, b, false).ids, (std::vector<int32_t>{7, 8, 9}));
}

TEST(Unicode, KnowsItsClasses) {
  EXPECT_TRUE(is_in(U'\u00E9', kLetter | kNumber));
  EXPECT_TRUE(is_in(U'\u3000', kSpace));
  EXPECT_FALSE(is_in(U'\u180E', kSpace));
  EXPECT_TRUE(is_in(U'$', kPunctuation));
  EXPECT_TRUE(is_in(U'\u4E2D', kIdeograph));
  EXPECT_FALSE(is_in(kInvalidCharacter, 0xFFFF));
}

}  // namespace
}  // namespace saccade
