// Facts about the measurements beyond perplexity. Readers that copy, or see only so far back, stand for
// models: what they must find and must miss is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/evaluate/classification.h"
#include "saccade/evaluate/corruption.h"
#include "saccade/evaluate/masked.h"
#include "saccade/evaluate/retrieval.h"
#include "saccade/evaluate/robustness.h"
#include "saccade/evaluate/testing.h"

namespace saccade {
namespace {

// Looks for the longest repetition of what it has just read, `sight` tokens back at most, and says what came
// next there.
int32_t copied(const std::vector<int32_t>& ids, int64_t row, int64_t sight) {
  int64_t best = 0;
  int32_t answer = -1;
  for (int64_t place = std::max<int64_t>(0, row - sight); place < row; ++place) {
    int64_t length = 0;
    while (length <= place &&
           ids[static_cast<size_t>(place - length)] == ids[static_cast<size_t>(row - length)])
      ++length;
    if (length > best) {
      best = length;
      answer = ids[static_cast<size_t>(place + 1)];
    }
  }
  return answer;
}

Reader copying_reader(int64_t sight = 1 << 30) {
  return [sight](std::span<const Sequence> sequences) {
    Answers result;
    for (const Sequence& sequence : sequences) {
      result.emplace_back();
      for (const Question& question : sequence.questions)
        result.back().push_back({0, copied(sequence.ids, question.row, sight) == question.answer});
    }
    return result;
  };
}

const std::string kText =
    "The ferry leaves at nine and is back by noon. Whoever misses it has time to walk around the island, "
    "past the "
    "lighthouse and the two farms, and to sit in the dunes until the next one comes. There is no other way "
    "over.";

TEST(Retrieval, AModelThatCopiesFindsAll) {
  const Retrieval result = measure_retrieval(copying_reader(), byte_tokenizer(),
                                             {.context = 1024, .lengths = {384, 1024}, .trials = 3});
  EXPECT_EQ(result.passkey.size(), 10u);
  for (const RetrievalCell& cell : result.passkey) {
    EXPECT_EQ(cell.asked, 3);
    EXPECT_EQ(cell.found, 3) << cell.length << " " << cell.depth;
  }
  EXPECT_EQ(result.recall.front().length, 4);
  EXPECT_EQ(result.recall.back().length, 32);  // 64 pairs do not fit
  int64_t asked = 0;
  for (const RetrievalCell& cell : result.recall) {
    EXPECT_EQ(cell.found, cell.asked) << cell.length << " " << cell.depth;
    asked += cell.asked;
  }
  EXPECT_EQ(asked, 3 * (4 + 8 + 16 + 32));
}

TEST(Retrieval, DepthIsHowFarOneHasToLookBack) {
  const Retrieval result =
      measure_retrieval(copying_reader(150), byte_tokenizer(), {.context = 1024, .lengths = {1024}});
  for (const RetrievalCell& cell : result.passkey)
    EXPECT_EQ(cell.found, cell.depth == 1 ? 5 : 0) << cell.depth;
}

TEST(Retrieval, CasesFillTheirLength) {
  const Tokenizer tokenizer = byte_tokenizer();
  for (const int64_t length : {300, 512, 2000}) {
    const Sequence sequence = passkey_case(tokenizer, length, 0.5, RandomStream(1, "case"));
    EXPECT_LE(static_cast<int64_t>(sequence.ids.size()), length);
    EXPECT_GT(static_cast<int64_t>(sequence.ids.size()), length - 80);
    EXPECT_EQ(sequence.questions.size(), 6u);  // a space and five digits
  }
  EXPECT_THROW(passkey_case(tokenizer, 100, 0.5, RandomStream(1, "case")), Error);
  EXPECT_THROW(recall_case(tokenizer, 65, RandomStream(1, "case")), Error);
}

TEST(Corruption, HitsAboutAsOftenAsTheRate) {
  const std::vector<int32_t> ids = random_ids(4000, 1 << 20, 1);
  EXPECT_NEAR(static_cast<double>(drop_tokens(ids, 0.2, RandomStream(1, "drop")).size()), 3200, 100);
  const std::vector<int32_t> swapped = swap_tokens(ids, 0.1, RandomStream(1, "swap"));
  int64_t moved = 0;
  for (size_t place = 0; place < ids.size(); ++place) moved += ids[place] != swapped[place] ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(moved), 4000 * 2 * 0.1 / 1.1, 80);
  EXPECT_THAT(swapped, testing::UnorderedElementsAreArray(ids));
}

TEST(Corruption, NeverHitsAtRateNought) {
  const std::vector<int32_t> ids = random_ids(50, 64, 2);
  EXPECT_EQ(drop_tokens(ids, 0, RandomStream(1, "drop")), ids);
  EXPECT_EQ(swap_tokens(ids, 0, RandomStream(1, "swap")), ids);
  EXPECT_EQ(add_typos(kText, 0, RandomStream(1, "typos")), kText);
}

TEST(Corruption, TyposKeepCharactersWholeAndSpacesInPlace) {
  const std::string text = "Größe \u4f60\u597d \U0001F600 naïve";
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::string hit = add_typos(text, 0.5, RandomStream(seed, "typos"));
    EXPECT_EQ(std::ranges::count(hit, ' '), 3) << "seed " << seed << ": " << hit;
    EXPECT_EQ(hit.find("\xEF\xBF\xBD"), std::string::npos);
  }
  EXPECT_NE(add_typos(kText, 0.1, RandomStream(1, "typos")), kText);
}

