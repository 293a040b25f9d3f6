#include "saccade/distill/teacher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "saccade/distill/testing.h"

namespace saccade {
namespace {

using at::Tensor;
using testing::HasSubstr;

struct Lesson {
  Transformer model = tiny_transformer();
  std::vector<TokenIds> texts{random_text(300, 1), random_text(300, 2)};
  std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "teacher.safetensors";

  Lesson() { std::filesystem::remove(file); }

  // What a student that looks at four tokens ends in.
  std::vector<Tensor> student() {
    model->set_attention(Formula::load("window", {{"w", 4}}));
    std::vector<Tensor> hidden = last_hidden_states(model, texts);
    model->set_attention(Formula::load("causal"));
    return hidden;
  }
};

TEST(Teacher, LikelyTokensSayLessThanAllAndNearlyAsMuch) {
  Lesson lesson;
  const std::vector<Tensor> hidden = lesson.student();
  const Teacher whole = teachers_of(lesson.model, lesson.texts)[0];
  const double exact = mean_divergence(lesson.model, whole, hidden[0]);
  const TokenIds texts[] = {lesson.texts[0]};
  EXPECT_NEAR(
      exact,
      divergence_of(lesson.model, std::span(&whole.hidden, 1), lesson.model, std::span(&hidden[0], 1), texts)
          .mean(),
      1e-5);
  double last = 0;
  for (const int64_t count : {1, 8, 40, 59}) {  // of 60
    std::filesystem::remove(lesson.file);
    const double found = mean_divergence(
        lesson.model, stored_teachers(lesson.model, lesson.texts, count, lesson.file)[0], hidden[0]);
    EXPECT_GT(found, last) << count;  // merging outcomes loses divergence, so more of them lose less
    EXPECT_LE(found, exact + 1e-6) << count;
    last = found;
  }
  EXPECT_NEAR(last, exact, 1e-5);  // 59 tokens and one rest are all there is
}

TEST(Teacher, GradientsAreThoseOfTheDivergence) {
  Lesson lesson;
  const Tensor hidden = lesson.student()[0];
  for (const Teacher& teacher : {teachers_of(lesson.model, lesson.texts)[0],
                                 stored_teachers(lesson.model, lesson.texts, 8, lesson.file)[0]}) {
    const Tensor gradient = divergence_gradient(lesson.model, teacher, hidden);
    const Tensor step = torch::randn(hidden.sizes()) * 1e-2;
    const double there = mean_divergence(lesson.model, teacher, hidden + step),
                 back = mean_divergence(lesson.model, teacher, hidden - step);
    EXPECT_NEAR((gradient * step).sum().item<double>(), (there - back) / 2,
                0.02 * std::abs(there - back) + 1e-7);
    EXPECT_GT(gradient.abs().sum().item<double>(), 0);
  }
}

TEST(Teacher, AFileIsReadInsteadOfTheModel) {
  Lesson lesson;
  const Teacher written = stored_teachers(lesson.model, lesson.texts, 8, lesson.file)[1];
  lesson.model->set_attention(Formula::load("window", {{"w", 4}}));  // which would say something else
  const Teacher read = stored_teachers(lesson.model, lesson.texts, 8, lesson.file)[1];
  EXPECT_TRUE(torch::equal(read.likely, written.likely));
  EXPECT_TRUE(torch::equal(read.log_probabilities, written.log_probabilities));
  EXPECT_TRUE(torch::equal(read.log_rest, written.log_rest));
}

TEST(Teacher, AFileOfSomethingElseIsRefused) {
  Lesson lesson;
  stored_teachers(lesson.model, lesson.texts, 8, lesson.file);
  const auto message = [&](const std::vector<TokenIds>& texts, int64_t count) {
    return message_of([&] { stored_teachers(lesson.model, texts, count, lesson.file); });
  };
  EXPECT_THAT(message({lesson.texts[0], random_text(300, 3)}, 8),
              HasSubstr("other texts than these 2 texts"));
  EXPECT_THAT(message({lesson.texts[0], lesson.texts[1], lesson.texts[0]}, 8), HasSubstr("other texts"));
  EXPECT_THAT(message(lesson.texts, 9), HasSubstr("have shape 300 x 8; expected 300 x 9"));
  EXPECT_THAT(message(lesson.texts, 60), HasSubstr("60 most likely tokens; expected 1 to 59"));
}

}  // namespace
}  // namespace saccade
