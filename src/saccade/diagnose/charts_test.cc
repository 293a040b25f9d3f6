#include "saccade/diagnose/charts.h"

#include <gmock/gmock.h>

#include "saccade/base/testing.h"
#include "saccade/diagnose/history.h"
#include "saccade/diagnose/table.h"
#include "saccade/diagnose/testing.h"

namespace saccade {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

std::vector<std::string> files_of(const std::vector<Picture>& pictures) {
  std::vector<std::string> files;
  for (const Picture& picture : pictures) files.push_back(picture.file);
  return files;
}

const Picture& find(const std::vector<Picture>& pictures, const std::string& file) {
  return *std::ranges::find(pictures, file, &Picture::file);
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(DiagnosisCharts, PlainAttentionNeedsNoPictureOfSigns) {
  Transformer model = random_model(small_architecture());
  EXPECT_THAT(files_of(draw(diagnose(model, some_ids(2, 9)), "a model")),
              UnorderedElementsAre("rank.svg", "similarity.svg", "gradients.svg", "entropy.svg",
                                   "first_token.svg", "distance.svg", "weights.svg"));
}

TEST(DiagnosisCharts, ShowSignsParametersAndPositionsWhereTheyAre) {
  Transformer model = random_model(small_architecture(), "gpam");
  const std::vector<Picture> gpam = draw(diagnose(model, some_ids(2, 9)), "a model");
  EXPECT_THAT(files_of(gpam), Contains("learned_lp.svg"));
  EXPECT_THAT(files_of(gpam), Contains("learned_ln.svg"));
  EXPECT_EQ(count(find(gpam, "learned_ln.svg").svg, "<title>"),
            1 + 2 * 4);  // the picture's, and one per head
  model->set_attention(Formula::load("diff"));
  const std::vector<Picture> diff = draw(diagnose(model, some_ids(2, 9)), "a model");
  EXPECT_THAT(files_of(diff), Contains("negative.svg"));
  EXPECT_THAT(files_of(diff), Contains("row_sum.svg"));
  EXPECT_THAT(find(diff, "weights.svg").svg, HasSubstr(">negative<"));
  model->set_attention(Formula::load("prior"));
  const std::vector<Picture> prior = draw(diagnose(model, some_ids(2, 9)), "a < b");
  EXPECT_EQ(count(find(prior, "by_distance.svg").svg, "<polyline"), 2 * 4);
  EXPECT_THAT(find(prior, "by_distance.svg").svg, HasSubstr("a &lt; b"));
}

TEST(DiagnosisCharts, OneTokenGivesPicturesToo) {
  Transformer model = random_model(small_architecture());
  const std::vector<Picture> pictures = draw(diagnose(model, some_ids(1, 1)), "one token");
  EXPECT_THAT(files_of(pictures), Not(Contains("gradients.svg")));
  for (const Picture& picture : pictures) EXPECT_THAT(picture.svg, Not(HasSubstr("\"nan"))) << picture.file;
}

TEST(DiagnosisTable, HasALinePerLayer) {
  Transformer model = random_model(small_architecture(), "prior");
  const std::string table = table_of(diagnose(model, some_ids(2, 9)));
  EXPECT_THAT(table, HasSubstr("block 1"));
  EXPECT_THAT(table, HasSubstr("What the formulas have learned"));
  EXPECT_EQ(count(table, "prior"), 2);
  EXPECT_THAT(table, Not(HasSubstr("nan")));
  EXPECT_THAT(table_of(diagnose(model, some_ids(1, 1))), Not(HasSubstr("nan")));
}

std::string line_of(int64_t step, const Diagnosis& diagnosis) {
  Json json = {{"step", step}};
  json.update(to_json(diagnosis));
  return dump(json) + "\n";
}

TEST(History, GoesOverTheStepsInOrder) {
  Transformer model = random_model(small_architecture(), "diff");
  const Diagnosis diagnosis = diagnose(model, some_ids(1, 6));
  const std::string text = line_of(100, diagnosis) + line_of(0, diagnosis) + line_of(100, diagnosis) +
                           line_of(200, diagnosis) + "{\"step\": 300, \"lay";
  const History history = read_history(text, "diagnostics.jsonl");
  ASSERT_EQ(history.entries.size(), 3u);
  EXPECT_EQ(history.entries[0].step, 0);
  EXPECT_EQ(history.entries[2].step, 200);
  const std::vector<Picture> pictures = draw(history, "a run");
  EXPECT_THAT(files_of(pictures),
              UnorderedElementsAre("steps_rank.svg", "steps_cosine.svg", "steps_gradient.svg",
                                   "steps_entropy.svg", "steps_first_token.svg", "steps_row_sum.svg",
                                   "steps_negative.svg", "steps_learned_lam.svg"));
  EXPECT_EQ(count(find(pictures, "steps_entropy.svg").svg, "<polyline"), 2);
  EXPECT_EQ(count(find(pictures, "steps_rank.svg").svg, "<polyline"), 4);
}

TEST(History, OfOneStepHasNoPictures) {
  EXPECT_THAT(draw(read_history("{\"step\": 1}\n", "x"), "a run"), IsEmpty());
  EXPECT_THAT(draw(read_history("", "x"), "a run"), IsEmpty());
  // Lines of another kind have gaps where measures would be.
  EXPECT_THAT(
      draw(read_history("{\"step\": 1}\n{\"step\": 2, \"layers\": 7, \"ranks\": [1]}\n", "x"), "a run"),
      IsEmpty());
}

TEST(History, NamesTheLineThatIsWrong) {
  EXPECT_THAT(message_of([] { read_history("{\"step\": 1}\n{\"loss\": 2}\n", "runs/a/diagnostics.jsonl"); }),
              HasSubstr("runs/a/diagnostics.jsonl, line 2: it has no step"));
  EXPECT_THAT(message_of([] { read_history("{\"step\": 1}\nnonsense\n{\"step\": 2}\n", "d.jsonl"); }),
              HasSubstr("d.jsonl, line 2"));
}

}  // namespace
}  // namespace saccade
