// The chunked sums against the explicit map of features: values, gradients, causality, and numbers at the
// ends of their range.
#include "saccade/attention/random_features.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "saccade/attention/testing.h"

namespace saccade::random_features_test {
namespace {

using test::close;
using test::error_of;
using test::kInfinity;
using test::kNaN;
using test::largest;
using test::rounding;
using test::Seeded;
using torch::Tensor;

constexpr uint64_t kSeed = 20240704;

// --- directions

TEST(Directions, AreOrthogonalWithinABlock) {
  RandomStream stream(kSeed, "test");
  const Tensor directions = draw_directions(stream, 21, 8);
  ASSERT_EQ(shape_text(directions), "[21, 8]");
  const Tensor product = torch::matmul(directions, directions.t()).abs();
  for (int64_t first = 0; first < 21; first += 8) {
    const int64_t count = std::min<int64_t>(8, 21 - first);
    const Tensor block = product.narrow(0, first, count).narrow(1, first, count);
    EXPECT_LE(largest(block - block.diagonal().diag()), rounding(torch::kDouble, 64, largest(block)));
  }
  EXPECT_GT(largest(product.narrow(0, 0, 8).narrow(1, 8, 8)), 0.1) << "blocks are independent";
}

// Each by itself is a normal vector: its outer product has the unit matrix as mean, and its squared length
// the mean d and the variance 2 d.
TEST(Directions, AreNormalOneByOne) {
  RandomStream stream(kSeed, "test");
  constexpr int64_t kCount = 40000, kWidth = 4;
  const Tensor directions = draw_directions(stream, kCount, kWidth);
  const Tensor covariance = torch::matmul(directions.t(), directions) / kCount;
  EXPECT_TRUE(close(covariance, torch::eye(kWidth, torch::kDouble), 5 * std::sqrt(2.0 / kCount)));
  EXPECT_LE(largest(directions.mean(0)), 5 / std::sqrt(static_cast<double>(kCount)));
  EXPECT_NEAR(directions.square().sum(1).var().item<double>(), 2.0 * kWidth, 0.4);
}

TEST(Directions, FollowFromTheStream) {
  RandomStream a(kSeed, "a"), again(kSeed, "a"), b(kSeed, "b");
  const Tensor first = draw_directions(a, 5, 3);
  EXPECT_TRUE(torch::equal(first, draw_directions(again, 5, 3)));
  EXPECT_FALSE(torch::equal(first, draw_directions(b, 5, 3)));
}

// --- the explicit map

// By the definition: features without any shift, and the whole map.
FeatureResult explicit_attention(const FeatureCall& call) {
  const auto features = [&](const Tensor& x) {
    const Tensor scaled = x * std::sqrt(call.scale);
    return torch::exp(torch::matmul(scaled, call.directions.t()) - scaled.square().sum(-1, true) / 2);
  };
  const Tensor product =
      torch::matmul(features(call.query), features(call.key).unsqueeze(1).transpose(-2, -1)) /
      static_cast<double>(call.directions.size(0));
  Tensor unseen =
      torch::ones({call.query.size(2), call.key.size(1)}, torch::kBool).triu(call.prefix + 1).unsqueeze(0);
  if (call.hidden.defined()) unseen = unseen.logical_or(call.hidden.unsqueeze(1));
  const Tensor weights = product.masked_fill(unseen.unsqueeze(1), 0);
  const Tensor sum = weights.sum(-1, true), empty = sum == 0, divisor = sum.masked_fill(empty, 1);
  return {torch::matmul(weights / divisor, call.value.unsqueeze(1)),
          torch::log(divisor).masked_fill(empty, -kInfinity).squeeze(-1),
          {}};
}

struct Shape {
  int64_t sets, heads, queries, keys, width, value_width, features, prefix, chunk;
  bool hidden = false;
};
std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << fmt::format(
             "sets {}, heads {}, queries {}, keys {}, width {}, value width {}, features {}, prefix {}, "
             "chunk {}, hidden {}",
             s.sets, s.heads, s.queries, s.keys, s.width, s.value_width, s.features, s.prefix, s.chunk,
             s.hidden);
}

const std::vector<Shape> kShapes = {
    {1, 1, 1, 1, 1, 1, 1, 0, 1},          {1, 1, 7, 7, 4, 3, 6, 0, 3},
    {2, 3, 8, 8, 4, 5, 9, 0, 4},          {2, 2, 9, 9, 3, 2, 5, 9, 4},
    {1, 2, 9, 9, 3, 2, 5, 0, 64},         {2, 1, 5, 12, 4, 3, 6, 7, 2},
    {2, 2, 12, 5, 4, 3, 6, 0, 4},         {1, 1, 12, 5, 4, 3, 6, 3, 5},
    {1, 2, 3, 11, 4, 3, 6, 2, 2},         {3, 2, 10, 10, 4, 3, 6, 0, 3, true},
    {3, 1, 10, 10, 4, 3, 6, 10, 4, true}, {2, 2, 6, 11, 4, 3, 6, 5, 4, true},
    {1, 1, 4, 0, 2, 2, 3, 0, 2},          {1, 1, 0, 4, 2, 2, 3, 0, 2},
};

FeatureCall make_call(Seeded& random, const Shape& shape) {
  FeatureCall call{.query = random.leaf({shape.sets, shape.heads, shape.queries, shape.width}),
                   .key = random.leaf({shape.sets, shape.keys, shape.width}),
                   .value = random.leaf({shape.sets, shape.keys, shape.value_width}),
                   .directions = random.normal({shape.features, shape.width}),
                   .scale = 0.7,
                   .prefix = shape.prefix,
                   .chunk = shape.chunk};
  if (shape.hidden) {
    call.hidden = random.booleans({shape.sets, shape.keys}, 0.4);
    call.hidden.index_put_({0}, true);  // no key at all
    call.hidden.index_put_({shape.sets - 1, 0}, true);
  }
  return call;
}

// A number that output and log-sums all go into, each with its own weight.
Tensor loss_of(const FeatureResult& result, uint64_t seed) {
  Seeded random(seed, "loss");
  const Tensor log_sum = result.log_sum.masked_fill(result.log_sum == -kInfinity, 0);
  return (result.output * random.normal(result.output.sizes())).sum() +
         (log_sum * random.normal(log_sum.sizes())).sum();
}

TEST(RandomFeatures, EqualTheExplicitMap) {
  for (uint64_t seed = kSeed; seed < kSeed + 3; ++seed)
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(::testing::Message() << shape << ", seed " << seed);
      Seeded random(seed);
      const FeatureCall call = make_call(random, shape);
      const FeatureResult actual = random_feature_attention(call), expected = explicit_attention(call);
      const double tolerance = rounding(torch::kDouble, 256, 1 + largest(call.value));
      EXPECT_TRUE(close(actual.output, expected.output, tolerance));
      EXPECT_TRUE(close(actual.log_sum, expected.log_sum, rounding(torch::kDouble, 256, 10)));
    }
}

