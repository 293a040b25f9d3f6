// What training needs of a model: starting weights, dropout that can be repeated, blocks that are computed
// again, the gradients of norms and gates, queries looked up by the token, and files that lose nothing.
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "saccade/base/testing.h"
#include "saccade/models/gates.h"
#include "saccade/models/initialise.h"
#include "saccade/models/layers.h"
#include "saccade/models/model_files.h"
#include "saccade/models/rms_norm.h"

namespace saccade {
namespace {

Architecture small() {
  Architecture a;
  a.family = "saccade";
  a.vocabulary = 40;
  a.width = 24;
  a.layers = 3;
  a.heads = 4;
  a.kv_heads = 2;
  a.head_dim = 6;
  a.inner = 32;
  a.context = 64;
  a.rotary = RotaryOptions{};
  return a;
}

Transformer started(const Architecture& a, uint64_t seed = 1) {
  Transformer model(a);
  initialise(model, {.seed = seed, .deviation = 0.2});
  return model;
}

at::Tensor ids_of(int64_t batch, int64_t tokens) {
  torch::manual_seed(3);
  return torch::randint(40, {batch, tokens}, torch::kLong);
}

at::Tensor loss_of(Transformer model, const ModelCall& call) {
  return model->logits(model->forward(call)).square().mean();
}

TEST(Initialise, DependsOnSeedAndNameAlone) {
  const Architecture a = small();
  Transformer causal = started(a), prior(a);
  prior->set_attention(Formula::load("gpam"));
  initialise(prior, {.seed = 1, .deviation = 0.2});
  const auto learned = prior->named_parameters();
  for (const auto& item : causal->named_parameters())
    EXPECT_TRUE(torch::equal(item.value(), learned[item.key()])) << item.key();
  EXPECT_FALSE(
      torch::equal(causal->named_parameters()["tokens"], started(a, 2)->named_parameters()["tokens"]));
  Transformer again(a);
  again->set_attention(Formula::load("gpam"));
  initialise(again, {.seed = 1, .deviation = 0.2});
  for (const auto& item : again->named_parameters())
    EXPECT_TRUE(torch::equal(item.value(), learned[item.key()])) << item.key();
  EXPECT_NEAR(learned["block_0.mlp.up.weight"].std().item<double>(), 0.2, 0.02);
  EXPECT_NEAR(learned["block_0.mlp.down.weight"].std().item<double>(), 0.2 / std::sqrt(6.0), 0.01);
}

TEST(Recompute, GivesTheSameGradients) {
  Architecture a = small();
  a.dropout = 0.3;
  for (const char* formula : {"causal", "gpam", "diff"}) {
    Transformer model = started(a);
    model->set_attention(Formula::load(formula));
    initialise(model, {.seed = 1, .deviation = 0.2});
    const ModelCall call{.ids = ids_of(2, 9), .dropout_seed = 5};
    const at::Tensor plain = loss_of(model, call);
    plain.backward();
    std::map<std::string, at::Tensor> expected;
    for (const auto& item : model->named_parameters()) expected[item.key()] = item.value().grad().clone();
    model->zero_grad();
    ModelCall less = call;
    less.recompute = true;
    const at::Tensor again = loss_of(model, less);
    again.backward();
    EXPECT_EQ(plain.item<float>(), again.item<float>());
    for (const auto& item : model->named_parameters())
      EXPECT_TRUE(torch::allclose(item.value().grad(), expected[item.key()], 1e-5, 1e-8)) << item.key();
  }
}

TEST(Dropout, FollowsItsSeedAndEndsWithTraining) {
  Architecture a = small();
  a.dropout = 0.5;
  Transformer model = started(a);
  const at::Tensor ids = ids_of(1, 8);
  const auto value = [&](uint64_t seed) {
    return loss_of(model, {.ids = ids, .dropout_seed = seed}).item<float>();
  };
  EXPECT_EQ(value(1), value(1));
  EXPECT_NE(value(1), value(2));
  model->eval();
  EXPECT_EQ(value(1), value(2));
}

TEST(RmsNorm, HasItsGradient) {
  torch::manual_seed(1);
  for (const int64_t width : {1, 7, 64, 100}) {
    const at::Tensor x = torch::randn({3, 5, width}, torch::kDouble).requires_grad_(),
                     weight = torch::randn({width}, torch::kDouble).requires_grad_(),
                     along = torch::randn({3, 5, width}, torch::kDouble);
    const at::Tensor plain = x * torch::rsqrt(x.square().mean(-1, true) + 1e-5) * weight;
    const auto expected = torch::autograd::grad({(plain * along).sum()}, {x, weight});
    const at::Tensor ours = rms_norm(x, weight, 1e-5);
    const auto found = torch::autograd::grad({(ours * along).sum()}, {x, weight});
    EXPECT_TRUE(torch::allclose(ours, plain, 1e-12, 1e-12));
    for (size_t which : {0, 1})
      EXPECT_TRUE(torch::allclose(found[which], expected[which], 1e-10, 1e-12)) << width << " " << which;
  }
}

// What a function of some tensors gives, and the gradients of its product with fixed numbers.
std::vector<at::Tensor> with_gradients(const std::vector<at::Tensor>& inputs,
                                       const std::function<std::vector<at::Tensor>()>& function) {
  std::vector<at::Tensor> results = function();
  at::Tensor sum = torch::zeros({}, inputs[0].options());
  torch::manual_seed(7);
  for (const at::Tensor& result : results) sum = sum + (result * torch::randn_like(result)).sum();
  for (const at::Tensor& gradient : torch::autograd::grad({sum}, inputs)) results.push_back(gradient);
  return results;
}

void expect_alike(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected,
                  double rounding) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t which = 0; which < found.size(); ++which)
    EXPECT_TRUE(torch::allclose(found[which], expected[which], rounding, rounding)) << which;
}

