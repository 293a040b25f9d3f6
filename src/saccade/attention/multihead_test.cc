// MultiheadAttention as a module: what it is made of, what it takes and gives, what it refuses, and how masks
// and formulas go together. That its numbers are torch's is shown in multihead_parity_test.cc.
#include "saccade/attention/multihead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/any.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>
#include <torch/utils.h>

#include <sstream>

#include "saccade/base/error.h"
#include "saccade/formula/mechanisms.h"

namespace saccade::multihead_test {
namespace {

using torch::Tensor;
using Options = MultiheadAttentionOptions;

constexpr int64_t kWidth = 12, kHeads = 3;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Multihead : public testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(20240602); }
};

Tensor randn(std::vector<int64_t> shape) { return torch::randn(shape, torch::kDouble); }

MultiheadAttention make(Options options) {
  options.embed_dim = kWidth;
  options.num_heads = kHeads;
  MultiheadAttention module(options);
  module->to(torch::kDouble);
  torch::NoGradGuard no_gradient;
  for (Tensor& parameter : module->parameters(false)) parameter.normal_(0, 0.25);
  return module;
}

MultiheadAttention make(const std::string& formula) {
  return make(Options{.formula = Formula::parse(formula)});
}

torch::nn::MultiheadAttention make_torch(const Options& options) {
  const auto or_width = [](int64_t width) { return width == 0 ? kWidth : width; };
  return torch::nn::MultiheadAttention(torch::nn::MultiheadAttentionOptions(kWidth, kHeads)
                                           .bias(options.bias)
                                           .add_bias_kv(options.add_bias_kv)
                                           .add_zero_attn(options.add_zero_attn)
                                           .kdim(or_width(options.kdim))
                                           .vdim(or_width(options.vdim)));
}

std::map<std::string, Tensor> values_of(const torch::nn::Module& module) {
  std::map<std::string, Tensor> values;
  for (const auto& parameter : module.named_parameters())
    values[parameter.key()] = parameter->detach().clone();
  return values;
}

void expect_same_values(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_TRUE(torch::equal(tensor, b.at(name))) << name;
  }
}

// Two ways to the same number, in double: they differ by roundings, of which there are as many as summands.
void expect_close(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.sizes(), b.sizes());
  if (a.numel() == 0) return;
  const double largest = std::max(1.0, b.abs().max().item<double>());
  const double summands = 4 * kWidth;  // of the longest chain of sums: projections, scores, values, output
  const double cancellation = 16;      // how much larger summands are than their sum
  const double epsilon = std::numeric_limits<double>::epsilon();
  EXPECT_LE((a - b).abs().max().item<double>(), epsilon * summands * cancellation * largest);
}

template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

const std::vector<Options> kOptionTable = {
    {},
    {.bias = false},
    {.add_bias_kv = true},
    {.add_zero_attn = true},
    {.bias = false, .add_bias_kv = true, .kdim = 7, .vdim = 5},
    {.kdim = 20, .vdim = 20},
};

// --- parameters

TEST_F(Multihead, StartsAsTorchDoesForTheSameSeed) {
  for (Options options : kOptionTable) {
    options.embed_dim = kWidth;
    options.num_heads = kHeads;
    torch::manual_seed(3);
    const auto theirs = make_torch(options);
    torch::manual_seed(3);
    const MultiheadAttention ours(options);
    expect_same_values(values_of(*ours), values_of(*theirs));
    std::vector<std::string> our_names, their_names;
    for (const auto& parameter : ours->named_parameters()) our_names.push_back(parameter.key());
    for (const auto& parameter : theirs->named_parameters()) their_names.push_back(parameter.key());
    EXPECT_THAT(our_names, testing::UnorderedElementsAreArray(their_names));
  }
}

