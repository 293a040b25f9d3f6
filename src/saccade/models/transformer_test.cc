#include "saccade/models/transformer.h"

#include <gmock/gmock.h>

#include "saccade/base/error.h"
#include "saccade/weights/dequantise.h"

namespace saccade {
namespace {

using ::testing::HasSubstr;

Architecture small() {
  Architecture a;
  a.family = "llama";
  a.vocabulary = 50;
  a.width = 32;
  a.layers = 2;
  a.heads = 4;
  a.kv_heads = 2;
  a.head_dim = 8;
  a.inner = 64;
  a.context = 128;
  a.rotary = RotaryOptions{};
  return a;
}

Transformer random_model(const Architecture& architecture) {
  torch::manual_seed(1);
  Transformer model(architecture);
  const torch::NoGradGuard no_gradient;
  for (at::Tensor parameter : model->parameters()) parameter.normal_(0, 0.3);
  return model;
}

at::Tensor some_ids(int64_t batch, int64_t tokens) {
  torch::manual_seed(2);
  return torch::randint(50, {batch, tokens}, torch::kLong);
}

TEST(Transformer, DecodesAsItReads) {
  const torch::NoGradGuard no_gradient;
  for (const bool windows : {false, true}) {
    Architecture a = small();
    if (windows) a.windows = {3, 0};
    Transformer model = random_model(a);
    model->to(torch::kDouble);
    const at::Tensor ids = some_ids(2, 11), whole = model->forward({.ids = ids});
    ModelCache cache = model->make_cache();
    std::vector<at::Tensor> parts;
    for (const auto& [from, count] : {std::pair<int64_t, int64_t>{0, 4}, {4, 1}, {5, 2}, {7, 1}, {8, 3}})
      parts.push_back(model->forward({.ids = ids.narrow(1, from, count), .cache = &cache}));
    EXPECT_TRUE(torch::allclose(torch::cat(parts, 1), whole, 1e-10, 1e-10));
    EXPECT_EQ(cache.length(), 11);
    if (windows) continue;  // a ring has forgotten what cropping would need
    cache.crop(7);
    EXPECT_TRUE(torch::allclose(model->forward({.ids = ids.narrow(1, 7, 4), .cache = &cache}),
                                whole.narrow(1, 7, 4), 1e-10, 1e-10));
  }
}

TEST(Transformer, TheLastTokenAloneIsTheSame) {
  const torch::NoGradGuard no_gradient;
  for (const BlockOrder order : {BlockOrder::norm_before, BlockOrder::norm_after, BlockOrder::norm_around}) {
    Architecture a = small();
    a.order = order;
    Transformer model = random_model(a);
    model->to(torch::kDouble);
    const at::Tensor ids = some_ids(3, 9), whole = model->forward({.ids = ids}).narrow(1, 8, 1);
    EXPECT_TRUE(torch::allclose(model->forward({.ids = ids, .last_only = true}), whole, 1e-12, 1e-12));
    ModelCache cache = model->make_cache();
    model->forward({.ids = ids.narrow(1, 0, 4), .cache = &cache, .last_only = true});
    EXPECT_TRUE(
        torch::allclose(model->forward({.ids = ids.narrow(1, 4, 5), .cache = &cache, .last_only = true}),
                        whole, 1e-10, 1e-10));
  }
}

TEST(Transformer, SwappedAttentionIsUsedInItsLayerAlone) {
  const torch::NoGradGuard no_gradient;
  Transformer model = random_model(small());
  const at::Tensor ids = some_ids(1, 20), plain = model->forward({.ids = ids});
  model->set_attention(Formula::load("causal"));
  EXPECT_TRUE(torch::equal(model->forward({.ids = ids}), plain));
  std::vector<at::Tensor> own, swapped;
  model->forward({.ids = ids, .hidden_states = &own});
  model->set_attention({Formula::load("causal"), Formula::load("last10")});
  const at::Tensor other = model->forward({.ids = ids, .hidden_states = &swapped});
  EXPECT_TRUE(torch::equal(own[1], swapped[1]));
  EXPECT_TRUE(torch::equal(other.narrow(1, 0, 10), plain.narrow(1, 0, 10)));
  EXPECT_FALSE(torch::allclose(other.narrow(1, 10, 10), plain.narrow(1, 10, 10), 1e-3, 1e-3));
  model->restore_attention();
  EXPECT_TRUE(torch::equal(model->forward({.ids = ids}), plain));
}

TEST(Transformer, ShowsWeightsAndBlocksToWhoeverLooks) {
  const torch::NoGradGuard no_gradient;
  Transformer model = random_model(small());
  const at::Tensor ids = some_ids(2, 7), plain = model->forward({.ids = ids});
  std::vector<at::Tensor> weights, blocks, entered;
  ModelCall call{.ids = ids, .hidden_states = &entered};
  call.on_attention = [&](int64_t layer, const AttentionResult& result) {
    EXPECT_EQ(layer, static_cast<int64_t>(weights.size()));
    weights.push_back(result.weights);
  };
  call.on_block = [&](int64_t layer, const at::Tensor& x) {
    EXPECT_EQ(layer, static_cast<int64_t>(blocks.size()));
    blocks.push_back(x);
  };
  EXPECT_TRUE(torch::allclose(model->forward(call), plain, 1e-4, 1e-5));
  ASSERT_EQ(weights.size(), 2u);
  for (const at::Tensor& map : weights) {
    EXPECT_EQ(map.sizes(), (std::vector<int64_t>{2, 4, 7, 7}));
    EXPECT_TRUE(torch::allclose(map.sum(-1), torch::ones({2, 4, 7})));
  }
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_TRUE(torch::equal(blocks[0], entered[1]));
  EXPECT_FALSE(torch::allclose(blocks[1], entered[2]));  // the last norm comes after it
}

TEST(Transformer, WhatAFormulaLearnsStartsAtItsDeclaredValue) {
  Transformer model = random_model(small());
  model->set_attention(Formula::parse("param alpha[head] = 0.25\nmask = causal\nscore = s - alpha * d"));
  const auto parameters = model->named_parameters();
  const at::Tensor* alpha = parameters.find("block_1.attention.alpha");
  ASSERT_NE(alpha, nullptr);
  EXPECT_TRUE(torch::equal(*alpha, torch::full({4}, 0.25)));
  EXPECT_TRUE(alpha->requires_grad());
}

TEST(Transformer, GradientsReachEveryParameter) {
  Transformer model = random_model(small());
  const at::Tensor ids = some_ids(2, 9);
  model->logits(model->forward({.ids = ids})).square().mean().backward();
  for (const auto& item : model->named_parameters())
    EXPECT_TRUE(item.value().grad().defined() && item.value().grad().abs().sum().item<double>() > 0)
        << item.key();
}

TEST(Transformer, RefusesWhatItCannotDo) {
  Transformer model = random_model(small());
  const auto message = [](const auto& work) -> std::string {
    try {
      work();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_THAT(message([&] {
                model->forward({.ids = torch::full({1, 3}, 50, torch::kLong)});
              }),
              HasSubstr("token 50; expected 0 to 49"));
  EXPECT_THAT(message([&] { model->forward({.ids = torch::zeros({3}, torch::kLong)}); }),
              HasSubstr("shape [3]"));
  EXPECT_THAT(message([&] { model->classify(torch::zeros({1, 2, 32})); }), HasSubstr("no head for labels"));
  EXPECT_THAT(message([&] { model->set_attention(std::vector{Formula::load("causal")}); }),
              HasSubstr("1 formulas for 2 layers"));
  model->set_attention(Formula::load("full"));
  EXPECT_THAT(message([&] { model->make_cache(); }), HasSubstr("cannot decode"));
  Architecture odd = small();
  odd.kv_heads = 3;
  EXPECT_THAT(message([&] { Transformer{odd}; }), HasSubstr("4 heads cannot share 3 key heads"));
}

// A matrix of the file's small integers in front of the same numbers.
TEST(CompactWeight, GivesWhatTheNumbersGiveUntilTheyChange) {
  const torch::NoGradGuard no_gradient;
  torch::manual_seed(3);
  for (const ElementType type :
       {ElementType::Q4_0, ElementType::Q4_1, ElementType::Q5_0, ElementType::Q5_1, ElementType::Q8_0}) {
    for (const int64_t heads : {0, 2}) {
      const int64_t rows = 8, depth = 64, block = format_of(type).block_bytes;
      std::vector<std::byte> bytes(static_cast<size_t>(rows * depth / 32 * block));
      for (size_t at = 0; at < bytes.size(); ++at)
        bytes[at] = static_cast<std::byte>(at % static_cast<size_t>(block) == 1   ? 0x2c
                                           : at % static_cast<size_t>(block) == 3 ? 0xa8
                                                                                  : at * 37 % 251);
      const TensorView view{"w", type, {rows, depth}, bytes};
      Projection projection(depth, rows, false);
      at::Tensor numbers = torch::empty({rows, depth});
      to_floats(view, numbers.data_ptr<float>());
      if (heads > 0)
        numbers = numbers.reshape({heads, rows / heads / 2, 2, depth}).transpose(1, 2).reshape({rows, depth});
      projection->weight.copy_(numbers);
      const at::Tensor x = torch::randn({3, depth}), expected = torch::matmul(x, numbers.t());
      const auto compact = std::make_shared<CompactWeight>();
      compact->append(view, heads);
      compact->stand_for(projection->weight);
      projection->compact = compact;
      EXPECT_TRUE(torch::allclose(projection->forward(x), expected, 1e-4, 1e-4)) << format_of(type).name;
      ASSERT_TRUE(compact->stands_for(projection->weight));
      projection->weight.mul_(2);
      EXPECT_FALSE(compact->stands_for(projection->weight));
      EXPECT_TRUE(torch::allclose(projection->forward(x), 2 * expected, 1e-4, 1e-4)) << format_of(type).name;
    }
  }
}

}  // namespace
}  // namespace saccade
