// What a certificate says, and that no name can break the page.
#include "saccade/certify/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/base/sha256.h"
#include "saccade/base/testing.h"
#include "saccade/evaluate/testing.h"

namespace saccade {
namespace {

using testing::HasSubstr;
using testing::Not;

Certificate small_certificate() {
  TextModel model{"<b>model", random_transformer(small_architecture(257)), byte_tokenizer()};
  TextModel candidate{"candidate", Transformer(model.model->twin()), model.tokenizer};
  candidate.model->set_attention(Formula::load("last10"));
  Certificate certificate{
      .options = {.context = 32, .look_tokens = 32, .memory_lengths = {64}, .speed_rounds = 1},
      .command = "saccade certify '<b>model' candidate"};
  const std::vector<DataText> texts = {{"text", "A text that is a little longer than ten tokens are."}};
  certificate.fidelity = measure_fidelity(model, candidate, texts, certificate.options);
  certificate.criteria = judge(certificate.fidelity, certificate.thresholds);
  certificate.baseline.name = model.name;
  certificate.candidate.name = candidate.name;
  certificate.data = {{"text", sha256("x"), 1}};
  return certificate;
}

TEST(Certificate, JsonHasEveryCriterionAndLayer) {
  const Certificate certificate = small_certificate();
  const Json json = to_json(certificate);
  EXPECT_EQ(json["certified"], false);
  ASSERT_EQ(json["criteria"].size(), certificate.criteria.size());
  for (const Json& each : json["criteria"]) EXPECT_FALSE(each["measured"].get<std::string>().empty());
  EXPECT_EQ(json["measurements"]["attention"]["layers"].size(), 2);
  EXPECT_EQ(json["measurements"]["gradients"]["layers"].size(), 2);
  EXPECT_EQ(json["measurements"]["memory"]["points"].size(), 2);
  EXPECT_EQ(json["data"][0]["sha256"], sha256("x"));
  EXPECT_EQ(json["command"], certificate.command);
}

TEST(Certificate, ThePageStandsAlone) {
  const std::string page = to_page(small_certificate());
  EXPECT_THAT(page, HasSubstr("Not certified"));
  EXPECT_THAT(page, HasSubstr("Gradient cosine by layer"));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;model"));
  EXPECT_THAT(page, Not(HasSubstr("<b>model")));
  for (const char* word : {"src=", "href=", "<script", "url("}) EXPECT_THAT(page, Not(HasSubstr(word)));
}

TEST(Certificate, TheTableEndsWithTheVerdict) {
  const Certificate certificate = small_certificate();
  const std::string text = to_text(certificate);
  EXPECT_THAT(text, HasSubstr("FAILED"));
  EXPECT_TRUE(text.ends_with("\n" + verdict_of(certificate.criteria) + "\n"));
}

class Identity : public DirectoryTest {};

TEST_F(Identity, NamesTheFilesOfAModelByTheirContent) {
  const TextModel model{"small", random_transformer(small_architecture(257)), byte_tokenizer()};
  const auto config = make("config.json", "{}");
  make("model.safetensors", "weights");
  make("notes.txt", "not part of it");
  const ModelIdentity found = identify_model(model, config.parent_path());
  ASSERT_EQ(found.files.size(), 2);
  EXPECT_EQ(found.files[0].name, "config.json");
  EXPECT_EQ(found.files[1].sha256, sha256("weights"));
  EXPECT_EQ(found.files[1].bytes, 7);
}

}  // namespace
}  // namespace saccade
