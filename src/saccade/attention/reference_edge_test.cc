// Where attention usually breaks: rows without keys, padding that holds anything, infinite scores, and sizes
// of zero.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "saccade/attention/attention.h"
#include "saccade/attention/testing.h"

namespace saccade::reference_edge_test {
namespace {

using test::close;
using test::kInfinity;
using test::kNaN;
using test::largest;
using test::rounding;
using test::Seeded;
using torch::Tensor;

constexpr uint64_t kSeed = 20240604;

const std::vector<std::string> kWeights = {
    "weights = softmax(s)",
    "param z[head] = 0.5\nweights = softmax(s, sink = z)",
    "weights = l1(s)",
    "weights = softpick(s)",
    "weights = sigmoid(s - 1)",
    "weights = sign(s) * softmax(abs(s))",
    "param a[head] = 0.5\nweights = log(i + 1) * s * exp(-a * d) - softpick(s / (1 + d)) + softmax(log(d))",
    "vector q2 = linear(relu(q))\nvector k2 = norm(k)\nstream t = q2 . k2\nparam lam[head] = 0.5\n"
    "weights = softmax(s) - lam * softmax(t)",
};

struct Fixture {
  explicit Fixture(const std::string& text, int64_t batch = 2, int64_t queries = 4, int64_t keys = 4)
      : attention(Formula::parse(text), AttentionOptions{.heads = 2, .kv_heads = 1, .head_dim = 3}),
        random(kSeed),
        query(random.leaf({batch, 2, queries, 3})),
        key(random.leaf({batch, 1, keys, 3})),
        value(random.leaf({batch, 1, keys, 2})) {
    attention->to(torch::kDouble);
  }

  std::vector<Tensor> leaves() const {
    std::vector<Tensor> result{query, key, value};
    for (const Tensor& parameter : attention->parameters()) result.push_back(parameter);
    return result;
  }

  // The gradients of all leaves, for a random upstream gradient of the outputs and of all finite log-sums.
  std::vector<Tensor> gradients(const AttentionResult& result) {
    Seeded upstream(kSeed, "upstream");
    Tensor loss = (result.output * upstream.normal(result.output.sizes())).sum();
    for (const Tensor& sums : result.log_sums) loss = loss + sums.masked_fill(sums.isinf(), 0).sum();
    std::vector<Tensor> all =
        torch::autograd::grad({loss}, leaves(), {}, /*retain_graph=*/true, false, /*allow_unused=*/true);
    for (size_t index = 0; index < all.size(); ++index)
      if (!all[index].defined()) all[index] = torch::zeros_like(leaves()[index]);
    return all;
  }