TEST_F(Multihead, ReadsWhatTorchSavedAndTheOtherWayRound) {
  for (Options options : kOptionTable) {
    options.embed_dim = kWidth;
    options.num_heads = kHeads;
    const MultiheadAttention source(options);
    auto theirs = make_torch(options);
    MultiheadAttention target(options);
    std::stringstream ours_saved, theirs_saved;
    torch::save(source, ours_saved);
    torch::load(theirs, ours_saved);
    expect_same_values(values_of(*theirs), values_of(*source));
    torch::save(theirs, theirs_saved);
    torch::load(target, theirs_saved);
    expect_same_values(values_of(*target), values_of(*source));
    // What was loaded is what a call uses.
    const Tensor query = torch::randn({4, 2, kWidth}), key = torch::randn({5, 2, target->options.kdim}),
                 value = torch::randn({5, 2, target->options.vdim});
    EXPECT_TRUE(torch::equal(std::get<0>(target->forward(query, key, value)),
                             std::get<0>(source.ptr()->forward(query, key, value))));
  }
}

TEST_F(Multihead, NamesWhatTheFormulaLearns) {
  const auto names_of = [](const std::string& mechanism) {
    const MultiheadAttention module(
        Options{.embed_dim = kWidth, .num_heads = kHeads, .formula = Formula::load(mechanism)});
    std::vector<std::string> names;
    for (const auto& parameter : module->named_parameters())
      if (parameter.key().find("proj") == std::string::npos) names.push_back(parameter.key());
    return names;
  };
  using testing::ElementsAre;
  EXPECT_THAT(names_of("alibi"), ElementsAre());
  EXPECT_THAT(names_of("prior"), ElementsAre("attention.alpha", "attention.beta"));
  EXPECT_THAT(names_of("gpam"), ElementsAre("attention.lp", "attention.ln", "attention.q2.linear.weight"));
}

TEST_F(Multihead, ClonesWithAllItLearned) {
  auto module = make("param a[head] = 1 ; score = s - a * abs(d)");
  torch::NoGradGuard no_gradient;
  module->attention->named_parameters()["a"].fill_(3);
  const auto copy = std::dynamic_pointer_cast<MultiheadAttentionImpl>(module->clone());
  expect_same_values(values_of(*copy), values_of(*module));
  const Tensor x = randn({4, 2, kWidth}), hidden = torch::ones({4, 4}).triu(1).to(torch::kBool);
  EXPECT_TRUE(torch::equal(std::get<0>(copy->forward(x, x, x, {}, true, hidden)),
                           std::get<0>(module->forward(x, x, x, {}, true, hidden))));
  copy->attention->named_parameters()["a"].fill_(5);
  EXPECT_EQ(module->attention->named_parameters()["a"][0].item<double>(), 3);
}

TEST_F(Multihead, CanBeCalledThroughAnyModule) {
  auto module = make(Options{});
  torch::nn::AnyModule any(module);
  const Tensor x = randn({4, 2, kWidth});
  const auto [output, weights] = any.forward<std::tuple<Tensor, Tensor>>(x, x, x);
  EXPECT_TRUE(torch::equal(output, std::get<0>(module->forward(x, x, x))));
}

// --- arguments and results

TEST_F(Multihead, GivesWeightsOnRequestAndAveragedIfWanted) {
  auto module = make(Options{.add_zero_attn = true});
  const Tensor query = randn({4, 2, kWidth}), key = randn({5, 2, kWidth});
  const auto [output, average] = module->forward(query, key, key);
  const auto [same_output, each] = module->forward(query, key, key, {}, true, {}, false);
  const auto [lone_output, none] = module->forward(query, key, key, {}, false);
  EXPECT_FALSE(none.defined());
  expect_close(output, lone_output);
  EXPECT_EQ(each.sizes(), (std::vector<int64_t>{2, kHeads, 4, 6}));
  EXPECT_EQ(average.sizes(), (std::vector<int64_t>{2, 4, 6}));
  expect_close(average, each.mean(1));
  expect_close(each.sum(-1), torch::ones({2, kHeads, 4}, torch::kDouble));
}

// Which arguments are one tensor decides how they are projected and what a formula sees, not the numbers.
TEST_F(Multihead, GivesTheSameForOneTensorAndItsCopies) {
  auto module = make(Options{});
  const Tensor x = randn({4, 2, kWidth}), y = randn({4, 2, kWidth});
  expect_close(std::get<0>(module->forward(x, x, x)), std::get<0>(module->forward(x, x.clone(), x.clone())));
  expect_close(std::get<0>(module->forward(x, x, y)), std::get<0>(module->forward(x, x.clone(), y)));
  expect_close(std::get<0>(module->forward(x, y, y)), std::get<0>(module->forward(x, y, y.clone())));
}

