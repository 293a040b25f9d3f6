// Which path runs a call: what each can do, what it says to what it cannot, and that they agree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include "saccade/attention/attention.h"
#include "saccade/attention/skip_count.h"
#include "saccade/attention/testing.h"

namespace saccade::path_test {
namespace {

using test::error_of;
using test::Seeded;
using ::testing::HasSubstr;
using torch::Tensor;

constexpr uint64_t kSeed = 20250302;
constexpr const char* kDecay = "param a[head] = 0.3\nmask = causal\nscore = s - a * d";

Attention make(Path path, double epsilon = 0) {
  Attention attention(Formula::parse(kDecay),
                      AttentionOptions{.heads = 2, .head_dim = 4, .path = path, .epsilon = epsilon});
  attention->to(torch::kDouble);
  return attention;
}

struct Vectors {
  Tensor query, key, value;
};

Vectors vectors(int64_t tokens) {
  Seeded random(kSeed);
  const auto make_one = [&] { return random.normal({1, 2, tokens, 4}); };
  return {make_one(), make_one(), make_one()};
}

TEST(Path, FusedRefusesWhatItCannotDo) {
  Attention attention = make(Path::fused);
  const auto [q, k, v] = vectors(5);
  EXPECT_EQ(
      error_of([&, q = q, k = k, v = v] { attention->run(q, k, v, {.need_weights = true}); }),
      "attention: the fused path was asked for, but the weights are asked for, which only the reference "
      "holds");
  EXPECT_EQ(error_of([&, q = q, k = k, v = v] { attention->run(q, k, v, {.dropout = 0.1}); }),
            "attention: the fused path was asked for, but dropout of the weights is done by the reference");
  EXPECT_EQ(attention->forward(q, k, v).sizes(), q.sizes());  // and an ordinary call still runs
}

TEST(Path, AutomaticTakesTheReferenceForWeightsAndDropout) {
  Attention automatic = make(Path::automatic), reference = make(Path::reference);
  const auto [q, k, v] = vectors(5);
  const AttentionResult found = automatic->run(q, k, v, {.need_weights = true}),
                        expected = reference->run(q, k, v, {.need_weights = true});
  EXPECT_TRUE(torch::equal(found.weights, expected.weights));
  EXPECT_TRUE(torch::equal(found.output, expected.output));
  torch::manual_seed(kSeed);
  const Tensor dropped = automatic->forward(q, k, v, {.dropout = 0.5});
  torch::manual_seed(kSeed);
  EXPECT_TRUE(torch::equal(dropped, reference->forward(q, k, v, {.dropout = 0.5})));
  EXPECT_FALSE(torch::equal(dropped, expected.output));
  const std::string reason = automatic->path().reason;
  EXPECT_THAT(reason, HasSubstr("ask for the weights or for dropout"));
  EXPECT_THAT(reason, HasSubstr("take the reference"));
}

TEST(Path, CanBeChangedBetweenCalls) {
  Attention attention = make(Path::automatic);
  const auto [q, k, v] = vectors(7);
  const Tensor fused = attention->forward(q, k, v);
  attention->set_path(Path::reference);
  EXPECT_EQ(attention->path().path, Path::reference);
  EXPECT_TRUE(
      test::close(fused, attention->forward(q, k, v), test::rounding(torch::kDouble, 64, test::largest(v))));
}

TEST(Path, OnlyTheReferenceHasSecondDerivatives) {
  for (const Path path : {Path::reference, Path::fused}) {
    Attention attention = make(path);
    const Tensor q = vectors(4).query.requires_grad_();
    const Tensor first =
        torch::autograd::grad({attention->forward(q, q, q).square().sum()}, {q}, {}, true, true)[0];
    if (path == Path::reference)
      EXPECT_NO_THROW(first.sum().backward());
    else
      EXPECT_THAT(error_of([&] { first.sum().backward(); }), HasSubstr("no second derivative"));
  }
}

TEST(Epsilon, IsAShareOfARow) {
  for (const double epsilon : {-1e-9, 1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THAT(error_of([&] { make(Path::automatic, epsilon); }),
                HasSubstr("expected 0 or more and less than 1"));
}

TEST(Epsilon, BoundsTheError) {
  const auto [q, k, v] = vectors(700);
  const Tensor exact = make(Path::reference)->forward(q, k, v);
  for (const double epsilon : {1e-3, 1e-9}) {
    const Tensor found = make(Path::fused, epsilon)->forward(q, k, v);
    // So much of a row's weight may go, and what is left is divided by a sum that is as much smaller.
    const double bound = 2 * epsilon * test::largest(v);
    EXPECT_LE(test::largest(found - exact), bound + 1e-12);
  }
  // The definition leaves nothing out.
  EXPECT_TRUE(torch::equal(make(Path::reference, 0.5)->forward(q, k, v), exact));
}

TEST(SkipCount, CountsWhatIsLeftOut) {
  const torch::NoGradGuard no_gradient;
  torch::manual_seed(1);
  const at::Tensor q = torch::randn({1, 8, 1024, 8});
  const auto run = [&](const Formula& formula, double epsilon) {
    Attention(formula, AttentionOptions{.heads = 8, .head_dim = 8, .epsilon = epsilon})->forward(q, q, q);
  };
  const SkipCount outer;
  run(Formula::load("window", {{"w", 16}}), 0);
  const kernels::ForwardReport window = outer.report();
  EXPECT_GT(window.empty, 0);
  EXPECT_LT(window.empty, window.tiles);
  EXPECT_EQ(window.negligible, 0);
  {
    const SkipCount inner;
    run(Formula::load("alibi"), 0);
    EXPECT_EQ(inner.report().negligible, 0);
    const int64_t tiles = inner.report().tiles;
    run(Formula::load("alibi"), 1e-3);
    EXPECT_GT(inner.report().negligible, 0);
    EXPECT_EQ(inner.report().tiles, 2 * tiles);
  }
  EXPECT_EQ(outer.report().tiles, window.tiles);  // the innermost counts
}

}  // namespace
}  // namespace saccade::path_test
