// What must hold of BLEU whoever counts it; that the numbers are those of sacreBLEU is for
// tests/bleu_test.py.
#include "saccade/evaluate/bleu.h"

#include <gmock/gmock.h>

#include "saccade/base/random.h"
#include "saccade/base/testing.h"
#include "saccade/evaluate/chrf.h"
#include "saccade/evaluate/significance.h"

namespace saccade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Bleu bleu(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references) {
  return corpus_bleu(hypotheses, std::vector<std::vector<std::string>>{references});
}

TEST(BleuWords, CutsWhatTheNamesSay) {
  EXPECT_THAT(bleu_words("He said: \"3.5%, no.\"", BleuTokens::mteval_13a),
              ElementsAre("He", "said", ":", "\"", "3.5", "%", ",", "no", ".", "\""));
  EXPECT_THAT(bleu_words("1990-2000 &amp; a-b", BleuTokens::mteval_13a),
              ElementsAre("1990", "-", "2000", "&", "a-b"));
  EXPECT_THAT(bleu_words("«Ja!» 5€", BleuTokens::international), ElementsAre("«", "Ja", "!", "»", "5", "€"));
  EXPECT_THAT(bleu_words("aß b", BleuTokens::characters), ElementsAre("a", "ß", "b"));
  EXPECT_THAT(bleu_words(" a,  b ", BleuTokens::none), ElementsAre("a,", "b"));
}

TEST(Bleu, OfTheReferenceItselfIsAHundred) {
  const std::vector<std::string> lines{"the cat sat on the mat .", "a second line of five"};
  EXPECT_NEAR(bleu(lines, lines).score, 100, 1e-9);
  EXPECT_NEAR(corpus_chrf(lines, std::vector<std::vector<std::string>>{lines}), 100, 1e-9);
}

TEST(Bleu, ARepeatedWordCountsAsOftenAsTheReferenceHasIt) {
  const Bleu found = bleu({"the the the the"}, {"the cat the mat"});
  EXPECT_EQ(found.counts.correct[0], 2);
  EXPECT_EQ(found.counts.total[0], 4);
}

TEST(Bleu, ShortTranslationsArePenalised) {
  EXPECT_NEAR(bleu({"a b c d e"}, {"a b c d e f g h i j"}).brevity_penalty, std::exp(-1), 1e-12);
  EXPECT_EQ(bleu({""}, {"a b"}).score, 0);
}

TEST(Bleu, SaysWhatDoesNotGoTogether) {
  EXPECT_THAT(message_of([] {
                bleu({"a", "b"}, {"a"});
              }),
              HasSubstr("2 lines of translation and 1 line of reference"));
  EXPECT_THAT(message_of([] { bleu({}, {}); }), HasSubstr("no line"));
  EXPECT_THAT(message_of([] { bleu_tokens_named("13b"); }), HasSubstr("did you mean '13a'?"));
}

// Translations that get each word right with some probability.
std::vector<BleuCounts> noisy(double right, uint64_t seed) {
  RandomStream words(1, "words"), errors(seed, "errors");
  std::vector<std::string> hypotheses, references;
  for (int line = 0; line < 150; ++line) {
    std::string hypothesis, reference;
    for (int word = 0; word < 12; ++word) {
      const std::string next = fmt::format("w{} ", words.below(50));
      reference += next;
      hypothesis += errors.uniform() < right ? next : "x ";
    }
    hypotheses.push_back(hypothesis);
    references.push_back(reference);
  }
  return count_corpus(hypotheses, std::vector<std::vector<std::string>>{references}, {});
}

TEST(PairedBootstrap, FindsALargeDifferenceAndNoneBetweenEquals) {
  const std::vector<BleuCounts> good = noisy(0.9, 1), bad = noisy(0.7, 1), same = noisy(0.9, 2);
  const PairedBootstrap far = paired_bootstrap(bad, good, {});
  EXPECT_GT(far.difference, 10);
  EXPECT_LT(far.p, 0.005);
  EXPECT_LT(far.lower, far.difference);
  EXPECT_GT(far.upper, far.difference);
  EXPECT_GT(paired_bootstrap(good, same, {}).p, 0.05);
  EXPECT_EQ(paired_bootstrap(good, good, {}).p, 1);
  EXPECT_NEAR(paired_bootstrap(good, bad, {}).difference, -far.difference, 1e-9);
}

}  // namespace
}  // namespace saccade