TEST_F(Multihead, TakesTheBatchFirst) {
  auto first = make(Options{.add_bias_kv = true, .batch_first = true});
  auto second = make(Options{.add_bias_kv = true});
  torch::NoGradGuard no_gradient;
  for (const auto& parameter : second->named_parameters())
    parameter->copy_(first->named_parameters()[parameter.key()]);
  const Tensor query = randn({2, 4, kWidth}), key = randn({2, 5, kWidth});
  const auto [output, weights] = first->forward(query, key, key);
  const auto [expected, expected_weights] =
      second->forward(query.transpose(0, 1), key.transpose(0, 1), key.transpose(0, 1));
  expect_close(output, expected.transpose(0, 1));
  expect_close(weights, expected_weights);
}

TEST_F(Multihead, TakesOneSequenceWithoutBatch) {
  for (bool batch_first : {false, true}) {
    auto module = make(Options{.batch_first = batch_first});
    const int64_t place = batch_first ? 0 : 1;
    const Tensor query = randn({4, kWidth}), key = randn({5, kWidth}), mask = randn({kHeads, 4, 5});
    const Tensor padding = torch::tensor({false, false, true, false, true});
    const auto [output, weights] = module->forward(query, key, key, padding, true, mask);
    const auto [expected, expected_weights] = module->forward(
        query.unsqueeze(place), key.unsqueeze(place), key.unsqueeze(place), padding.unsqueeze(0), true, mask);
    EXPECT_TRUE(torch::equal(output, expected.squeeze(place)));
    EXPECT_TRUE(torch::equal(weights, expected_weights.squeeze(0)));
  }
}

TEST_F(Multihead, DropsOnlyInTraining) {
  auto module = make(Options{.dropout = 0.5});
  const Tensor x = randn({16, 2, kWidth});
  module->eval();
  const Tensor kept = std::get<1>(module->forward(x, x, x, {}, true, {}, false));
  EXPECT_TRUE(kept.gt(0).all().item<bool>());
  module->train();
  const Tensor dropped = std::get<1>(module->forward(x, x, x, {}, true, {}, false));
  expect_close(dropped, torch::where(dropped == 0, 0, 2 * kept));
  // Of 1536 weights half are dropped; five standard deviations are 98.
  EXPECT_NEAR(dropped.eq(0).sum().item<int64_t>(), 768, 98);
}

// --- masks

TEST_F(Multihead, AttendsToNothingWhereTorchGivesNaN) {
  auto module = make(Options{});
  auto theirs = make_torch({});
  theirs->to(torch::kDouble);
  const Tensor x = randn({3, 2, kWidth}).requires_grad_();
  const Tensor hidden = torch::tensor({{false, true, true}, {true, true, true}, {false, false, false}});
  const Tensor real = torch::zeros({3, 3}, torch::kDouble).masked_fill(hidden, -kInfinity);
  const Tensor all_padding = torch::tensor({{true, true, true}, {false, false, false}});
  EXPECT_TRUE(std::get<0>(theirs->forward(x, x, x, {}, true, real))[1].isnan().all().item<bool>());
  for (const Tensor& mask : {hidden, real}) {
    const auto [output, weights] = module->forward(x, x, x, {}, true, mask);
    EXPECT_EQ(weights.select(1, 1).abs().max().item<double>(), 0);
    EXPECT_TRUE(torch::equal(output[1], module->out_proj->bias.expand({2, kWidth})));
    EXPECT_GT(weights.select(1, 2).min().item<double>(), 0);
  }
  const auto [output, weights] = module->forward(x, x, x, all_padding, true, real);
  EXPECT_EQ(weights[0].abs().max().item<double>(), 0);
  (output.sum() + weights.square().sum()).backward();
  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
  EXPECT_EQ(x.grad().select(1, 0).abs().max().item<double>(), 0);
  for (const Tensor& parameter : module->parameters())
    EXPECT_TRUE(parameter.grad().isfinite().all().item<bool>());
}

