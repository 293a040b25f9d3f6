#include "saccade/generate/translation.h"

#include <gmock/gmock.h>

#include "saccade/base/testing.h"
#include "saccade/models/initialise.h"
#include "saccade/text/bpe_trainer.h"

namespace saccade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A model with random weights says nothing, but always the same.
Transformer random_translator(bool learned_positions = false) {
  Architecture a;
  a.family = "saccade";
  a.vocabulary = 257;
  a.width = 32;
  a.layers = a.encoder_layers = 2;
  a.heads = a.kv_heads = 4;
  a.head_dim = 8;
  a.inner = 48;
  a.context = 40;
  a.learned_positions = learned_positions;
  if (!learned_positions) a.rotary = RotaryOptions{};
  Transformer model(a);
  initialise(model, {.seed = 5, .deviation = 0.35});
  model->to(torch::kDouble);  // ties would be decided by rounding otherwise
  model->eval();
  return model;
}

PairEncoder bytes() { return PairEncoder(BpeTrainer({.vocabulary_size = 257}).train()); }

const std::vector<std::string>& some_lines() {
  static const std::vector<std::string> lines{"a house", "",  "one two three four", "x",
                                              "   ",     "ü", "the end of it all.", "\xff\xfe"};
  return lines;
}

std::vector<std::string> best(const std::vector<LineTranslation>& lines) {
  std::vector<std::string> texts;
  for (const LineTranslation& line : lines) texts.push_back(line.texts.front());
  return texts;
}

TEST(Translate, BatchSizeChangesNothing) {
  const Transformer model = random_translator();
  for (const int64_t beams : {1, 3}) {
    TranslationOptions options{.beams = beams, .n_best = beams, .batch_size = 1, .max_new_tokens = 12};
    const std::vector<LineTranslation> alone = translate(model, bytes(), some_lines(), options);
    for (const int64_t size : {2, 3, 100}) {
      options.batch_size = size;
      const std::vector<LineTranslation> together = translate(model, bytes(), some_lines(), options);
      for (size_t line = 0; line < alone.size(); ++line) {
        EXPECT_EQ(together[line].texts, alone[line].texts) << line;
        for (size_t rank = 0; rank < alone[line].scores.size(); ++rank)
          EXPECT_NEAR(together[line].scores[rank], alone[line].scores[rank], 1e-9);
      }
    }
  }
}

TEST(Translate, OneBeamIsGreedy) {
  const torch::NoGradGuard no_gradient;
  Transformer model = random_translator();
  const PairEncoder encoder = bytes();
  const std::string line = "a house";
  const std::vector<int32_t> source_ids = encoder.source(line);
  const at::Tensor source =
      torch::tensor(std::vector<int64_t>(source_ids.begin(), source_ids.end())).unsqueeze(0);
  std::vector<int64_t> ids{encoder.begin()};
  std::vector<int32_t> found;
  while (found.size() < 15) {
    const at::Tensor hidden =
        model->forward({.ids = torch::tensor(ids).unsqueeze(0), .source = source, .last_only = true});
    ids.push_back(model->logits(hidden).argmax().item<int64_t>());
    if (ids.back() == encoder.end()) break;
    found.push_back(static_cast<int32_t>(ids.back()));
  }
  EXPECT_THAT(best(translate(model, encoder, std::vector{line}, {.beams = 1, .max_new_tokens = 15})),
              ElementsAre(encoder.line(found)));
}

TEST(Translate, MoreBeamsFindNothingLessLikely) {
  const Transformer model = random_translator();
  const TranslationOptions greedy{.beams = 1, .length_penalty = 0, .max_new_tokens = 8},
      wide{.beams = 8, .n_best = 8, .length_penalty = 0, .max_new_tokens = 8};
  const auto one = translate(model, bytes(), some_lines(), greedy),
             many = translate(model, bytes(), some_lines(), wide);
  for (size_t line = 0; line < one.size(); ++line) {
    EXPECT_GE(many[line].scores.front(), one[line].scores.front() - 1e-9);
    EXPECT_TRUE(std::ranges::is_sorted(many[line].scores, std::greater()));
  }
  EXPECT_THAT(many[0].texts, SizeIs(8));
}

TEST(Translate, AsManyLinesAsThereWere) {
  const auto found = translate(random_translator(), bytes(), some_lines(), {.beams = 2, .max_new_tokens = 5});
  ASSERT_EQ(found.size(), some_lines().size());
  EXPECT_EQ(found[1].texts, std::vector<std::string>{""});
  EXPECT_EQ(found[4].texts, std::vector<std::string>{""});
  for (const LineTranslation& line : found) EXPECT_EQ(line.texts.front().find('\n'), std::string::npos);
  EXPECT_TRUE(translate(random_translator(), bytes(), {}, {}).empty());
}

TEST(Translate, LongLinesAreCutAndSaySo) {
  const std::vector<std::string> lines{std::string(100, 'a'), "short"};
  for (const bool learned : {false, true}) {
    const auto found = translate(random_translator(learned), bytes(), lines, {.beams = 1});
    EXPECT_EQ(found[0].source_tokens, 101);
    EXPECT_EQ(found[0].read_tokens, 40);
    EXPECT_EQ(found[1].read_tokens, 6);
  }
  const auto whole = translate(random_translator(), bytes(), lines, {.beams = 1, .extend = true});
  EXPECT_EQ(whole[0].read_tokens, 101);
  EXPECT_THAT(message_of([&] { translate(random_translator(true), bytes(), lines, {.extend = true}); }),
              HasSubstr("learned positions end at 40"));
}

TEST(Translate, AModelWithoutEncoderIsRefused) {
  Architecture a = random_translator()->architecture();
  a.encoder_layers = 0;
  EXPECT_THAT(message_of([&] { translate(Transformer(a), bytes(), some_lines(), {}); }),
              HasSubstr("has no encoder"));
}

}  // namespace
}  // namespace saccade
