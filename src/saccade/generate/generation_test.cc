// Generation on small models with random weights: whatever is cached, padded, batched or cut short, the
// tokens are those of the plain computation.
#include "saccade/generate/generation.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "saccade/base/error.h"
#include "saccade/text/testing.h"

namespace saccade {
namespace {

using at::Tensor;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr uint64_t kSeed = 5;

enum class Kind { learned, rotary };

// In double: then the order in which sums are taken cannot change a token.
Transformer small_model(Kind kind, int64_t context = 64) {
  Architecture a{.family = "test",
                 .vocabulary = 262,
                 .width = 32,
                 .layers = 2,
                 .heads = 4,
                 .kv_heads = 2,
                 .head_dim = 8,
                 .inner = 48,
                 .context = context};
  if (kind == Kind::learned) {
    a.norm = NormKind::layer;
    a.activation = Activation::gelu_tanh;
    a.gated = false;
    a.learned_positions = true;
    a.projection_bias = a.output_bias = a.mlp_bias = true;
  } else {
    a.rotary = RotaryOptions{};
  }
  a.eos = {0};
  Transformer model(a);
  torch::NoGradGuard no_gradient;
  model->to(torch::kDouble);
  RandomStream random(kSeed, "weights");
  for (auto& parameter : model->named_parameters()) {
    if (parameter.key().find("norm") != std::string::npos) continue;
    Tensor values = parameter.value().view(-1);
    for (int64_t index = 0; index < values.numel(); ++index)
      values.data_ptr<double>()[index] = 0.35 * random.normal();
  }
  model->eval();
  return model;
}

const Tokenizer& tokenizer() {
  static const Tokenizer made = Tokenizer::from_gguf(small_byte_vocabulary());
  return made;
}

const std::vector<std::string> kPrompts = {"the thing", "a", "something in the way of things", "the",
                                           "ring ring"};

// The most likely token again and again, from a forward pass over everything that the model is to see.
std::vector<int32_t> plain_greedy(Transformer model, const std::vector<int32_t>& prompt, int64_t count,
                                  int64_t context = 1000) {
  torch::NoGradGuard no_gradient;
  std::vector<int64_t> seen(prompt.begin(), prompt.end());
  if (static_cast<int64_t>(seen.size()) > context) seen.erase(seen.begin(), seen.end() - context);
  std::vector<int32_t> result;
  while (static_cast<int64_t>(result.size()) < count) {
    const Tensor ids = torch::tensor(seen, torch::kLong).unsqueeze(0);
    const Tensor logits = model->logits(model->forward({.ids = ids}).select(1, ids.size(1) - 1).contiguous());
    seen.push_back(logits.argmax(-1).item<int64_t>());
    result.push_back(static_cast<int32_t>(seen.back()));
    if (static_cast<int64_t>(seen.size()) > context) seen.erase(seen.begin(), seen.end() - context / 2);
  }
  return result;
}

GenerationOptions greedy(int64_t count) { return {.max_new_tokens = count, .sampling = {.temperature = 0}}; }

void expect_same(const Generation& together, const std::vector<Generation>& alone) {
  ASSERT_EQ(together.texts.size(), alone.size());
  for (size_t index = 0; index < alone.size(); ++index) {
    EXPECT_EQ(together.texts[index].prompt, index);
    EXPECT_EQ(together.texts[index].ids, alone[index].texts.front().ids) << kPrompts[index];
    EXPECT_EQ(together.texts[index].text, alone[index].texts.front().text);
    EXPECT_EQ(together.texts[index].finish, alone[index].texts.front().finish);
  }
}

std::vector<Generation> one_by_one(const Transformer& model, const GenerationOptions& options) {
  std::vector<Generation> result;
  for (const std::string& prompt : kPrompts)
    result.push_back(generate(model, tokenizer(), {prompt}, options));
  return result;
}

class Models : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Generate, Models, testing::Values(Kind::learned, Kind::rotary),
                         [](const auto& test) { return test.param == Kind::learned ? "learned" : "rotary"; });

TEST_P(Models, GreedyTokensAreThoseOfWholeForwardPasses) {
  Transformer model = small_model(GetParam());
  const Generation generation = generate(model, tokenizer(), kPrompts, greedy(20));
  ASSERT_EQ(generation.texts.size(), kPrompts.size());
  std::set<int32_t> different;
  for (const Generated& each : generation.texts) {
    EXPECT_EQ(each.prompt_ids, tokenizer().encode(kPrompts[each.prompt]));
    EXPECT_EQ(each.ids, plain_greedy(model, each.prompt_ids, 20)) << kPrompts[each.prompt];
    EXPECT_EQ(each.finish, Finish::length);
    different.insert(each.ids.begin(), each.ids.end());
  }
  EXPECT_GT(different.size(), 10u);  // not a few tokens again and again, which a mistake might give as well
  EXPECT_EQ(generation.speed.new_tokens, 100);
  EXPECT_EQ(generation.speed.decoded_tokens, 95);
}

TEST_P(Models, BatchesChangeNothing) {
  Transformer model = small_model(GetParam());
  // Some end early, by a token that is likely, and leave the batch.
  GenerationOptions options = greedy(25);
  options.end_ids = {generate(model, tokenizer(), {kPrompts[0]}, options).texts.front().ids[4]};
  for (const int64_t size : {2, 5}) {
    options.batch_size = size;
    expect_same(generate(model, tokenizer(), kPrompts, options), one_by_one(model, options));
  }
}

TEST(Generate, TheSeedAndThePromptsPlaceDecideWhatIsDrawn) {
  Transformer model = small_model(Kind::rotary);
  GenerationOptions options{.max_new_tokens = 15,
                            .sampling = {.temperature = 1, .top_k = 50, .top_p = 0.95},
                            .seed = 7,
                            .batch_size = 3};
  const Generation first = generate(model, tokenizer(), kPrompts, options);
  options.batch_size = 1;
  const Generation second = generate(model, tokenizer(), kPrompts, options);
  for (size_t index = 0; index < kPrompts.size(); ++index)
    EXPECT_EQ(first.texts[index].ids, second.texts[index].ids);
  options.seed = 8;
  EXPECT_NE(generate(model, tokenizer(), kPrompts, options).texts[0].ids, first.texts[0].ids);
  const Generation twice = generate(model, tokenizer(), {"the", "the"}, options);
  EXPECT_NE(twice.texts[0].ids, twice.texts[1].ids);
}

TEST(Generate, PaddingMattersToFormulasThatLookAtPositions) {
  for (const char* name : {"causal", "window", "alibi", "t5", "softcap", "prior", "sink_logit", "dilated"})
    EXPECT_FALSE(padding_matters(Formula::load(name))) << name;
  for (const char* name : {"sink_window", "logn", "ape", "fox", "chunked"})
    EXPECT_TRUE(padding_matters(Formula::load(name))) << name;
}

TEST(Generate, FormulasThatLookAtPositionsGiveTheSameInBatches) {
  Transformer model = small_model(Kind::rotary);
  model->set_attention(Formula::load("sink_window", {{"sinks", 2}, {"w", 4}}));
  expect_same(generate(model, tokenizer(), kPrompts, greedy(12)), one_by_one(model, greedy(12)));
  EXPECT_THROW(Decoder(model, {{1, 2}, {1, 2, 3}}, Overflow::refuse), Error);
}

TEST(Generate, FormulasThatCannotDecodeComputeEverythingAgain) {
  Transformer model = small_model(Kind::learned);
  model->set_attention(Formula::load("ape"));
  EXPECT_THAT(cache_obstacle(model), HasSubstr("'ape' cannot decode"));
  const Generation generation = generate(model, tokenizer(), kPrompts, greedy(8));
  for (const Generated& each : generation.texts) EXPECT_EQ(each.ids, plain_greedy(model, each.prompt_ids, 8));
}

TEST(Overflow, IsRefusedBeforeAnythingIsComputed) {
  Transformer model = small_model(Kind::rotary, 32);
  int64_t shown = 0;
  const OnText count = [&](size_t, std::string_view) { ++shown; };
  EXPECT_THAT([&] { generate(model, tokenizer(), kPrompts, greedy(28), count); },
              ThrowsMessage<Error>(HasSubstr("28 new ones exceed the model's context of 32")));
  EXPECT_EQ(shown, 0);
}

TEST_P(Models, SlidingForgetsTheOldestTokens) {
  Transformer model = small_model(GetParam(), 16);
  GenerationOptions options = greedy(40);
  options.overflow = Overflow::slide;
  const Generation generation = generate(model, tokenizer(), kPrompts, options);
  for (const Generated& each : generation.texts)
    EXPECT_EQ(each.ids, plain_greedy(model, each.prompt_ids, 40, 16)) << kPrompts[each.prompt];
  // The longest ends first, after which only padding fills the context.
  options.end_ids = {generation.texts[2].ids[3]};
  expect_same(generate(model, tokenizer(), kPrompts, options), one_by_one(model, options));
}

TEST(Overflow, ExtendingNeedsPositionsWithoutAnEnd) {
  GenerationOptions options = greedy(40);
  options.overflow = Overflow::extend;
  Transformer model = small_model(Kind::rotary, 16);
  for (const Generated& each : generate(model, tokenizer(), kPrompts, options).texts)
    EXPECT_EQ(each.ids, plain_greedy(model, each.prompt_ids, 40));
  EXPECT_THAT([&] { generate(small_model(Kind::learned, 16), tokenizer(), kPrompts, options); },
              ThrowsMessage<Error>(HasSubstr("learned positions end")));
}

TEST(Generate, StopStringsEndTheTextAcrossTokensAndAreNotShown) {
  Transformer model = small_model(Kind::rotary);
  GenerationOptions options{.max_new_tokens = 40, .sampling = {.temperature = 1}, .seed = 3};
  const std::string whole = generate(model, tokenizer(), {"the"}, options).texts.front().text;
  ASSERT_GT(whole.size(), 12u);
  options.stop = {"never to be found", whole.substr(8, 4)};
  const size_t cut = whole.find(options.stop[1]);
  std::string shown;
  const Generated stopped =
      generate(model, tokenizer(), {"the"}, options, [&](size_t prompt, std::string_view text) {
        EXPECT_EQ(prompt, 0u);
        shown += text;
      }).texts.front();
  EXPECT_EQ(stopped.finish, Finish::stop);
  EXPECT_EQ(stopped.text, whole.substr(0, cut));
  EXPECT_EQ(shown, stopped.text);
  EXPECT_LT(stopped.ids.size(), 40u);
}

TEST(Generate, AnEndTokenEndsTheTextAndIsNotInIt) {
  Transformer model = small_model(Kind::rotary);
  const Generated whole = generate(model, tokenizer(), {"the"}, greedy(10)).texts.front();
  GenerationOptions options = greedy(10);
  options.end_ids = {whole.ids[3]};
  const auto first = std::ranges::find(whole.ids, whole.ids[3]) - whole.ids.begin();
  const Generated ended = generate(model, tokenizer(), {"the"}, options).texts.front();
  EXPECT_EQ(ended.ids, std::vector<int32_t>(whole.ids.begin(), whole.ids.begin() + first + 1));
  EXPECT_EQ(ended.finish, Finish::end);
  EXPECT_TRUE(whole.text.starts_with(ended.text) || ended.text.ends_with("\uFFFD"));
}

TEST(Generate, AnEmptyPromptBeginsWithTheTokenThatBeginsATextOrElseEndsOne) {
  const Generated each = generate(small_model(Kind::rotary), tokenizer(), {""}, greedy(3)).texts.front();
  EXPECT_EQ(each.prompt_ids, std::vector<int32_t>{0});
  EXPECT_EQ(each.ids.size(), 3u);
}

TEST_P(Models, BeamsAreTheSameInBatchesAndHaveTheScoreThatTheModelGivesThem) {
  Transformer model = small_model(GetParam());
  const GenerationOptions options{.max_new_tokens = 7, .end_ids = {0, 100}, .beams = 3, .n_best = 2};
  const Generation together = generate(model, tokenizer(), kPrompts, options);
  ASSERT_EQ(together.texts.size(), 2 * kPrompts.size());
  torch::NoGradGuard no_gradient;
  for (size_t index = 0; index < together.texts.size(); ++index) {
    const Generated& each = together.texts[index];
    EXPECT_EQ(each.prompt, index / 2);
    const Generated alone = generate(model, tokenizer(), {kPrompts[index / 2]}, options).texts[index % 2];
    EXPECT_EQ(each.ids, alone.ids);
    std::vector<int64_t> all(each.prompt_ids.begin(), each.prompt_ids.end());
    all.insert(all.end(), each.ids.begin(), each.ids.end());
    const Tensor ids = torch::tensor(all, torch::kLong).unsqueeze(0);
    const Tensor log_probabilities = model->logits(model->forward({.ids = ids})).log_softmax(-1);
    double sum = 0;
    for (size_t place = each.prompt_ids.size(); place < all.size(); ++place)
      sum += log_probabilities[0][static_cast<int64_t>(place) - 1][all[place]].item<double>();
    EXPECT_NEAR(each.score, sum / static_cast<double>(each.ids.size()), 1e-6);
  }
}

TEST(Generate, OptionsWithoutAMeaningAreRefused) {
  Transformer model = small_model(Kind::rotary);
  const auto refused = [&](const GenerationOptions& options) {
    EXPECT_THROW(generate(model, tokenizer(), {"the"}, options), Error);
  };
  refused({.max_new_tokens = 0});
  refused({.stop = {""}});
  refused({.beams = 2, .n_best = 3});
  refused({.sampling = {.repetition_penalty = 1.2}, .beams = 2});
  refused({.batch_size = 0});
}

}  // namespace
}  // namespace saccade