TEST_F(Multihead, TakesPaddingAsNumbersToAdd) {
  auto module = make(Options{.add_bias_kv = true});
  const Tensor query = randn({4, 2, kWidth}), key = randn({5, 2, kWidth});
  const Tensor padded =
      torch::tensor({{false, false, true, false, true}, {true, false, false, false, false}});
  const Tensor real = torch::zeros({2, 5}, torch::kDouble).masked_fill(padded, -kInfinity);
  const Tensor hidden = torch::rand({4, 5}).gt(0.6), bias = randn({2 * kHeads, 4, 5});
  for (const Tensor& mask : {Tensor(), hidden, bias})
    expect_close(std::get<0>(module->forward(query, key, key, real, true, mask)),
                 std::get<0>(module->forward(query, key, key, padded, true, mask)));
  // And numbers other than -inf are added.
  const Tensor numbers = randn({2, 5});
  const Tensor spread = numbers.view({2, 1, 1, 5}).expand({2, kHeads, 4, 5}).reshape({2 * kHeads, 4, 5});
  expect_close(std::get<0>(module->forward(query, key, key, numbers, true, bias)),
               std::get<0>(module->forward(query, key, key, {}, true, bias + spread)));
}

// A hidden pair weighs nothing, whatever the formula makes of its score, and in either form of mask.
TEST_F(Multihead, HidesPairsFromEveryShippedMechanism) {
  for (const EmbeddedMechanism& mechanism : embedded_mechanisms()) {
    SCOPED_TRACE(mechanism.name);
    const auto formula = Formula::load(std::string(mechanism.name));
    if (std::ranges::any_of(formula.plan().tables,
                            [](const TableInfo& table) { return table.source == TableInfo::Source::input; }))
      continue;
    auto module = make(Options{.formula = formula});
    const Tensor x = randn({8, 2, kWidth}).requires_grad_(), hidden = torch::rand({8, 8}).gt(0.5);
    const Tensor real = torch::zeros({8, 8}, torch::kDouble).masked_fill(hidden, -kInfinity);
    const auto [output, weights] = module->forward(x, x, x, {}, true, hidden, false);
    const auto [same_output, same_weights] = module->forward(x, x, x, {}, true, real, false);
    EXPECT_EQ(weights.masked_select(hidden).abs().max().item<double>(), 0);
    expect_close(same_weights, weights);
    expect_close(same_output, output);
    const auto gradients = torch::autograd::grad({output.square().sum()}, {x});
    const auto same_gradients = torch::autograd::grad({same_output.square().sum()}, {x});
    EXPECT_TRUE(gradients[0].isfinite().all().item<bool>());
    expect_close(same_gradients[0], gradients[0]);
  }
}

// --- formulas

TEST_F(Multihead, TakesAMechanismThatIsAFormulaOrAMask) {
  auto formula = make(Options{.formula = Formula::load("alibi")});
  auto plain = make(Options{});
  torch::NoGradGuard no_gradient;
  for (const auto& parameter : plain->named_parameters())
    parameter->copy_(formula->named_parameters()[parameter.key()]);
  const Tensor x = randn({6, 2, kWidth}), place = torch::arange(6, torch::kDouble);
  const Tensor distance = place.unsqueeze(1) - place;
  std::vector<Tensor> masks;
  for (int64_t batch = 0; batch < 2; ++batch)
    for (int64_t head = 0; head < kHeads; ++head)
      masks.push_back((-std::exp2(-8.0 * static_cast<double>(head + 1) / kHeads) * distance)
                          .masked_fill(distance < 0, -kInfinity));
  expect_close(std::get<0>(formula->forward(x, x, x)),
               std::get<0>(plain->forward(x, x, x, {}, true, torch::stack(masks))));
}