TEST(Robustness, AllPointsScoreTheSameCleanTokens) {
  const Tokenizer tokenizer = byte_tokenizer();
  const EncodedText text = encode_text(tokenizer, kText, "text");
  std::vector<std::string> asked;
  const Reader reader = [&](std::span<const Sequence> sequences) {
    Answers answers;
    for (const Sequence& sequence : sequences) {
      EXPECT_LE(sequence.ids.size(), 60u);
      std::vector<int32_t> ids;
      for (const Question& question : sequence.questions) {
        EXPECT_EQ(sequence.ids[static_cast<size_t>(question.row + 1)], question.answer);
        ids.push_back(question.answer);
      }
      asked.push_back(tokenizer.decode(ids));
      answers.emplace_back(sequence.questions.size());
    }
    return answers;
  };
  const Robustness result = measure_robustness(reader, tokenizer, std::span(&text, 1),
                                               {.context = 60, .windows = 1, .rates = {0, 0.2, 1}});
  EXPECT_EQ(result.points.size(), 10u);
  for (const std::string& clean : asked) EXPECT_EQ(clean, kText.substr(30, 30));
}

TEST(Robustness, OfABatchIsThatOfItsWindowsOneByOne) {
  const Tokenizer tokenizer = byte_tokenizer();
  const EncodedText text = encode_text(tokenizer, kText, "text");
  Transformer model = random_transformer(small_architecture(257));
  model->to(torch::kDouble);
  const RobustnessOptions options{.context = 40, .batch_size = 5};
  const Robustness batch = measure_robustness(reader_of(model, 5), tokenizer, std::span(&text, 1), options);
  const Robustness alone = measure_robustness(reader_of(model, 1), tokenizer, std::span(&text, 1), options);
  for (size_t point = 0; point < batch.points.size(); ++point) {
    EXPECT_EQ(batch.points[point].scored.tokens, 5 * 20);
    EXPECT_NEAR(batch.points[point].scored.mean_nll(), alone.points[point].scored.mean_nll(), 1e-12);
  }
}

TEST(Masked, HidesTheTokensThatItAsksFor) {
  const Tokenizer tokenizer = BpeTrainer({.vocabulary_size = 257, .special_tokens = {"[MASK]"}}).train();
  const EncodedText text = encode_text(tokenizer, kText, "text");
  std::vector<int32_t> restored;
  int64_t asked = 0;
  const Reader reader = [&](std::span<const Sequence> sequences) {
    Answers answers;
    for (Sequence sequence : std::vector<Sequence>(sequences.begin(), sequences.end())) {
      for (const Question& question : sequence.questions) {
        EXPECT_EQ(sequence.ids[static_cast<size_t>(question.row)], 0);
        sequence.ids[static_cast<size_t>(question.row)] = question.answer;
      }
      asked += static_cast<int64_t>(sequence.questions.size());
      restored.insert(restored.end(), sequence.ids.begin(), sequence.ids.end());
      answers.emplace_back(sequence.questions.size());
    }
    return answers;
  };
  const Masked result = measure_masked(reader, tokenizer, std::span(&text, 1), {.context = 32});
  EXPECT_EQ(restored, text.ids);
  EXPECT_EQ(result.scored.tokens, asked);
  EXPECT_NEAR(static_cast<double>(asked) / static_cast<double>(text.ids.size()), 0.15, 0.06);
  EXPECT_THROW(measure_masked(reader, byte_tokenizer(), std::span(&text, 1), {}), Error);
}