TEST(RmsNorm, OfABranchIsThatOfTheSum) {
  torch::manual_seed(1);
  for (const auto type : {torch::kDouble, torch::kFloat}) {
    const auto random = [&](at::IntArrayRef shape) { return torch::randn(shape, type).requires_grad_(); };
    const at::Tensor x = random({2, 300, 100}), change = random({2, 300, 100}), weight = random({100});
    const double rounding = type == torch::kDouble ? 1e-10 : 2e-4;
    const auto pair = [](const Branch& branch) { return std::vector{branch.stream, branch.normed}; };
    const auto plain = [&](const at::Tensor& stream) {
      return std::vector{stream, stream * torch::rsqrt(stream.square().mean(-1, true) + 1e-5) * weight};
    };
    expect_alike(
        with_gradients({x, change, weight}, [&] { return pair(rms_norm_branch(x, change, weight, 1e-5)); }),
        with_gradients({x, change, weight}, [&] { return plain(x + change); }), rounding);
    expect_alike(with_gradients({x, weight}, [&] { return pair(rms_norm_branch(x, {}, weight, 1e-5)); }),
                 with_gradients({x, weight}, [&] { return plain(x); }), rounding);
    const torch::NoGradGuard no_gradient;
    expect_alike(pair(rms_norm_branch(x, change.clone(), weight, 1e-5)), plain(x + change), rounding);
  }
}

TEST(Gates, HaveTheirGradient) {
  torch::manual_seed(1);
  for (const Activation activation :
       {Activation::silu, Activation::gelu_tanh, Activation::relu, Activation::gelu})
    for (const auto type : {torch::kDouble, torch::kFloat, torch::kBFloat16})
      for (const int64_t inner : {1, 7, 64, 100}) {
        const at::Tensor wide = (3 * torch::randn({2, 150, 2 * inner}, type)).detach().requires_grad_();
        // Far out, torch's own derivatives lose digits: a float is held to doubles. bfloat16 goes the plain
        // way.
        const at::Tensor exact = type == torch::kFloat ? wide.to(torch::kDouble) : wide;
        const auto plain = [&] {
          const std::vector<at::Tensor> halves = exact.split(inner, -1);
          return std::vector{(activate(activation, halves[0]) * halves[1]).to(type)};
        };
        const auto ours = [&] { return std::vector{open_gates(activation, wide)}; };
        const double rounding = type == torch::kDouble ? 1e-11 : type == torch::kFloat ? 1e-4 : 0;
        expect_alike(with_gradients({wide}, ours), with_gradients({wide}, plain), rounding);
        const torch::NoGradGuard no_gradient;
        expect_alike(ours(), plain(), rounding);
      }
}