TEST_F(Multihead, TrainsWhatTheFormulaLearns) {
  auto module = make(Options{.formula = Formula::load("prior")});
  const Tensor x = randn({8, 4, kWidth}), target = 0.5 * randn({8, 4, kWidth});
  const Tensor hidden = torch::zeros({8, 8}, torch::kBool).index_fill(1, torch::tensor({2}), true);
  torch::optim::SGD optimiser(module->parameters(), 0.1);
  const Tensor start = module->attention->named_parameters()["alpha"].detach().clone();
  std::vector<double> losses;
  for (int step = 0; step < 10; ++step) {
    optimiser.zero_grad();
    // By turns without and with a mask: what is learned must be the same.
    const Tensor mask = step % 2 == 0 ? Tensor() : hidden;
    const Tensor loss = (std::get<0>(module->forward(x, x, x, {}, false, mask)) - target).square().mean();
    loss.backward();
    EXPECT_GT(module->attention->named_parameters()["alpha"].grad().abs().max().item<double>(), 0);
    optimiser.step();
    module->attention->clamp_parameters();
    losses.push_back(loss.item<double>());
  }
  EXPECT_FALSE(torch::equal(module->attention->named_parameters()["alpha"], start));
  EXPECT_LT(losses[8], losses[0]);
  EXPECT_LT(losses[9], losses[1]);
}

TEST_F(Multihead, HandsOnTheInputsOfTheFormula) {
  auto module = make("input doc[token]: int ; mask = doc[i] == doc[j]");
  const Tensor x = randn({4, 2, kWidth});
  const Tensor documents = torch::tensor({{0, 0, 1, 1}, {0, 1, 1, 1}});
  const Tensor hidden = documents.unsqueeze(2).ne(documents.unsqueeze(1));
  const auto weights = std::get<1>(module->forward(x, x, x, {}, true, {}, true, {{"doc", documents}}));
  EXPECT_TRUE(torch::equal(weights == 0, hidden));
  const Tensor future = torch::ones({4, 4}).triu(1).to(torch::kBool);
  const auto causal_weights =
      std::get<1>(module->forward(x, x, x, {}, true, future, true, {{"doc", documents}}));
  EXPECT_TRUE(torch::equal(causal_weights == 0, hidden.logical_or(future)));
}

TEST_F(Multihead, GivesTheFormulaTheInputsOfQueriesAndKeys) {
  const std::string two_maps =
      "vector q2 = project(x) ; vector k2 = project(x) ; stream t = q2 . k2 ; weights = softmax(t)";
  for (bool batch_first : {false, true}) {
    auto module = make(Options{.batch_first = batch_first, .formula = Formula::parse(two_maps)});
    const Tensor query = randn({2, 4, kWidth}), key = randn({2, 5, kWidth});
    const auto given = [&](const Tensor& tensor) { return batch_first ? tensor : tensor.transpose(0, 1); };
    const auto project = [&](const char* name, const Tensor& input) {
      return at::linear(input,
                        module->named_parameters()[std::string("attention.") + name + ".project.weight"])
          .unflatten(2, {kHeads, -1})
          .transpose(1, 2);
    };
    const auto expected = [&](const Tensor& queries, const Tensor& keys) {
      const Tensor product = torch::matmul(project("q2", queries), project("k2", keys).transpose(-2, -1));
      return torch::softmax(product / std::sqrt(static_cast<double>(kWidth / kHeads)), -1).mean(1);
    };
    expect_close(std::get<1>(module->forward(given(query), given(key), given(key))), expected(query, key));
    const Tensor same = given(query);
    expect_close(std::get<1>(module->forward(same, same, same)), expected(query, query));
  }
  // fox reads one number per token for queries and keys alike, which only self-attention has.
  auto fox = make(Options{.formula = Formula::load("fox")});
  const Tensor x = randn({4, 2, kWidth});
  EXPECT_EQ(std::get<0>(fox->forward(x, x, x)).sizes(), x.sizes());
  EXPECT_THAT(error_of([&] { fox->forward(x, x.clone(), x); }), testing::HasSubstr("different inputs"));
}

// --- errors

TEST_F(Multihead, RefusesOptionsThatDoNotFit) {
  const auto error = [](const Options& options) { return error_of([&] { MultiheadAttention{options}; }); };
  EXPECT_EQ(error({.embed_dim = 10, .num_heads = 3}),
            "multihead: embed_dim 10 is not a multiple of num_heads 3");
  EXPECT_EQ(error({.num_heads = 3}), "multihead: embed_dim is 0; expected at least 1");
  EXPECT_EQ(error({.embed_dim = 10}), "multihead: num_heads is 0; expected at least 1");
  EXPECT_EQ(error({.embed_dim = 10, .num_heads = 2, .dropout = 1}),
            "multihead: dropout is 1; expected 0 or more and less than 1");
  EXPECT_EQ(error({.embed_dim = 10, .num_heads = 2, .kdim = -1}),
            "multihead: kdim is -1; expected at least 1, or 0 for embed_dim");
}