TEST(RandomFeatures, HaveTheGradientsOfTheExplicitMap) {
  for (uint64_t seed = kSeed; seed < kSeed + 3; ++seed)
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(::testing::Message() << shape << ", seed " << seed);
      Seeded random(seed);
      const FeatureCall call = make_call(random, shape);
      const std::vector<Tensor> leaves = {call.query, call.key, call.value};
      const auto gradients = [&](const FeatureResult& result) {
        return torch::autograd::grad({loss_of(result, seed)}, leaves, {}, {}, false, true);
      };
      const auto actual = gradients(random_feature_attention(call)),
                 expected = gradients(explicit_attention(call));
      for (size_t place = 0; place < leaves.size(); ++place) {
        const Tensor wanted = expected[place].defined() ? expected[place] : torch::zeros_like(leaves[place]);
        EXPECT_TRUE(close(actual[place], wanted, rounding(torch::kDouble, 2048, 1 + largest(wanted))))
            << "of "
            << (place == 0   ? "query"
                : place == 1 ? "key"
                             : "value");
      }
    }
}

// One of the two results may be unused.
TEST(RandomFeatures, HaveGradientsOfEachResultAlone) {
  Seeded random(kSeed);
  const FeatureCall call = make_call(random, {2, 2, 6, 6, 3, 2, 5, 0, 4});
  for (const bool by_output : {true, false}) {
    const auto gradient = [&](const FeatureResult& result) {
      const Tensor loss = by_output ? result.output.square().sum() : result.log_sum.square().sum();
      return torch::autograd::grad({loss}, {call.key})[0];
    };
    EXPECT_TRUE(close(gradient(random_feature_attention(call)), gradient(explicit_attention(call)), 1e-11));
  }
}

TEST(RandomFeatures, AreTheWeightsOfTheMap) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(::testing::Message() << shape);
    Seeded random(kSeed);
    const FeatureCall call = make_call(random, shape);
    const Tensor weights = random_feature_weights(call);
    EXPECT_TRUE(close(torch::matmul(weights, call.value.unsqueeze(1)), random_feature_attention(call).output,
                      rounding(torch::kDouble, 256, 1 + largest(call.value))));
  }
}

