// Gradients of whole formulas by numerical differences: of query, key, value, the layer's input, real inputs
// and everything learned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "saccade/attention/attention.h"
#include "saccade/attention/testing.h"

namespace saccade::gradients_test {
namespace {

using test::Seeded;
using torch::Tensor;

constexpr uint64_t kSeed = 20240606;
constexpr int64_t kBatch = 2, kHeads = 2, kTokens = 3, kWidth = 2, kModel = 2;

struct GradientCase {
  std::string name, text;
  std::map<std::string, std::vector<int64_t>> inputs;  // real ones, by shape
  bool rotary = false;
};
void PrintTo(const GradientCase& what, std::ostream* out) { *out << what.text; }

const std::vector<GradientCase> kCases = {
    {"prior",
     "param alpha[head] = 1\nparam beta[head] = 0.6 in [0.01, 4]\nmask = causal\n"
     "score = s - abs(alpha * d) ^ beta"},
    {"alibi", "mask = causal\nscore = s - 2 ^ (-8 * (h + 1) / H) * d"},
    {"dual",
     "vector q2 = linear(relu(q))\nstream t = q2 . k\nparam lp[head] = 0.1\nparam ln[head] = 0.2\n"
     "weights = (1 + lp) * softmax(s) - ln * softmax(t)",
     {},
     true},
    {"difference",
     "vector q2 = project(x)\nvector k2 = norm(project(x) + k)\nstream t = q2 . k2\n"
     "param lam[head] = 0.8\nmask = causal\nweights = softmax(s) - lam * softmax(t)",
     {},
     true},
    {"forgetting", "token F = cumsum(logsigmoid(project(x)))\nmask = causal\nscore = s + F[i] - F[j]"},
    {"host arithmetic",
     "param g[head] = 0.5\nconst c = 2\n"
     "token F = c * cumsum(g * project(x) - logsigmoid(-project(x)))\n"
     "weights = sigmoid(s + F[j])"},
    {"bucket table", "param b[head, 3] = 0.1\nmask = causal\nscore = s + b[min(d, 1) + floor(d / 2)]"},
    {"learned sink", "param z[head] = 0.3\nmask = causal\nweights = softmax(s, sink = z)"},
    {"sink by query",
     "input z[query]\nmask = d > 0\nweights = softmax(s, sink = z[i] * s0)\nparam s0 = 0.5",
     {{"z", {kTokens}}}},
    {"softpick", "mask = causal\nweights = softpick(s + 0.1)"},
    {"l1", "mask = causal\nweights = l1(s)"},
    {"signed", "weights = sign(s) * softmax(abs(s))"},
    {"retention", "param g[head] = 0.5\nmask = causal\nweights = s * (1 - g) ^ abs(d)"},
    {"logarithmic",
     "param a[head] = 0.5\nparam p[head] = 1\nmask = causal\nscore = s - p * log1p(a * abs(d))"},
    {"learned scale", "param g[head] = 0.7\nscale = g * g\nscore = 5 * tanh(s / 5)"},
    {"coefficients by pair",
     "input a[token]\nweights = a[i] * softmax(s) + a[j] * softpick(s) + sigmoid(a[j] - s)",
     {{"a", {kBatch, kTokens}}}},
    {"inputs",
     "input a[token]\ninput r[head, rel]\ninput m[batch, query, key]\ninput c[batch]\n"
     "score = c * s + a[i] * a[j] + r[d] - m[i, j] ^ 2",
     {{"a", {kBatch, kTokens}}, {"r", {kHeads, 3}}, {"m", {kBatch, kTokens, kTokens}}, {"c", {kBatch}}}},
    {"empty rows", "param a[head] = 1\nmask = causal and i != 1\nweights = softmax(s * a) + softpick(a * d)"},
};

class Gradients : public ::testing::TestWithParam<GradientCase> {};

TEST_P(Gradients, AreThoseOfNumericalDifferences) {
  const GradientCase& what = GetParam();
  Seeded random(kSeed);
  AttentionOptions options{.heads = kHeads, .kv_heads = 1, .head_dim = kWidth, .model_dim = kModel};
  if (what.rotary) options.rotary = RotaryOptions{};
  Attention attention(Formula::parse(what.text, {.name = what.name}), options);
  attention->to(torch::kDouble);
  const Tensor query = random.leaf({kBatch, kHeads, kTokens, kWidth}),
               key = random.leaf({kBatch, 1, kTokens, kWidth}), value = random.leaf({kBatch, 1, kTokens, 2}),
               x = random.leaf({kBatch, kTokens, kModel});
  AttentionCall call;
  if (attention->formula().plan().needs_layer_input()) call.x = x;
  std::vector<std::pair<std::string, Tensor>> leaves{{"query", query}, {"key", key}, {"value", value}};
  if (call.x.defined()) leaves.emplace_back("x", x);
  for (const auto& [name, shape] : what.inputs)
    leaves.emplace_back(name, call.inputs[name] = random.leaf(shape));
  for (const auto& parameter : attention->named_parameters()) {
    torch::NoGradGuard no_gradient;  // weights differ between heads, and biases from 0
    parameter.value().add_(0.2 * random.normal(parameter.value().sizes()));
    leaves.emplace_back(parameter.key(), parameter.value());
  }
  attention->clamp_parameters();
  const Tensor upstream = random.normal({kBatch, kHeads, kTokens, 2});
  const auto loss = [&] {
    const AttentionResult result = attention->run(query, key, value, call);
    Tensor sum = (result.output * upstream).sum();
    for (const Tensor& sums : result.log_sums) sum = sum + sums.masked_fill(sums.isinf(), 0).sum() * 0.1;
    return sum;
  };
  for (const auto& [name, leaf] : leaves) test::expect_gradient(loss, leaf, name);
}

INSTANTIATE_TEST_SUITE_P(Formulas, Gradients, ::testing::ValuesIn(kCases), [](const auto& parameter) {
  std::string name = parameter.param.name;
  std::ranges::replace(name, ' ', '_');
  return name;
});

// At distance 0 the prior's derivative is infinite in calculus; by its rule it is 0, and the rest is
// untouched.
TEST(Prior, HasFiniteGradientsAtDistanceZero) {
  Attention attention(Formula::parse("param alpha[head] = 0.5\nparam beta[head] = 0.3\n"
                                     "score = s - abs(alpha * d) ^ beta"),
                      AttentionOptions{.heads = 1, .head_dim = 2});
  attention->to(torch::kDouble);
  Seeded random(kSeed);
  const Tensor query = random.leaf({1, 1, 3, 2}), key = random.leaf({1, 1, 3, 2}),
               value = random.leaf({1, 1, 3, 2});
  const auto loss = [&] { return attention->forward(query, key, value).square().sum(); };
  for (const auto& parameter : attention->named_parameters())
    test::expect_gradient(loss, parameter.value(), parameter.key());
  // At alpha = 0 every distance is at the pole.
  {
    torch::NoGradGuard no_gradient;
    attention->named_parameters()["alpha"].zero_();
  }
  attention->zero_grad();
  loss().backward();
  for (const auto& parameter : attention->named_parameters())
    EXPECT_EQ(parameter.value().grad().item<double>(), 0) << parameter.key();
}

TEST(Gradients, OfSecondOrderAreRefusedByTheFusedPath) {
  Attention attention(Formula::parse("mask = causal"), AttentionOptions{.heads = 1, .head_dim = 3});
  Seeded random(kSeed);
  const Tensor x = random.leaf({1, 1, 3, 3});
  const Tensor output = attention->forward(x, x, x);
  const Tensor slope =
      torch::autograd::grad({output.square().sum()}, {x}, {}, true, /*create_graph=*/true)[0];
  EXPECT_THAT([&] { torch::autograd::grad({slope.square().sum()}, {x}); },
              testing::ThrowsMessage<std::exception>(testing::HasSubstr("no second derivative")));
}

TEST(Gradients, OfSecondOrderExistThroughAWholeFormula) {
  Attention attention(Formula::parse("param alpha[head] = 0.5\nmask = causal\nscore = s - alpha * abs(d)"),
                      AttentionOptions{.heads = 2, .head_dim = 3, .path = Path::reference});
  attention->to(torch::kDouble);
  Seeded random(kSeed);
  const Tensor query = random.leaf({1, 2, 3, 3}), key = random.leaf({1, 2, 3, 3}),
               value = random.leaf({1, 2, 3, 2});
  const auto slope = [&] {  // a penalty on the gradient, as in some regularisers
    const Tensor output = attention->forward(query, key, value);
    return torch::autograd::grad({output.square().sum()}, {query}, {}, true, /*create_graph=*/true)[0]
        .square()
        .sum();
  };
  test::expect_gradient(
      [&] {
        torch::AutoGradMode with_gradient(true);
        return slope();
      },
      attention->named_parameters()["alpha"], "alpha");
  test::expect_gradient(
      [&] {
        torch::AutoGradMode with_gradient(true);
        return slope();
      },
      key, "key");
}

}  // namespace
}  // namespace saccade::gradients_test