TEST_F(Multihead, RefusesAppendedKeysWhereAFormulaNeedsTheirPlace) {
  const auto error = [](const std::string& text, Options options) {
    options.embed_dim = kWidth;
    options.num_heads = kHeads;
    options.formula = Formula::parse(text);
    return error_of([&] { MultiheadAttention{options}; });
  };
  EXPECT_EQ(
      error("mask = causal", {.add_bias_kv = true}),
      "multihead: a key that add_bias_kv appends has no position, but the formula 'formula' uses positions");
  EXPECT_EQ(error("input a[key] ; score = s + a[j]", {.add_zero_attn = true}),
            "multihead: a key that add_zero_attn appends has no position, but the formula 'formula' uses "
            "positions");
  EXPECT_EQ(
      error("score = s * log(n)", {.add_zero_attn = true}),
      "multihead: a key that add_zero_attn appends is no token, but the formula 'formula' uses n, their "
      "number");
  const std::string from_keys = "vector k2 = project(x) ; stream t = q . k2 ; weights = softmax(t)";
  EXPECT_EQ(error(from_keys, {.add_bias_kv = true}),
            "multihead: a key that add_bias_kv appends is no token, but the formula 'formula' computes 'k2' "
            "from each key's token");
  EXPECT_EQ(error(from_keys, {.kdim = 7}),
            "multihead: the formula 'formula' computes 'k2' from the input of the keys, whose kdim is 7; "
            "expected embed_dim 12");
  EXPECT_EQ(error("const n = 64 ; score = 50 * tanh(s / n)", {.add_bias_kv = true}), "no error");
}

TEST_F(Multihead, RefusesArgumentsThatDoNotFit) {
  auto module = make(Options{.kdim = 7});
  const Tensor query = randn({4, 2, kWidth}), key = randn({5, 2, 7}), value = randn({5, 2, kWidth});
  const auto error = [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding = {},
                         const Tensor& mask = {}, const MultiheadAttentionImpl::Inputs& inputs = {}) {
    return error_of([&] { module->forward(q, k, v, padding, true, mask, true, inputs); });
  };
  EXPECT_EQ(error(query, key, value), "no error");
  EXPECT_EQ(error(query, {}, value), "multihead: key is missing");
  EXPECT_EQ(error(query, key[0], value),
            "multihead: key has shape [2, 7]; expected [tokens, batch, 7], or without batch");
  EXPECT_EQ(error(query, value, value), "multihead: key has width 12; expected kdim 7");
  EXPECT_EQ(error(query, key.slice(1, 0, 1), value), "multihead: key has batch size 1, query has 2");
  EXPECT_EQ(error(query, key, value.slice(0, 0, 3)),
            "multihead: value has 3 tokens, key has 5; expected the same");
  EXPECT_EQ(error(query.to(torch::kFloat), key, value),
            "multihead: query has dtype Float, the weights have Double");
  EXPECT_EQ(error(query, key, value, torch::zeros({5, 2}, torch::kBool)),
            "multihead: key_padding_mask has shape [5, 2]; expected [2, 5]");
  EXPECT_EQ(error(query, key, value, torch::zeros({2, 5}, torch::kLong)),
            "multihead: key_padding_mask has dtype Long; expected bool or a floating type");
  EXPECT_EQ(error(query, key, value, {}, randn({5, 4})),
            "multihead: attn_mask has shape [5, 4]; expected [4, 5] or [6, 4, 5]");
  EXPECT_EQ(error(query, key, value, {}, torch::zeros({4, 5}, torch::kByte)),
            "multihead: attn_mask has dtype Byte; expected bool or a floating type");
  for (const Tensor& mask : {Tensor(), randn({4, 5})})
    EXPECT_THAT(error(query, key, value, {}, mask, {{"attn_mask", randn({4, 5})}}),
                testing::HasSubstr("the formula 'full' has no input 'attn_mask'"));
}

}  // namespace
}  // namespace saccade::multihead_test
