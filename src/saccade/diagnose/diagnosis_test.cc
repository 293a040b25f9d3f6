#include "saccade/diagnose/diagnosis.h"

#include <gmock/gmock.h>

#include "saccade/base/testing.h"
#include "saccade/diagnose/testing.h"

namespace saccade {
namespace {

using at::Tensor;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Diagnosis, LooksAtEveryLayerAndHead) {
  Transformer model = random_model(small_architecture());
  const Diagnosis found = diagnose(model, some_ids(3, 12));
  EXPECT_EQ(found.batch, 3);
  EXPECT_EQ(found.tokens, 12);
  std::vector<std::string> places;
  for (const auto& place : found.ranks) places.push_back(place.after);
  EXPECT_THAT(places, ::testing::ElementsAre("embedding", "block 0", "block 1", "last norm"));
  ASSERT_EQ(found.layers.size(), 2u);
  for (const LayerDiagnosis& layer : found.layers) {
    ASSERT_EQ(layer.weights->heads.size(), 4u);
    EXPECT_EQ(layer.weights->rows, 3 * 11);
    for (const HeadWeights& head : layer.weights->heads) EXPECT_NEAR(head.row_sum, 1, 1e-5);
    EXPECT_TRUE(layer.parameters.empty());
    EXPECT_TRUE(layer.by_distance.empty());  // plain attention has no taste of its own
  }
  EXPECT_EQ(found.gradients->layers.size(), 2u);
}

TEST(Diagnosis, MeasuresTheRightThings) {
  Transformer model = random_model(small_architecture());
  const Tensor ids = some_ids(1, 8);
  const Diagnosis found = diagnose(model, ids);
  const torch::NoGradGuard no_gradient;
  std::vector<Tensor> hidden;
  model->forward({.ids = ids, .hidden_states = &hidden});
  EXPECT_NEAR(found.ranks[1].rank.effective_rank, measure_rank(hidden[1]).effective_rank, 1e-4);
  EXPECT_NEAR(found.ranks[3].rank.cosine, measure_rank(hidden[2]).cosine, 1e-4);
  // An untouched row of a random layer, by hand: the entropy of the last query of head 3.
  const Block block = model->block(0);
  const Tensor all = block->projection->forward(block->attention_norm->forward(hidden[0])).view({1, 8, 8, 6});
  Attention attention = block->attention;
  const Tensor weights = attention
                             ->run(all.narrow(2, 0, 4).transpose(1, 2), all.narrow(2, 4, 2).transpose(1, 2),
                                   all.narrow(2, 6, 2).transpose(1, 2), {.need_weights = true})
                             .weights[0][3];
  double entropy = 0;
  for (int64_t i = 1; i < 8; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      const double weight = weights[i][j].item<double>();
      entropy -= weight * std::log(weight) / 7;
    }
  EXPECT_NEAR(found.layers[0].weights->heads[3].entropy, entropy, 1e-5);
}

TEST(Diagnosis, ShowsWhatFormulasLearned) {
  Transformer model = random_model(small_architecture(), "prior");
  {
    const torch::NoGradGuard no_gradient;
    model->block(1)->attention->named_parameters()["alpha"].copy_(torch::tensor({0.1, 0.2, 0.5, 1.0}));
  }
  const LayerDiagnosis layer = diagnose(model, some_ids(1, 6)).layers[1];
  EXPECT_EQ(layer.formula, "prior");
  ASSERT_EQ(layer.parameters.size(), 2u);
  EXPECT_EQ(layer.parameters[0].name, "alpha");
  EXPECT_TRUE(layer.parameters[0].by_head);
  EXPECT_NEAR(layer.parameters[0].values[2], 0.5, 1e-7);
  // beta is 1: without content, a step further back takes a factor exp(-alpha).
  ASSERT_EQ(layer.by_distance.size(), 4u);
  EXPECT_NEAR(layer.by_distance[2][4] / layer.by_distance[2][3], std::exp(-0.5), 1e-4);
}

TEST(Diagnosis, BigParametersAreShownByTheirNorm) {
  Transformer model = random_model(small_architecture(), "diff");
  bool large = false;
  const Diagnosis found = diagnose(model, some_ids(1, 6));
  for (const LearnedParameter& parameter : found.layers[0].parameters) {
    large |= parameter.values.empty();
    EXPECT_GT(parameter.norm, 0) << parameter.name;
    EXPECT_TRUE(parameter.name != "lam" || parameter.values.size() == 4);
  }
  EXPECT_TRUE(large);
}

TEST(Diagnosis, SignedWeightsAreNoticed) {
  Transformer model = random_model(small_architecture(), "gpam");
  const Diagnosis found = diagnose(model, some_ids(2, 10));
  for (const LayerDiagnosis& layer : found.layers)
    for (const HeadWeights& head : layer.weights->heads) EXPECT_NEAR(head.row_sum, 1, 1e-4);  // 1 + 0.1 - 0.1
  model->set_attention(Formula::load("diff"));
  const Diagnosis other = diagnose(model, some_ids(2, 10));
  EXPECT_GT(other.layers[0].weights->heads[0].negative_mass, 0.01);
  EXPECT_NEAR(other.layers[0].weights->heads[0].row_sum, 0.2, 1e-4);
  EXPECT_TRUE(to_json(other)["layers"][0]["weights"].contains("negative"));
}

TEST(Diagnosis, ShortTextsGiveNullAndNoNan) {
  for (const char* formula : {"causal", "gpam", "prior", "last10", "softpick"})
    for (const int64_t tokens : {1, 2}) {
      Transformer model = random_model(small_architecture(), formula);
      const std::string text = dump(to_json(diagnose(model, some_ids(1, tokens))));
      EXPECT_THAT(text, Not(HasSubstr("nan"))) << formula;
      EXPECT_THAT(text, Not(HasSubstr("inf"))) << formula;
      const Json json = parse_json(text, "test");
      EXPECT_EQ(json["loss"].is_null(), tokens == 1);
      EXPECT_EQ(json["layers"][0]["weights"]["entropy"][0].is_null(), tokens == 1);
      EXPECT_EQ(json["ranks"][0]["cosine"].is_null(), tokens == 1);
      EXPECT_EQ(json["layers"][1]["gradients"].is_null(), tokens == 1);
    }
}

TEST(Diagnosis, JsonHasSixDigits) {
  Diagnosis diagnosis{.batch = 1, .tokens = 2};
  diagnosis.gradients = Gradients{.loss = 1.23456789, .total = 1e-30 / 3, .embedding = 0, .layers = {}};
  const std::string text = dump(to_json(diagnosis));
  EXPECT_THAT(text, HasSubstr("\"loss\":1.23457,"));
  EXPECT_THAT(text, HasSubstr("\"gradient\":3.33333e-31,"));
}

TEST(Diagnosis, EveryFamilyAndHead) {
  Architecture encoder = small_architecture();
  encoder.causal = false;
  encoder.order = BlockOrder::norm_after;
  encoder.head = HeadKind::masked_model;
  Transformer masked = random_model(encoder);
  const Diagnosis found = diagnose(masked, some_ids(2, 6));
  EXPECT_EQ(found.ranks.size(), 3u);  // the last norm is part of the last block
  EXPECT_FALSE(found.layers[0].weights->causal);
  EXPECT_TRUE(found.gradients);
  encoder.head = HeadKind::none;
  Transformer headless = random_model(encoder);
  EXPECT_FALSE(diagnose(headless, some_ids(2, 6)).gradients);
}

TEST(Diagnosis, LeavesTheModelAsItWas) {
  Transformer model = random_model(small_architecture());
  model->train();
  model->set_path(Path::fused);
  const Diagnosis first = diagnose(model, some_ids(1, 6));
  EXPECT_TRUE(model->is_training());
  EXPECT_EQ(model->block(1)->attention->options().path, Path::fused);
  EXPECT_EQ(dump(to_json(first)), dump(to_json(diagnose(model, some_ids(1, 6)))));
}

TEST(Diagnosis, MeasuresOnlyWhatIsAskedFor) {
  Transformer model = random_model(small_architecture());
  const Diagnosis found =
      diagnose(model, some_ids(1, 6), {.ranks = false, .weights = false, .gradients = false, .distances = 0});
  EXPECT_TRUE(found.ranks.empty());
  EXPECT_FALSE(found.layers[0].weights);
  EXPECT_FALSE(found.gradients);
  EXPECT_THAT(message_of([&] { diagnose(model, torch::zeros({4}, torch::kLong)); }), HasSubstr("shape [4]"));
}

}  // namespace
}  // namespace saccade