TEST(EmbeddedQkv, LooksUpByTheTokenAndDecodes) {
  for (const EmbeddedQkv kind : {EmbeddedQkv::first, EmbeddedQkv::all}) {
    Architecture a = small();
    a.embedded_qkv = kind;
    Transformer model = started(a);
    const auto names = model->named_parameters();
    EXPECT_TRUE(names.contains("block_0.token_projection"));
    EXPECT_EQ(names.contains("block_1.token_projection"), kind == EmbeddedQkv::all);
    EXPECT_EQ(names.contains("block_1.projection.weight"), kind == EmbeddedQkv::first);
    const at::Tensor ids = ids_of(2, 7);
    loss_of(model, {.ids = ids}).backward();
    EXPECT_GT(names["block_0.token_projection"].grad().abs().sum().item<double>(), 0);
    const torch::NoGradGuard no_gradient;
    ModelCache cache = model->make_cache();
    const at::Tensor whole = model->forward({.ids = ids});
    model->forward({.ids = ids.narrow(1, 0, 4), .cache = &cache});
    EXPECT_TRUE(torch::allclose(model->forward({.ids = ids.narrow(1, 4, 3), .cache = &cache}),
                                whole.narrow(1, 4, 3), 1e-4, 1e-5));
  }
}

TEST(Documents, DoNotSeeEachOther) {
  for (const char* formula : {"causal", "gpam", "prior", "diff"}) {
    Transformer model = started(small());
    model->set_attention(Formula::load(formula));
    initialise(model, {.seed = 1, .deviation = 0.2});
    model->to(torch::kDouble);
    const at::Tensor ids = ids_of(1, 12),
                     documents = torch::tensor({0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1}).unsqueeze(0);
    const at::Tensor packed = model->forward({.ids = ids, .documents = documents});
    const at::Tensor first = model->forward({.ids = ids.narrow(1, 0, 5)}),
                     second = model->forward({.ids = ids.narrow(1, 5, 7)});
    EXPECT_TRUE(torch::allclose(packed.narrow(1, 0, 5), first, 1e-9, 1e-10)) << formula;
    EXPECT_TRUE(torch::allclose(packed.narrow(1, 5, 7), second, 1e-9, 1e-10)) << formula;
    packed.square().mean().backward();
    for (const auto& item : model->named_parameters())
      EXPECT_TRUE(item.value().grad().defined()) << item.key();
  }
}

using NativeFiles = DirectoryTest;

TEST_F(NativeFiles, LoseNothing) {
  Architecture a = small();
  a.embedded_qkv = EmbeddedQkv::first;
  a.query_key_norm = true;
  a.learned_positions = true;
  a.rotary.reset();
  a.norm = NormKind::layer;
  a.activation = Activation::gelu_tanh;
  a.gated = false;
  a.tied = false;
  a.dropout = 0.1;
  a.eos = {0};
  Transformer model = started(a);
  model->set_attention(Formula::load("prior", {{"alpha", 0.25}}));
  initialise(model, {.seed = 4});
  {
    const torch::NoGradGuard no_gradient;
    model->named_parameters()["block_1.attention.alpha"].fill_(0.75);
  }
  save_model(model, at("model"));
  Transformer again = load_model(at("model"));
  const auto before = model->named_parameters(), after = again->named_parameters();
  ASSERT_EQ(before.size(), after.size());
  for (const auto& item : before) EXPECT_TRUE(torch::equal(item.value(), after[item.key()])) << item.key();
  model->eval();
  const torch::NoGradGuard no_gradient;
  EXPECT_TRUE(torch::equal(model->logits(model->forward({.ids = ids_of(1, 9)})),
                           again->logits(again->forward({.ids = ids_of(1, 9)}))));
  EXPECT_EQ(again->architecture().dropout, 0.1);
  EXPECT_EQ(again->architecture().eos, std::vector<int64_t>{0});
}

}  // namespace
}  // namespace saccade