TEST(Masked, OfABatchIsThatOfItsWindowsOneByOne) {
  const Tokenizer tokenizer = BpeTrainer({.vocabulary_size = 257, .special_tokens = {"[MASK]"}}).train();
  Architecture architecture = small_architecture(257);
  architecture.head = HeadKind::masked_model;
  architecture.causal = false;
  architecture.order = BlockOrder::norm_after;
  architecture.learned_positions = true;
  architecture.rotary.reset();
  Transformer model = random_transformer(architecture);
  model->to(torch::kDouble);
  const EncodedText text = encode_text(tokenizer, kText, "text");
  const MaskedOptions options{.context = 50, .batch_size = 8};
  const Masked batch = measure_masked(reader_of(model, 8), tokenizer, std::span(&text, 1), options);
  const Masked alone = measure_masked(reader_of(model, 1), tokenizer, std::span(&text, 1), options);
  EXPECT_NEAR(batch.scored.mean_nll(), alone.scored.mean_nll(), 1e-12);
  EXPECT_EQ(batch.scored.correct, alone.scored.correct);
}

TEST(Classification, CountsByHand) {
  const std::vector<int64_t> truth = {0, 0, 1, 1, 2}, predicted = {0, 1, 1, 1, 0};
  const Classification result = compare_labels(truth, predicted, 4);
  EXPECT_EQ(result.confusion[0], (std::vector<int64_t>{1, 1, 0, 0}));
  EXPECT_DOUBLE_EQ(result.accuracy(), 0.6);
  const std::vector<LabelScore> scores = result.scores();
  EXPECT_DOUBLE_EQ(scores[0].f1, 0.5);
  EXPECT_DOUBLE_EQ(scores[1].precision, 2.0 / 3);
  EXPECT_DOUBLE_EQ(scores[1].recall, 1);
  EXPECT_DOUBLE_EQ(scores[1].f1, 0.8);
  EXPECT_DOUBLE_EQ(scores[2].f1, 0);
  EXPECT_DOUBLE_EQ(result.macro_f1(), (0.5 + 0.8 + 0) / 3);  // nobody spoke of label 3
  EXPECT_THROW(compare_labels(truth, predicted, 2), Error);
}

TEST(Classification, ReadsLines) {
  const auto labels_of = [](std::string_view content, std::vector<std::string> names = {}) {
    std::string result;
    for (const LabelledText& each : read_labelled(content, "file", 2, names))
      result += fmt::format("{}={};", each.text, each.label);
    return result;
  };
  EXPECT_EQ(labels_of("good\t1\nbad film\t0\n"), "good=1;bad film=0;");
  EXPECT_EQ(labels_of("label\tsentence\r\n1\tgood\r\n\r\n"), "good=1;");
  EXPECT_EQ(
      labels_of("{\"text\": \"good\", \"label\": 1}\n{\"label\": \"no\", \"text\": \"bad\"}", {"no", "yes"}),
      "good=1;bad=0;");
  for (const char* wrong : {"", "good\n", "good\t2\n", "good\tyes\n", "{\"text\": 1, \"label\": 1}\n",
                            "{\"text\"\n", "a\tlabel\n1\t2\n", "{\"text\": \"a\", \"label\": 1.5}"})
    EXPECT_THROW(labels_of(wrong), Error) << wrong;
}

TEST(Classification, OfABatchIsThatOfItsTextsOneByOne) {
  Architecture architecture = small_architecture(257);
  architecture.head = HeadKind::classifier;
  architecture.labels = 3;
  architecture.causal = false;
  architecture.order = BlockOrder::norm_after;
  Transformer model = random_transformer(architecture);
  model->to(torch::kDouble);
  const std::vector<std::vector<int32_t>> texts = {random_ids(5, 257, 1), random_ids(40, 257, 2),
                                                   random_ids(1, 257, 3), random_ids(17, 257, 4)};
  EXPECT_TRUE(torch::allclose(classify(model, texts, 4), classify(model, texts, 1), 0, 1e-12));
  const std::vector<LabelledText> labelled = {{"a", 0}, {"bcdef", 1}, {std::string(500, 'x'), 2}};
  const Classification result =
      measure_classification(model, byte_tokenizer(), labelled, {.context = 64, .batch_size = 2});
  EXPECT_EQ(result.texts(), 3);
  EXPECT_THROW(reader_of(model)(std::vector<Sequence>{{.ids = {1}}}), Error);
}

}  // namespace
}  // namespace saccade