  Attention attention;
  Seeded random;
  Tensor query, key, value;
};

bool all_finite(const Tensor& tensor) { return tensor.isfinite().all().item<bool>(); }

TEST(EmptyRow, GivesZeroAndNoGradient) {
  for (const std::string& weights : kWeights) {
    SCOPED_TRACE(weights);
    Fixture fixture("mask = causal and i != 2\n" + weights);
    const AttentionResult result =
        fixture.attention->run(fixture.query, fixture.key, fixture.value, {.need_weights = true});
    EXPECT_TRUE(all_finite(result.output));
    EXPECT_EQ(largest(result.output.select(2, 2)), 0);
    EXPECT_EQ(largest(result.weights.select(2, 2)), 0);
    const bool has_sink = weights.find("sink") != std::string::npos;
    for (const Tensor& sums : result.log_sums) {
      EXPECT_FALSE(sums.isnan().any().item<bool>());
      const double expected = has_sink ? 0.5 : -kInfinity;  // the sink is all that is left to divide by
      EXPECT_TRUE((sums.select(2, 2) == expected).all().item<bool>());
    }
    const std::vector<Tensor> gradients = fixture.gradients(result);
    for (const Tensor& gradient : gradients) EXPECT_TRUE(all_finite(gradient));
    EXPECT_EQ(largest(gradients[0].select(2, 2)), 0);
  }
}

TEST(EmptyRow, OfAWholeMapGivesZeros) {
  for (const std::string& weights : kWeights) {
    SCOPED_TRACE(weights);
    Fixture fixture("mask = d > 1000\n" + weights);
    const AttentionResult result = fixture.attention->run(fixture.query, fixture.key, fixture.value, {});
    EXPECT_EQ(largest(result.output), 0);
    const std::vector<Tensor> gradients = fixture.gradients({result.output, {}, {}});
    for (const Tensor& gradient : gradients) EXPECT_TRUE(torch::equal(gradient, torch::zeros_like(gradient)));
  }
}

TEST(MaskedPair, AddsExactlyNothing) {
  for (const std::string& weights : kWeights) {
    SCOPED_TRACE(weights);
    Fixture fixture("mask = causal and j != 1\n" + weights);
    const Tensor before = fixture.attention->forward(fixture.query, fixture.key, fixture.value);
    const std::vector<Tensor> gradients =
        fixture.gradients(fixture.attention->run(fixture.query, fixture.key, fixture.value, {}));
    EXPECT_EQ(largest(gradients[1].select(2, 1)), 0);
    EXPECT_EQ(largest(gradients[2].select(2, 1)), 0);
    {
      torch::NoGradGuard no_gradient;
      fixture.key.select(2, 1).fill_(1e30);
      fixture.value.select(2, 1).fill_(-1e30);
    }
    const AttentionResult after = fixture.attention->run(fixture.query, fixture.key, fixture.value, {});
    EXPECT_TRUE(torch::equal(after.output, before));
    const std::vector<Tensor> moved = fixture.gradients(after);
    for (size_t leaf = 0; leaf < moved.size(); ++leaf)
      EXPECT_TRUE(torch::equal(moved[leaf], gradients[leaf])) << leaf;
  }
}

TEST(Padding, MayHoldAnything) {
  for (const std::string& weights : kWeights)
    for (const double poison : {kNaN, kInfinity, -kInfinity}) {
      SCOPED_TRACE(weights + fmt::format("\nwith {}", poison));
      Fixture fixture("mask = causal\n" + weights);
      AttentionCall call{.key_mask = torch::tensor({1, 1, 0, 1, 1, 0, 0, 1}, torch::kBool).view({2, 4})};
      const Tensor padding = call.key_mask.logical_not().view({2, 1, 4, 1});
      const AttentionResult clean = fixture.attention->run(fixture.query, fixture.key, fixture.value, call);
      const std::vector<Tensor> gradients = fixture.gradients(clean);
      {
        torch::NoGradGuard no_gradient;
        fixture.key.masked_fill_(padding, poison);
        fixture.value.masked_fill_(padding, poison);
      }
      const AttentionResult result = fixture.attention->run(fixture.query, fixture.key, fixture.value, call);
      EXPECT_TRUE(torch::equal(result.output, clean.output));
      for (size_t norm = 0; norm < clean.log_sums.size(); ++norm)
        EXPECT_TRUE(torch::equal(result.log_sums[norm], clean.log_sums[norm]));
      const std::vector<Tensor> poisoned = fixture.gradients(result);
      for (size_t leaf = 0; leaf < poisoned.size(); ++leaf)
        EXPECT_TRUE(torch::equal(poisoned[leaf], gradients[leaf])) << "leaf " << leaf;
      EXPECT_EQ(largest(poisoned[1].masked_fill(padding.logical_not(), 0)), 0);
    }
}

TEST(Padding, MayHoldAnythingInAnInputToo) {
  for (const double poison : {kNaN, kInfinity}) {
    Fixture fixture(
        "input b[key]\nmask = causal\nweights = sqrt(abs(b[j])) * softmax(s * b[j]) + softpick(b[j])");
    const Tensor key_mask = torch::tensor({1, 1, 0, 1, 1, 0, 1, 1}, torch::kBool).view({2, 4});
    const auto run = [&](const Tensor& bias) {
      const AttentionResult result = fixture.attention->run(fixture.query, fixture.key, fixture.value,
                                                            {.inputs = {{"b", bias}}, .key_mask = key_mask});
      std::vector<Tensor> all = fixture.gradients(result);
      all.push_back(result.output);
      return all;
    };
    const Tensor bias = fixture.random.normal({2, 4});
    const std::vector<Tensor> clean = run(bias);
    const Tensor leaf = bias.masked_fill(key_mask.logical_not(), poison).requires_grad_();
    const std::vector<Tensor> poisoned = run(leaf);
    for (size_t part = 0; part < clean.size(); ++part)
      EXPECT_TRUE(torch::equal(poisoned[part], clean[part])) << part;
    poisoned.back().sum().backward();
    EXPECT_TRUE(all_finite(leaf.grad()));
    EXPECT_EQ(largest(leaf.grad().masked_fill(key_mask, 0)), 0);
  }
}

TEST(Padding, OfAWholeSequenceGivesZeros) {
  Fixture fixture("mask = causal");
  const Tensor key_mask = torch::tensor({0, 0, 0, 0, 1, 1, 1, 1}, torch::kBool).view({2, 4});
  const AttentionResult result =
      fixture.attention->run(fixture.query, fixture.key, fixture.value, {.key_mask = key_mask});
  EXPECT_EQ(largest(result.output[0]), 0);
  EXPECT_GT(largest(result.output[1]), 0);
  EXPECT_TRUE((result.log_sums[0][0] == -kInfinity).all().item<bool>());
  for (const Tensor& gradient : fixture.gradients(result)) EXPECT_TRUE(all_finite(gradient));
}

TEST(InfiniteScore, OfMinusInfinityIsNoWeight) {
  Fixture fixture("score = where(j == 1 or i == 3, -inf, s)\nmask = causal");
  const AttentionResult result =
      fixture.attention->run(fixture.query, fixture.key, fixture.value, {.need_weights = true});
  EXPECT_EQ(largest(result.weights.select(3, 1)), 0);
  EXPECT_EQ(largest(result.output.select(2, 3)), 0);
  EXPECT_TRUE((result.log_sums[0].select(2, 3) == -kInfinity).all().item<bool>());
  const std::vector<Tensor> gradients = fixture.gradients(result);
  for (const Tensor& gradient : gradients) EXPECT_TRUE(all_finite(gradient));
  Fixture masked("mask = causal and j != 1 and i != 3");
  const AttentionResult same =
      masked.attention->run(masked.query, masked.key, masked.value, {.need_weights = true});
  EXPECT_TRUE(torch::equal(result.output, same.output));
}

// Neither exp(1000) nor exp(-1000) is a float, but their ratios are.
TEST(LargeScore, NeitherOverflowsNorVanishes) {
  for (const std::string weights : {"softmax(s)", "softpick(s)", "softmax(s, sink = 1000)"})
    for (const double shift : {1000.0, -1000.0}) {
      if (weights == "softmax(s, sink = 1000)" && shift < 0) continue;
      const std::string moved = fmt::format("{}", shift);
      std::string text = weights;
      text.replace(text.find("(s"), 2, "(s + " + moved);
      SCOPED_TRACE(text);
      Fixture fixture("mask = causal\nweights = " + text);
      const AttentionResult result =
          fixture.attention->run(fixture.query, fixture.key, fixture.value, {.need_weights = true});
      // Far from zero softpick is softmax above, and nothing below.
      Fixture plain(std::string("mask = causal\nweights = ") +
                    (weights == "softmax(s, sink = 1000)" ? "softmax(s, sink = 0)" : "softmax(s)"));
      AttentionResult expected =
          plain.attention->run(plain.query, plain.key, plain.value, {.need_weights = true});
      if (weights == "softpick(s)" && shift < 0) expected.weights.zero_();
      EXPECT_TRUE(close(result.weights, expected.weights, rounding(torch::kDouble, 8, 1000)));
      const double log_sum = weights == "softpick(s)" && shift < 0 ? std::log(4) : shift;
      EXPECT_NEAR(result.log_sums[0][0][0][3].item<double>(), log_sum, 8);
      for (const Tensor& gradient : fixture.gradients(result)) EXPECT_TRUE(all_finite(gradient));
    }
}

TEST(ZeroSizes, GiveEmptyOrZeroResults) {
  const std::string tables =
      "\ninput p[batch]: int\ninput doc[token]: int\ninput b[key]\ninput c[query]\ninput r[head, rel]\n"
      "score = s + b[j] + c[i] + r[d] + p";
  struct Sizes {
    int64_t batch, queries, keys;
  };
  for (const std::string& weights : kWeights)
    for (const Sizes& size :
         {Sizes{2, 3, 0}, Sizes{2, 0, 3}, Sizes{0, 3, 3}, Sizes{2, 0, 0}, Sizes{0, 0, 0}}) {
      SCOPED_TRACE(
          fmt::format("{}\nbatch {}, {} queries, {} keys", weights, size.batch, size.queries, size.keys));
      for (const bool with_tables : {false, true}) {
        Fixture fixture(
            "mask = causal" + (with_tables ? " and doc[i] == doc[j]" + tables : "") + "\n" + weights,
            size.batch, size.queries, size.keys);
        AttentionCall call{.key_mask = torch::ones({size.batch, size.keys}, torch::kBool),
                           .need_weights = true};
        if (with_tables) {
          const int64_t tokens = std::max(size.queries, size.keys);
          call.inputs = {{"p", torch::zeros({size.batch}, torch::kLong)},
                         {"doc", torch::zeros({size.batch, tokens}, torch::kLong)},
                         {"b", torch::ones({size.batch, size.keys}, torch::kDouble)},
                         {"c", torch::ones({size.queries}, torch::kDouble)},
                         {"r", torch::ones({2, 5}, torch::kDouble)}};
        }
        const AttentionResult result =
            fixture.attention->run(fixture.query, fixture.key, fixture.value, call);
        const Tensor zeros = torch::zeros({size.batch, 2, size.queries, 2}, torch::kDouble);
        EXPECT_TRUE(torch::equal(result.output, zeros));
        EXPECT_EQ(result.weights.sizes(), (std::vector<int64_t>{size.batch, 2, size.queries, size.keys}));
        for (const Tensor& sums : result.log_sums)
          EXPECT_EQ(sums.sizes(), (std::vector<int64_t>{size.batch, 2, size.queries}));
        for (const Tensor& gradient : fixture.gradients({result.output, {}, {}}))
          EXPECT_EQ(largest(gradient), 0);
      }
    }
}

}  // namespace
}  // namespace saccade::reference_edge_test
