// Facts about perplexity, by a model that knows nothing, by the loop of the guide written out, and by reading
// the same windows one by one.
#include "saccade/evaluate/perplexity.h"

#include <ATen/ops/log_softmax.h>
#include <gtest/gtest.h>

#include <numbers>

#include "saccade/base/error.h"
#include "saccade/evaluate/testing.h"

namespace saccade {
namespace {

EncodedText text_of(std::vector<int32_t> ids) {
  const auto size = static_cast<int64_t>(ids.size());
  return {.ids = std::move(ids), .words = size / 2, .bytes = size * 3};
}

Perplexity measure(Transformer model, const EncodedText& text, PerplexityOptions options) {
  return measure_perplexity(reader_of(model, options.batch_size), std::span(&text, 1), options);
}

// The loop of Hugging Face's guide to perplexity, with the sum over tokens instead of means of means.
Tally guide(Transformer model, const std::vector<int32_t>& ids, int64_t context, int64_t stride) {
  at::NoGradGuard no_gradients;
  Tally tally;
  const std::vector<int64_t> wide(ids.begin(), ids.end());
  const at::Tensor all = torch::tensor(wide).unsqueeze(0);
  const int64_t size = all.size(1);
  for (int64_t begin = 0, previous_end = 0; begin < size; begin += stride) {
    const int64_t end = std::min(begin + context, size), target_length = end - previous_end;
    const at::Tensor window = all.slice(1, begin, end);
    const at::Tensor logits = model->logits(model->forward({.ids = window}));
    const at::Tensor chances = at::log_softmax(logits.to(torch::kDouble), -1)[0];
    for (int64_t place = std::max<int64_t>(1, end - begin - target_length); place < end - begin; ++place) {
      const auto target = window[0][place].item<int64_t>();
      tally.add(Answer{-chances[place - 1][target].item<double>(),
                       chances[place - 1].argmax().item<int64_t>() == target});
    }
    previous_end = end;
    if (end == size) break;
  }
  return tally;
}

TEST(Perplexity, OfAModelThatKnowsNothingIsItsVocabulary) {
  Transformer model = random_transformer(small_architecture());
  {
    at::NoGradGuard no_gradients;
    for (at::Tensor& parameter : model->parameters()) parameter.zero_();
  }
  const Perplexity result = measure(model, text_of(random_ids(200, 64, 1)), {.context = 32});
  EXPECT_NEAR(result.scored.perplexity(), 64, 1e-4);
  EXPECT_NEAR(result.bits_per_byte(), std::log2(64.0) / 3, 1e-6);
  EXPECT_NEAR(result.perplexity_per_word(), 64 * 64, 0.1);
}

TEST(Perplexity, IsThatOfTheGuide) {
  Transformer model = random_transformer(small_architecture());
  model->to(torch::kDouble);
  const std::vector<int32_t> ids = random_ids(131, 64, 2);
  for (const auto& [context, stride] :
       {std::pair<int64_t, int64_t>{32, 32}, {32, 8}, {50, 49}, {100, 1}, {128, 64}}) {
    const Tally expected = guide(model, ids, context, stride);
    const Perplexity result = measure(model, text_of(ids), {.context = context, .stride = stride});
    EXPECT_EQ(result.scored.tokens, expected.tokens) << context << " " << stride;
    EXPECT_EQ(result.scored.correct, expected.correct);
    EXPECT_NEAR(result.scored.mean_nll(), expected.mean_nll(), 1e-12);
  }
}

TEST(Perplexity, CountsEveryTokenOnceWhenItSlides) {
  Transformer model = random_transformer(small_architecture());
  const std::vector<int32_t> ids = random_ids(203, 64, 3);
  EXPECT_EQ(measure(model, text_of(ids), {.context = 32, .stride = 5}).scored.tokens, 202);
  EXPECT_EQ(measure(model, text_of(ids), {.context = 32}).scored.tokens, 203 - 7);
}

TEST(Perplexity, SlidingByAWholeWindowIsStrided) {
  Transformer model = random_transformer(small_architecture());
  const EncodedText text = text_of(random_ids(250, 64, 4));
  const Perplexity strided = measure(model, text, {.context = 40});
  const Perplexity sliding = measure(model, text, {.context = 40, .stride = 40});
  EXPECT_EQ(strided.scored.nll, sliding.scored.nll);
  EXPECT_EQ(strided.scored.tokens, sliding.scored.tokens);
}

// The last window is shorter than the others, so that it is filled up when it is read with them. `logn`
// divides by n, which the filling would change.
TEST(Perplexity, OfABatchIsThatOfItsWindowsOneByOne) {
  const Formula by_length = Formula::parse("score = s / log(n + 2)\nmask = causal", {.name = "by length"});
  for (const NormKind norm : {NormKind::layer, NormKind::rms}) {
    Architecture architecture = small_architecture();
    architecture.norm = norm;
    Transformer model = random_transformer(architecture);
    model->to(torch::kDouble);
    const EncodedText text = text_of(random_ids(230, 64, 5));
    for (const Formula& formula :
         {Formula::load("causal"), Formula::load("last10"), Formula::load("full"), by_length}) {
      model->set_attention(formula);
      for (const int64_t stride : {40, 16}) {
        const Perplexity alone = measure(model, text, {.context = 40, .stride = stride, .batch_size = 1});
        const Perplexity batch = measure(model, text, {.context = 40, .stride = stride, .batch_size = 8});
        EXPECT_NEAR(alone.scored.mean_nll(), batch.scored.mean_nll(), 1e-12) << formula.name();
        EXPECT_EQ(alone.scored.correct, batch.scored.correct) << formula.name();
        EXPECT_EQ(alone.read, batch.read);
      }
    }
  }
}

TEST(Perplexity, LengthCurveAddsUp) {
  Transformer model = random_transformer(small_architecture());
  const Perplexity result = measure(model, text_of(random_ids(400, 64, 6)), {.context = 100});
  std::vector<std::pair<int64_t, int64_t>> ranges;
  Tally sum;
  for (const LengthBucket& bucket : result.length_curve) {
    ranges.emplace_back(bucket.first, bucket.last);
    EXPECT_EQ(bucket.scored.tokens, 4 * (bucket.last - bucket.first + 1));
    sum.tokens += bucket.scored.tokens;
    sum.nll += bucket.scored.nll;
  }
  EXPECT_EQ(ranges, (std::vector<std::pair<int64_t, int64_t>>{{1, 16}, {17, 32}, {33, 64}, {65, 99}}));
  EXPECT_EQ(sum.tokens, result.scored.tokens);
  EXPECT_NEAR(sum.nll, result.scored.nll, 1e-9);
}

TEST(Perplexity, CountsWordsAndBytesOfWhatIsKept) {
  const Tokenizer tokenizer = byte_tokenizer();
  const EncodedText all = encode_text(tokenizer, " one  two\nthree", "here");
  EXPECT_EQ(all.words, 3);
  EXPECT_EQ(all.bytes, 15);
  EXPECT_EQ(all.ids.size(), 15u);
  const EncodedText part = encode_text(tokenizer, " one  two\nthree", "here", 8);
  EXPECT_EQ(part.words, 2);
  EXPECT_EQ(part.bytes, 8);
  EXPECT_THROW(encode_text(tokenizer, "", "here"), Error);
}

TEST(Perplexity, SaysWhatIsWrong) {
  Transformer model = random_transformer(small_architecture());
  const EncodedText text = text_of(random_ids(20, 64, 7));
  EXPECT_THROW(measure(model, text, {.context = 1}), Error);
  EXPECT_THROW(measure(model, text, {.context = 8, .stride = 9}), Error);
  EXPECT_THROW(measure(model, text_of({3}), {.context = 8}), Error);
  EXPECT_THROW(measure(model, text_of({3, 64}), {.context = 8}), Error);
  try {
    checked_context(small_architecture(), 129);
    FAIL() << "129 tokens were accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "evaluate: a context of 129 tokens; the model was made for 128 (--extend tries it all the same)");
  }
  EXPECT_EQ(checked_context(small_architecture(), 129, true), 129);
  EXPECT_EQ(checked_context(small_architecture(), 0), 128);
  Architecture learned = small_architecture();
  learned.rotary.reset();
  learned.learned_positions = true;
  EXPECT_THROW(checked_context(learned, 129, true), Error);
}

}  // namespace
}  // namespace saccade
