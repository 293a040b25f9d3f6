// Measurements whose results are known beforehand, on small models with random weights.
#include "saccade/certify/fidelity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "saccade/base/error.h"
#include "saccade/certify/fidelity_criteria.h"
#include "saccade/evaluate/testing.h"

namespace saccade {
namespace {

using testing::HasSubstr;

constexpr int64_t kBytes = 257;  // tokens of the byte tokenizer

Transformer with_formula(const Transformer& model, const char* formula) {
  Transformer twin(model->twin());
  twin->set_attention(Formula::load(formula));
  return twin;
}

TextModel text_model(const Architecture& architecture, const char* name = "model") {
  return {name, random_transformer(architecture), byte_tokenizer()};
}

std::vector<DataText> some_text() {
  std::string text;
  for (int line = 0; line < 8; ++line)
    text += fmt::format("Line {} says that {} and {} are {}.\n", line, line * 7, line * 3, line * 10);
  return {{"text", text}};
}

std::vector<Sequence> windows(std::initializer_list<int64_t> lengths, int64_t vocabulary = 64) {
  std::vector<Sequence> result;
  for (const int64_t length : lengths) {
    result.push_back({.ids = random_ids(length, vocabulary, static_cast<uint64_t>(length)), .questions = {}});
    result.back().ask_next(0, length);
  }
  return result;
}

FidelityOptions small_options() {
  return {.context = 64, .look_tokens = 64, .memory_lengths = {256}, .speed_rounds = 1};
}

void set(Transformer& model, const std::string& name, double value) {
  const at::NoGradGuard no_gradients;
  model->named_parameters()[name].fill_(value);
}

const Criterion& find(const std::vector<Criterion>& criteria, std::string_view name) {
  return *std::ranges::find(criteria, name, &Criterion::name);
}

TEST(TokenSpread, IsThatOfTheSortedNumbers) {
  std::vector<double> numbers;
  for (int number = 200; number > 0; --number) numbers.push_back(number);
  const TokenSpread spread = spread_of(numbers);
  EXPECT_EQ(spread.mean, 100.5);
  EXPECT_EQ(spread.median, 100);
  EXPECT_EQ(spread.p99, 198);
  EXPECT_EQ(spread.largest, 200);
  EXPECT_EQ(spread_of({3}).p99, 3);
  EXPECT_TRUE(std::isnan(spread_of({}).mean));
  EXPECT_TRUE(std::isnan(spread_of({1, std::nan("")}).median));
}

// With a last norm that gives the same vector whatever comes in, logits are a column of the output matrix.
TEST(TokenFidelity, AKnownChangeOfLogitsGivesItsKl) {
  constexpr int64_t kVocabulary = 64;
  Architecture architecture = small_architecture(kVocabulary);
  architecture.tied = false;
  Transformer baseline = random_transformer(architecture), candidate = random_transformer(architecture);
  for (Transformer* model : {&baseline, &candidate}) {
    set(*model, "norm.weight", 0);
    set(*model, "norm.bias", 1);
    set(*model, "output.weight", 0);
  }
  const double change = 0.01;
  {
    const at::NoGradGuard no_gradients;
    candidate->named_parameters()["output.weight"][5][0] = change;
  }
  const TokenFidelity found = compare_tokens(baseline, candidate, windows({20, 9}));
  const double size = kVocabulary, logit = static_cast<float>(change);
  const double kl = std::log((std::exp(logit) + size - 1) / size) - logit / size;
  ASSERT_EQ(found.tokens(), 19 + 8);
  for (const double each : found.kl) EXPECT_NEAR(each, kl, 1e-12 * kl + 1e-15);
  EXPECT_NEAR(found.baseline.mean_nll(), std::log(size), 1e-12);
}

TEST(TokenFidelity, AModelBesideItselfIsAtNoDistance) {
  Transformer model = random_transformer(small_architecture());
  const TokenFidelity found = compare_tokens(model, Transformer(model->twin()), windows({40, 30}));
  for (const double kl : found.kl) EXPECT_EQ(kl, 0);
  EXPECT_EQ(found.agreement(), 1);
  EXPECT_EQ(found.perplexity_change(), 0);
  EXPECT_EQ(found.baseline.correct, found.candidate.correct);
}

TEST(TokenFidelity, PaddingChangesNothing) {
  const std::vector<Sequence> texts = windows({40, 3, 17, 29, 2});
  // `ape` reads the length of its sequence, which padding would change.
  for (const char* formula : {"last10", "ape"}) {
    Transformer model = random_transformer(small_architecture());
    Transformer candidate = with_formula(model, formula);
    const TokenFidelity alone = compare_tokens(model, candidate, texts, {.batch_size = 1});
    const TokenFidelity together = compare_tokens(model, candidate, texts, {.batch_size = 5});
    ASSERT_EQ(alone.tokens(), 86);
    ASSERT_EQ(together.tokens(), alone.tokens());
    for (size_t index = 0; index < alone.kl.size(); ++index)
      EXPECT_NEAR(together.kl[index], alone.kl[index], 1e-5 * (1 + alone.kl[index])) << formula << index;
    EXPECT_EQ(together.same_top1, alone.same_top1);
    EXPECT_NEAR(together.candidate.nll, alone.candidate.nll, 1e-3);
  }
}

TEST(TokenFidelity, EveryRealPlaceOfAMaskedModelCounts) {
  Architecture architecture = small_architecture();
  architecture.head = HeadKind::masked_model;
  architecture.causal = false;
  Transformer model = random_transformer(architecture);
  std::vector<Sequence> texts = windows({10, 4});
  for (Sequence& text : texts) text.questions.resize(1);
  const TokenFidelity found =
      compare_tokens(model, with_formula(model, "window"), texts, {.all_places = true});
  EXPECT_EQ(found.tokens(), 14);
  EXPECT_EQ(found.baseline.tokens, 2);
}

// Without queries and keys every key gets the same share, so the weights are known.
double uniform_mse(int64_t tokens, int64_t before, int64_t after, int64_t mask) {
  double sum = 0, pairs = 0;
  for (int64_t i = 0; i < tokens; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      const auto weight = [&](int64_t width) {
        return i - j < width ? 1.0 / static_cast<double>(std::min(i + 1, width)) : 0.0;
      };
      sum += std::pow(weight(before) - weight(after), 2);
      pairs += i - j < mask ? 1 : 0;
    }
  return sum / pairs;
}

TEST(MapFidelity, IsTheMeanOverPairsThatTheBaselineAllows) {
  Architecture architecture = small_architecture();
  Transformer model = random_transformer(architecture);
  for (const char* name : {"block_0.projection.weight", "block_1.projection.weight"}) set(model, name, 0);
  const Transformer narrow = with_formula(model, "last10");
  const std::vector<std::vector<int32_t>> texts = {random_ids(30, 64, 1), random_ids(30, 64, 2)};
  for (const LayerMaps& layer : compare_maps(model, narrow, texts).layers) {
    const double expected = uniform_mse(30, 30, 10, 30);
    EXPECT_NEAR(layer.mse, expected, 1e-6 * expected);
    ASSERT_EQ(layer.heads.size(), 4);
    EXPECT_NEAR(layer.heads[3], expected, 1e-6 * expected);
  }
  // The other way round the candidate looks at pairs that the mask hides, and they count.
  const double expected = uniform_mse(30, 10, 30, 10);
  EXPECT_NEAR(compare_maps(narrow, model, texts).mse(), expected, 1e-6 * expected);
  const MapFidelity same = compare_maps(model, Transformer(model->twin()), texts);
  EXPECT_EQ(same.mse(), 0);
  EXPECT_EQ(same.relative(), 0);
}

TEST(GradientFidelity, OfAModelBesideItselfIsOne) {
  Transformer model = random_transformer(small_architecture());
  for (const at::Tensor& parameter : model->parameters()) parameter.set_requires_grad(false);
  const GradientFidelity same = compare_gradients(model, Transformer(model->twin()), windows({20, 12}));
  EXPECT_EQ(same.lowest(), 1);
  EXPECT_EQ(same.mean(), 1);
  EXPECT_EQ(same.baseline_loss, same.candidate_loss);
  for (const at::Tensor& parameter : model->parameters()) EXPECT_FALSE(parameter.requires_grad());
}

TEST(GradientFidelity, SeesAnotherAttentionInEveryLayer) {
  Transformer model = random_transformer(small_architecture());
  const GradientFidelity found = compare_gradients(model, with_formula(model, "last10"), windows({40}));
  ASSERT_EQ(found.layers.size(), 2);
  for (const LayerCosines& layer : found.layers)
    for (const double cosine :
         {layer.input, layer.weights, layer.query, layer.key, layer.value, layer.output}) {
      EXPECT_LT(cosine, 0.9999);
      EXPECT_GT(cosine, -1);
    }
}

TEST(EmbeddingFidelity, PaddingChangesNothing) {
  Architecture architecture = small_architecture();
  architecture.head = HeadKind::none;
  architecture.causal = false;
  Transformer model = random_transformer(architecture);
  Transformer candidate(model->twin());
  candidate->set_attention(Formula::load("window", {{"w", 4}}));
  std::vector<std::vector<int32_t>> texts;
  for (const Sequence& text : windows({40, 3, 17, 29, 2})) texts.push_back(text.ids);
  const EmbeddingFidelity alone = compare_embeddings(model, candidate, texts, 1),
                          together = compare_embeddings(model, candidate, texts, 5);
  for (size_t index = 0; index < texts.size(); ++index)
    EXPECT_NEAR(together.cosines[index], alone.cosines[index], 1e-5);
  EXPECT_NEAR(together.hidden_distance, alone.hidden_distance, 1e-5);
  EXPECT_GT(alone.hidden_distance, 0.01);
  EXPECT_EQ(together.tokens, 91);
  const EmbeddingFidelity same = compare_embeddings(model, Transformer(model->twin()), texts);
  EXPECT_NEAR(same.mean_cosine(), 1, 1e-12);
  EXPECT_EQ(same.hidden_distance, 0);
  EXPECT_EQ(same.neighbour_agreement(), 1);
}

TEST(MemoryFidelity, TheNaivePathHoldsMaps) {
  Transformer model = random_transformer(small_architecture());
  const std::vector<int64_t> lengths = {256};
  const MemoryFidelity found =
      compare_memory(model, with_formula(model, "last10"), random_ids(100, 64, 1), lengths);
  ASSERT_EQ(found.points.size(), 2);
  for (const MemoryPoint& point : found.points) {
    ASSERT_TRUE(point.naive);
    EXPECT_GE(point.naive->attention, 4 * 256 * 256 * 4);
    EXPECT_LT(point.dense.attention, point.naive->attention);
    EXPECT_GT(point.candidate.process, point.candidate.attention);
  }
  EXPECT_GT(found.points[1].naive->attention, found.points[0].naive->attention);
  EXPECT_GT(found.least_saving(true), 0.3);
  EXPECT_EQ(model->block(1)->attention->options().path, Path::automatic);
}

TEST(MemoryFidelity, LearnedPositionsEnd) {
  Architecture architecture = small_architecture();
  architecture.learned_positions = true;
  architecture.rotary.reset();
  Transformer model = random_transformer(architecture);
  const std::vector<int64_t> lengths = {64, 256};
  const MemoryFidelity found =
      compare_memory(model, Transformer(model->twin()), random_ids(100, 64, 1), lengths);
  EXPECT_EQ(found.points.size(), 2);
  EXPECT_THAT(found.remarks, testing::ElementsAre("256 tokens were left out: learned positions end at 128"));
}

TEST(Fidelity, AModelBesideItselfPassesEverything) {
  TextModel model = text_model(small_architecture(kBytes));
  TextModel twin{"twin", Transformer(model.model->twin()), model.tokenizer};
  const Fidelity found = measure_fidelity(model, twin, some_text(), small_options());
  const std::vector<Criterion> criteria = judge(found, {.max_perplexity_change = 0});
  EXPECT_TRUE(passed(criteria)) << verdict_of(criteria);
  for (const Criterion& each : criteria) EXPECT_NE(each.verdict, Verdict::not_applicable) << each.name;
  EXPECT_EQ(*find(criteria, "next_token_kl").value, 0);
  EXPECT_EQ(*find(criteria, "gradient_cosine").value, 1);
  EXPECT_EQ(*find(criteria, "attention_mse").value, 0);
  EXPECT_EQ(found.speed->baseline_cache, found.speed->candidate_cache);
  EXPECT_EQ(*found.speed->baseline_cache, 2 * 2 * 2 * 8 * sizeof(float));  // layers, k and v, heads, width
}

TEST(Fidelity, TenTokensAreNotEnough) {
  TextModel model = text_model(small_architecture(kBytes));
  TextModel candidate{"last10", with_formula(model.model, "last10"), model.tokenizer};
  FidelityOptions options = small_options();
  options.memory_lengths.clear();
  const Fidelity found = measure_fidelity(model, candidate, some_text(), options);
  const std::vector<Criterion> criteria = judge(found, {});
  EXPECT_FALSE(passed(criteria));
  for (const char* name : {"same_top1", "attention_mse", "gradient_cosine", "next_token_kl"})
    EXPECT_EQ(find(criteria, name).verdict, Verdict::failed) << name;
  EXPECT_THAT(verdict_of(criteria), HasSubstr("not certified"));
  // The model that was given is still itself.
  EXPECT_EQ(model.model->formula(0).name(), small_architecture(kBytes).formula(0).name());

  // Thresholds are honoured: at the value a criterion passes, and fails just beyond it.
  const double kl = *find(criteria, "next_token_kl").value, cosine = *find(criteria, "gradient_cosine").value;
  const auto verdicts = [&](const FidelityThresholds& thresholds) {
    const std::vector<Criterion> judged = judge(found, thresholds);
    return std::pair{find(judged, "next_token_kl").verdict, find(judged, "gradient_cosine").verdict};
  };
  EXPECT_EQ(verdicts({.min_gradient_cosine = cosine, .max_kl = kl}),
            std::pair(Verdict::passed, Verdict::passed));
  EXPECT_EQ(verdicts({.min_gradient_cosine = cosine + 1e-9, .max_kl = kl * (1 - 1e-9)}),
            std::pair(Verdict::failed, Verdict::failed));
  EXPECT_TRUE(passed(
      judge(found, {.min_accuracy = -1, .max_attention_mse = 1, .min_gradient_cosine = -1, .max_kl = 100})));
}

TEST(Fidelity, WhatIsNotANumberFails) {
  TextModel model = text_model(small_architecture(kBytes));
  TextModel broken = text_model(small_architecture(kBytes));
  set(broken.model, "block_1.output.weight", std::nan(""));
  FidelityOptions options = small_options();
  options.memory_lengths.clear();
  const std::vector<Criterion> criteria = judge(measure_fidelity(model, broken, some_text(), options), {});
  EXPECT_EQ(find(criteria, "next_token_kl").verdict, Verdict::failed);
  EXPECT_EQ(find(criteria, "gradient_cosine").verdict, Verdict::failed);
}

TEST(Fidelity, AnEncoderIsHeldToItsEmbeddings) {
  Architecture architecture = small_architecture(kBytes);
  architecture.head = HeadKind::none;
  architecture.causal = false;
  TextModel model = text_model(architecture);
  TextModel twin{"twin", Transformer(model.model->twin()), model.tokenizer};
  const Fidelity found = measure_fidelity(model, twin, some_text(), small_options());
  EXPECT_EQ(found.embeddings->texts, 8);
  const std::vector<Criterion> criteria = judge(found, {});
  EXPECT_TRUE(passed(criteria)) << verdict_of(criteria);
  EXPECT_EQ(find(criteria, "same_neighbour").verdict, Verdict::passed);
  EXPECT_EQ(find(criteria, "gradient_cosine").verdict, Verdict::not_applicable);
}

std::string message(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Fidelity, SaysWhatCannotBeCompared) {
  TextModel model = text_model(small_architecture(kBytes));
  const auto compare = [&](TextModel other, const std::vector<DataText>& texts) {
    return message([&] { measure_fidelity(model, other, texts, small_options()); });
  };
  EXPECT_THAT(compare(text_model(small_architecture(300), "other"), some_text()),
              HasSubstr("model has 257 tokens and other has 300; expected the same vocabulary"));
  Architecture headless = small_architecture(kBytes);
  headless.head = HeadKind::none;
  EXPECT_THAT(compare(text_model(headless, "other"), some_text()),
              HasSubstr("model predicts the next token and other has no head"));
  EXPECT_THAT(compare(model, {{"short.txt", "a"}}), HasSubstr("1 token in the text; expected at least 2"));
  EXPECT_THAT(compare(model, {{"empty.txt", " \n"}}), HasSubstr("empty.txt: it is empty"));
  EXPECT_THAT(compare(model, {}), HasSubstr("no text"));
}

TEST(Fidelity, ModelsOfOtherShapesAreComparedByTheirTokensAlone) {
  TextModel model = text_model(small_architecture(kBytes));
  Architecture deeper = small_architecture(kBytes);
  deeper.layers = 3;
  TextModel other = text_model(deeper, "other");
  const std::vector<Criterion> criteria =
      judge(measure_fidelity(model, other, some_text(), small_options()), {});
  EXPECT_THAT(find(criteria, "attention_mse").measured,
              HasSubstr("the baseline has 2 layers and the candidate 3"));
  EXPECT_EQ(find(criteria, "next_token_kl").verdict, Verdict::failed);
  EXPECT_THAT(verdict_of(criteria), HasSubstr("not measured: attention MSE, gradient cosine"));
}

}  // namespace
}  // namespace saccade