TEST(RandomFeatures, DoNotDependOnTheChunk) {
  Seeded random(kSeed);
  const Shape shape{2, 2, 50, 50, 8, 8, 16, 0, 1};
  FeatureCall call = make_call(random, shape);
  const auto run = [&](int64_t chunk) {
    call.chunk = chunk;
    const FeatureResult result = random_feature_attention(call);
    auto all = torch::autograd::grad({loss_of(result, kSeed)}, {call.query, call.key, call.value});
    all.push_back(result.output);
    all.push_back(result.after.sums * torch::exp(result.after.maximum).view({-1, 1, 1}));
    return all;
  };
  const auto whole = run(50);
  for (const int64_t chunk : {1, 2, 7, 16, 49, 51, 1000}) {
    const auto cut = run(chunk);
    for (size_t place = 0; place < whole.size(); ++place)
      EXPECT_TRUE(close(cut[place], whole[place], rounding(torch::kDouble, 2048, 1 + largest(whole[place]))))
          << "chunk " << chunk << ", result " << place;
  }
}

// --- causality

TEST(RandomFeatures, NeverLookAhead) {
  for (const auto dtype : {torch::kFloat, torch::kDouble})
    for (const int64_t changed : {1, 5, 8, 13, 19}) {
      Seeded random(kSeed);
      FeatureCall call = make_call(random, {2, 2, 20, 20, 4, 4, 12, 0, 8});
      for (Tensor* tensor : {&call.query, &call.key, &call.value, &call.directions})
        *tensor = tensor->detach().to(dtype).requires_grad_();
      call.directions = call.directions.detach();
      const Tensor before = random_feature_attention(call).output;
      const auto later = [&](const Tensor& tensor) {
        return tensor.detach().narrow(-2, changed, 20 - changed);
      };
      later(call.query).mul_(-30);
      later(call.key).mul_(50);  // a shift by a maximum over all keys would make the earlier ones vanish
      later(call.value).mul_(1e6);
      const Tensor after = random_feature_attention(call).output;
      EXPECT_TRUE(torch::equal(after.narrow(2, 0, changed), before.narrow(2, 0, changed))) << changed;
      EXPECT_FALSE(torch::equal(after.narrow(2, changed, 1), before.narrow(2, changed, 1))) << changed;
      for (const Tensor& gradient : torch::autograd::grad({after.narrow(2, 0, changed).square().sum()},
                                                          {call.query, call.key, call.value}))
        EXPECT_EQ(largest(later(gradient)), 0) << changed;
    }
}

// --- numbers at the ends of their range

// Keys that grow by many orders of magnitude: in single precision too every row keeps its digits.
TEST(RandomFeatures, KeepTheirDigitsWhenKeysGrow) {
  Seeded random(kSeed);
  FeatureCall call = make_call(random, {1, 1, 32, 32, 4, 4, 24, 0, 8});
  call.query = call.query.detach() * 0.3;
  // Directions of one sign along the keys: exponents from about 0 to about 20 that rise along the sequence.
  call.directions =
      torch::cat({call.directions.narrow(1, 0, 3) * 0.2, torch::ones({24, 1}, torch::kDouble)}, 1);
  const Tensor ramp = torch::linspace(0.5, 8, 32, torch::kDouble).view({1, -1, 1});
  call.key = torch::cat({call.key.detach().narrow(2, 0, 3) * 0.1, ramp}, 2);
  call.scale = 1;
  const Tensor expected = explicit_attention(call).output;
  for (Tensor* tensor : {&call.query, &call.key, &call.value, &call.directions})
    *tensor = tensor->to(torch::kFloat);
  const FeatureResult actual = random_feature_attention(call);
  EXPECT_TRUE(close(actual.output, expected, rounding(torch::kFloat, 64, 40 * largest(call.value))));
}

