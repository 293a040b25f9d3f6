#include "saccade/view/session.h"

#include <gmock/gmock.h>

#include "saccade/base/base64.h"
#include "saccade/base/testing.h"
#include "saccade/diagnose/capture.h"
#include "saccade/diagnose/testing.h"
#include "saccade/text/bpe_trainer.h"
#include "saccade/view/formula_answer.h"

namespace saccade {
namespace {

using at::Tensor;
using ::testing::HasSubstr;

Architecture architecture() {
  Architecture a = small_architecture();
  a.vocabulary = 257;
  return a;
}

// A model that learns a prior, beside the same weights with a window.
Session session_of(Transformer model, bool compared = true) {
  Viewed viewed{
      .baseline = {.name = "one", .model = model, .tokenizer = BpeTrainer({.vocabulary_size = 257}).train()}};
  if (compared) {
    viewed.candidate = Transformer(model->twin());
    viewed.candidate->set_attention(Formula::parse("mask = causal and d < 3"));
    viewed.candidate_name = "other";
  }
  return Session(std::move(viewed));
}

std::vector<float> floats(const Json& text) {
  const std::vector<std::byte> bytes = from_base64(text.get<std::string>(), "test");
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(Session, DescribesItsModels) {
  Session session = session_of(random_model(architecture(), "prior"));
  const Json found = session.describe();
  EXPECT_EQ(found.at("models").at("baseline").at("name"), "one");
  EXPECT_EQ(found.at("models").at("candidate").at("name"), "other");
  const Json& layer = found.at("models").at("baseline").at("layers").at(1);
  EXPECT_EQ(layer.at("formula"), "prior");
  EXPECT_EQ(layer.at("learned").at(0).at("name"), "alpha");
  EXPECT_EQ(layer.at("learned").at(0).at("values").size(), 4u);
  EXPECT_TRUE(layer.at("learned").at(0).at("by_head").get<bool>());
  EXPECT_GT(found.at("mechanisms").size(), 10u);
  // A table by head and bucket has no slider for a head.
  Session tables = session_of(random_model(architecture(), "t5"));
  EXPECT_FALSE(tables.describe()["models"]["baseline"]["layers"][0]["learned"][0]["by_head"].get<bool>());
  EXPECT_TRUE(Session().describe().at("models").empty());
}

TEST(Session, GivesTheWeightsOfAHead) {
  Transformer model = random_model(architecture(), "prior");
  Session session = session_of(model);
  const Json found = session.attention({{"text", "to be or not"}, {"layer", 1}, {"head", 2}});
  EXPECT_EQ(found.at("tokens").size(), 12u);
  EXPECT_EQ(found.at("tokens").at(1), "o");
  EXPECT_EQ(found.at("cell"), 1);
  ASSERT_EQ(found.at("heads").size(), 1u);
  const std::vector<float> weights = floats(found.at("heads").at(0).at("weights"));
  ASSERT_EQ(weights.size(), 144u);
  for (size_t row = 0; row < 12; ++row) {
    float sum = 0;
    for (size_t key = 0; key < 12; ++key) {
      sum += weights[row * 12 + key];
      if (key > row) {
        EXPECT_EQ(weights[row * 12 + key], 0);
      }
    }
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  const std::vector<float> row =
      floats(session.row({{"text", "to be or not"}, {"layer", 1}, {"head", 2}, {"row", 7}}).at("weights"));
  for (size_t key = 0; key < 12; ++key) EXPECT_FLOAT_EQ(row[key], weights[7 * 12 + key]);
  EXPECT_EQ(session.attention({{"text", "abc"}, {"layer", 0}}).at("heads").size(), 4u);
  // The candidate sees three keys.
  const std::vector<float> window =
      floats(session.attention({{"text", "abcdef"}, {"model", "candidate"}, {"layer", 0}, {"head", 0}})
                 .at("heads")
                 .at(0)
                 .at("weights"));
  EXPECT_EQ(window[5 * 6 + 2], 0);
  EXPECT_GT(window[5 * 6 + 3], 0);
}

TEST(Session, LongTextsComeInCells) {
  Architecture a = architecture();
  a.context = 700;
  Session session = session_of(random_model(a), false);
  const Json found = session.attention({{"text", std::string(600, 'x')}, {"layer", 0}, {"head", 0}});
  EXPECT_EQ(found.at("cell"), 2);
  EXPECT_EQ(floats(found.at("heads").at(0).at("weights")).size(), 300u * 300);
}

TEST(Session, TriedValuesDoNotStay) {
  Transformer model = random_model(architecture(), "prior");
  Session session = session_of(model);
  const Json question = {{"text", "some words"}, {"layer", 0}, {"head", 1}};
  const Json before = session.attention(question);
  Json tried = question;
  tried["values"] = {{"alpha", 5}, {"beta", {1, 2, 1, 1}}};
  EXPECT_NE(session.attention(tried).at("heads"), before.at("heads"));
  EXPECT_EQ(session.attention(question), before);
  tried["values"] = {{"alpha", {1, 2}}};
  EXPECT_THAT(message_of([&] { session.attention(tried); }),
              HasSubstr("'alpha' was given 2 values; expected 1 or 4"));
  tried["values"] = {{"alpah", 1}};
  EXPECT_THAT(message_of([&] { session.attention(tried); }), HasSubstr("did you mean 'alpha'"));
  EXPECT_EQ(session.attention(question), before);
}

TEST(Session, ComparesPredictions) {
  Session session = session_of(random_model(architecture(), "prior"));
  const Json found = session.prediction({{"text", "to be or"}, {"position", 3}});
  EXPECT_EQ(found.at("position"), 3);
  EXPECT_EQ(found.at("divergence").size(), 8u);
  // With three tokens or fewer both see the same keys, but only one of them has a prior.
  EXPECT_GT(found.at("divergence").at(7).get<double>(), 0);
  EXPECT_EQ(found.at("next").size(), 12u);
  double sum = 0;
  for (const Json& each : found.at("next")) {
    EXPECT_GE(each.at("baseline").get<double>(), 0);
    sum += each.at("candidate").get<double>();
  }
  EXPECT_LE(sum, 1 + 1e-9);
  const Json alone = session_of(random_model(architecture()), false).prediction({{"text", "to"}});
  EXPECT_FALSE(alone.contains("divergence"));
  EXPECT_EQ(alone.at("position"), 1);
}

TEST(Session, MeasuresRanks) {
  const Json found = session_of(random_model(architecture())).rank({{"text", "to be or not"}});
  EXPECT_EQ(found.at("baseline").size(), 4u);
  EXPECT_EQ(found.at("candidate").at(0).at("after"), "embedding");
}

TEST(Session, SaysWhatIsWrong) {
  Session session = session_of(random_model(architecture()), false);
  const auto message = [&](const Json& request) { return message_of([&] { session.attention(request); }); };
  EXPECT_THAT(message({{"text", ""}, {"layer", 0}}), HasSubstr("no tokens"));
  EXPECT_THAT(message({{"layer", 0}}), HasSubstr("text"));
  EXPECT_THAT(message({{"text", 5}, {"layer", 0}}), HasSubstr("expected"));
  EXPECT_THAT(message({{"text", "a"}, {"layer", 2}}), HasSubstr("layer 2"));
  EXPECT_THAT(message({{"text", "a"}, {"layer", -1}}), HasSubstr("layer -1"));
  EXPECT_THAT(message({{"text", "a"}, {"layer", 0.5}}), HasSubstr("layer"));
  EXPECT_THAT(message({{"text", "a"}, {"layer", 0}, {"head", 4}}), HasSubstr("head 4"));
  EXPECT_THAT(message({{"text", "a"}, {"layer", 0}, {"cell", 0}}), HasSubstr("cells of 0"));
  EXPECT_THAT(message({{"text", "a"}, {"layer", 0}, {"model", "candidate"}}), HasSubstr("no candidate"));
  EXPECT_THAT(message({{"text", std::string(129, 'a')}, {"layer", 0}}), HasSubstr("129 tokens; at most 128"));
  Session empty;
  EXPECT_THAT(message_of([&] { empty.rank({{"text", "a"}}); }), HasSubstr("no model was given"));
}

TEST(FormulaAnswer, ShowsWeightsAndCurves) {
  const Json found = answer_formula({{"formula", "param a[head] = 1\nmask = causal\nscore = s - a * d"},
                                     {"values", {{"a", {0, 1, 2, 3}}}},
                                     {"tokens", 16}});
  EXPECT_TRUE(found.at("decodes").get<bool>());
  EXPECT_EQ(found.at("parameters").at(0).at("values"), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_THAT(found.at("explain").get<std::string>(), HasSubstr("s - a * d"));
  const std::vector<float> curves = floats(found.at("curves"));
  ASSERT_EQ(curves.size(), 64u);
  for (size_t d = 0; d < 16; ++d) EXPECT_NEAR(curves[d], 1.0 / 16, 1e-6);  // a = 0: all alike
  EXPECT_NEAR(curves[16 + 1] / curves[16], std::exp(-1), 1e-5);
  EXPECT_EQ(floats(found.at("maps").at("random")).size(), 4u * 16 * 16);
  EXPECT_FALSE(found.at("maps").at("signed").get<bool>());
  const std::string tiles = found.at("tiles").at("states").get<std::string>();
  EXPECT_EQ(tiles.size(), 256u);
  EXPECT_EQ(tiles[1], 'e');
  EXPECT_EQ(tiles[16], 'f');
}

TEST(FormulaAnswer, MistakesAreAnAnswer) {
  const Json found = answer_formula({{"formula", "mask = causal\nscore = s - alpah"}});
  ASSERT_EQ(found.at("errors").size(), 1u);
  EXPECT_EQ(found.at("errors").at(0).at("line"), 2);
  EXPECT_EQ(found.at("errors").at(0).at("column"), 13);
  EXPECT_THAT(found.at("text").get<std::string>(), HasSubstr("^"));
}

TEST(FormulaAnswer, SaysWhyThereIsNothingToSee) {
  const Json found = answer_formula({{"formula", "input bias[query, key]\nscore = s + bias[i, j]"}});
  EXPECT_TRUE(found.at("maps").is_null());
  EXPECT_THAT(found.at("note").get<std::string>(), HasSubstr("'bias'"));
  EXPECT_THAT(message_of([] {
                answer_formula({{"formula", "score = s"}, {"tokens", 5000}});
              }),
              HasSubstr("5000"));
  EXPECT_THAT(message_of([] {
                answer_formula({{"formula", std::string(100000, ' ')}});
              }),
              HasSubstr("100000"));
}

}  // namespace
}  // namespace saccade