// Here the estimate is worthless, but a mean of values it must stay, with finite gradients.
TEST(RandomFeatures, StayFiniteForHugeVectors) {
  for (const double size : {10.0, 1e3, 1e6})
    for (const int64_t prefix : {0, 20}) {
      SCOPED_TRACE(::testing::Message() << "size " << size << ", prefix " << prefix);
      Seeded random(kSeed);
      FeatureCall call = make_call(random, {2, 1, 20, 20, 8, 3, 16, prefix, 8});
      for (Tensor* tensor : {&call.query, &call.key, &call.value, &call.directions})
        *tensor = tensor->detach().to(torch::kFloat);
      call.query = (call.query * size).requires_grad_();
      call.key = (call.key * size).requires_grad_();
      call.value = torch::ones_like(call.value).requires_grad_();
      const FeatureResult result = random_feature_attention(call);
      EXPECT_TRUE(close(result.output, torch::ones_like(result.output), rounding(torch::kFloat, 64, 1)));
      EXPECT_TRUE(result.log_sum.isfinite().all().item<bool>());
      for (const Tensor& gradient :
           torch::autograd::grad({(result.output * call.query.detach().narrow(-1, 0, 3)).sum()},
                                 {call.query, call.key, call.value}))
        EXPECT_TRUE(gradient.isfinite().all().item<bool>());
    }
}

TEST(RandomFeatures, GiveZeroWhereThereIsNoKey) {
  Seeded random(kSeed);
  FeatureCall call = make_call(random, {2, 2, 9, 9, 4, 3, 6, 0, 4});
  call.hidden = torch::zeros({2, 9}, torch::kBool);
  call.hidden[0].fill_(true);
  call.hidden[1].narrow(0, 0, 6).fill_(true);  // more than a whole chunk
  const FeatureResult result = random_feature_attention(call);
  EXPECT_EQ(largest(result.output[0]), 0);
  EXPECT_EQ(largest(result.output[1].narrow(1, 0, 6)), 0);
  EXPECT_TRUE((result.log_sum[0] == -kInfinity).all().item<bool>());
  EXPECT_GT(result.output[1].narrow(1, 6, 3).abs().min().item<double>(), 0);
  const auto gradients =
      torch::autograd::grad({result.output.square().sum()}, {call.query, call.key, call.value});
  for (const Tensor& gradient : gradients) EXPECT_TRUE(gradient.isfinite().all().item<bool>());
  EXPECT_EQ(largest(gradients[0][0]), 0);
  EXPECT_EQ(largest(gradients[1].masked_select(call.hidden.unsqueeze(-1))), 0);
}

TEST(RandomFeatures, GoOnFromEarlierSums) {
  Seeded random(kSeed);
  FeatureCall whole = make_call(random, {2, 2, 12, 12, 4, 3, 6, 0, 4, true});
  const FeatureResult expected = random_feature_attention(whole);
  const auto part = [&](int64_t first, int64_t count, const FeatureSums& before) {
    FeatureCall call = whole;
    call.query = whole.query.narrow(2, first, count);
    call.key = whole.key.narrow(1, first, count);
    call.value = whole.value.narrow(1, first, count);
    call.hidden = whole.hidden.narrow(1, first, count);
    call.before = before;
    return random_feature_attention(call);
  };
  const FeatureResult first = part(0, 5, {}), second = part(5, 7, first.after),
                      again = part(5, 7, first.after);
  EXPECT_TRUE(close(torch::cat({first.output, second.output}, 2), expected.output, 1e-12));
  EXPECT_TRUE(close(torch::cat({first.log_sum, second.log_sum}, 2), expected.log_sum, 1e-12));
  EXPECT_TRUE(close(second.after.sums, expected.after.sums, 1e-12));
  EXPECT_TRUE(torch::equal(second.output, again.output)) << "a call does not change the sums it is given";
  // Earlier sums are constants, and the new keys have the gradients that they have in the whole.
  const auto loss = [](const Tensor& output) { return output.square().sum(); };
  const Tensor by_new = torch::autograd::grad({loss(second.output)}, {whole.key})[0],
               by_all = torch::autograd::grad({loss(expected.output.narrow(2, 5, 7))}, {whole.key})[0];
  EXPECT_TRUE(close(by_new.narrow(1, 5, 7), by_all.narrow(1, 5, 7), 1e-12));
  EXPECT_EQ(largest(by_new.narrow(1, 0, 5)), 0);
}

TEST(RandomFeatures, RefuseASecondDerivative) {
  Seeded random(kSeed);
  const FeatureCall call = make_call(random, {1, 1, 4, 4, 2, 2, 3, 0, 4});
  const Tensor loss = random_feature_attention(call).output.square().sum();
  EXPECT_EQ(error_of([&] { torch::autograd::grad({loss}, {call.query}, {}, true, true); }),
            "performer: random-feature attention can be differentiated only once; a second derivative "
            "(create_graph) was asked for");
}

}  // namespace
}  // namespace saccade::random_features_test
