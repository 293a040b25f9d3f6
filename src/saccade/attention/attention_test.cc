// The module: what it learns and by which names, and what it says to a wrong call.
#include "saccade/attention/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/attention/testing.h"

namespace saccade::attention_test {
namespace {

using test::error_of;
using test::Seeded;
using ::testing::ElementsAre;
using torch::Tensor;

constexpr uint64_t kSeed = 20240610;

Attention make(const std::string& text, AttentionOptions options) {
  return Attention(Formula::parse(text, {.name = "it"}), options);
}

// --- what it learns

std::vector<std::string> state_of(const Attention& attention) {
  std::vector<std::string> result;
  for (const auto& item : attention->named_parameters())
    result.push_back(item.key() + " " + shape_text(item.value()));
  EXPECT_TRUE(attention->named_buffers().is_empty());
  return result;
}

// Checkpoints hold these names: they may not change.
TEST(Attention, NamesWhatItLearns) {
  const AttentionOptions options{.heads = 4, .kv_heads = 2, .head_dim = 8, .model_dim = 32};
  EXPECT_THAT(state_of(make("mask = causal", options)), ElementsAre());
  EXPECT_THAT(state_of(make("param a = 1\nparam b[head, 32] = 0\nparam c[layer, 3, head] = 0\n"
                            "score = a * s + b[d] + c[d]",
                            options)),
              ElementsAre("a []", "b [4, 32]", "c [3, 4]"));
  EXPECT_THAT(state_of(make("vector q2 = linear(relu(q))\nstream t = q2 . k\nparam lp[head] = 0.1\n"
                            "param ln[head] = 0.1\nweights = (1 + lp) * softmax(s) - ln * softmax(t)",
                            options)),
              ElementsAre("lp [4]", "ln [4]", "q2.linear.weight [4, 8, 8]"));
  EXPECT_THAT(state_of(make("vector q2 = project(x)\nvector k2 = project(x)\nstream t = q2 . k2\n"
                            "param lam[head] = 0.8\nweights = softmax(s) - lam * softmax(t)",
                            options)),
              ElementsAre("lam [4]", "q2.project.weight [32, 32]", "k2.project.weight [16, 32]"));
  EXPECT_THAT(
      state_of(
          make("token F = cumsum(logsigmoid(project(x)))\nmask = causal\nscore = s + F[i] - F[j]", options)),
      ElementsAre("F.project.weight [4, 32]", "F.project.bias [4]"));
  EXPECT_THAT(
      state_of(make("vector q2 = linear(linear(q) + project(x)) - project(x)\nstream t = q2 . k\nscore = t",
                    options)),
      ElementsAre("q2.linear.weight [4, 8, 8]", "q2.project.weight [32, 32]", "q2.linear1.weight [4, 8, 8]",
                  "q2.project1.weight [32, 32]"));
}

TEST(Attention, StartsParametersByHead) {
  const Attention attention = make(
      "param a[head] = 2 ^ (-8 * (h + 1) / H)\nparam b[3, head] = h / 2\nparam c = 0.25\n"
      "score = s - a * d + b[d] + c",
      {.heads = 4});
  const auto parameters = attention->named_parameters();
  EXPECT_TRUE(
      torch::equal(parameters["a"], torch::tensor({0.25, 0.0625, 0.015625, 0.00390625}, torch::kFloat)));
  EXPECT_TRUE(
      torch::equal(parameters["b"], torch::tensor({0.0, 0.5, 1.0, 1.5}, torch::kFloat).expand({3, 4})));
  EXPECT_EQ(parameters["c"].item<float>(), 0.25f);
  for (const auto& parameter : parameters) EXPECT_TRUE(parameter.value().requires_grad());
}

TEST(Attention, RefusesAStartValueOutsideItsBounds) {
  EXPECT_EQ(error_of([] { make("param a[head] = h in [0, 2]\nscore = s * a", {.heads = 4}); }),
            "attention: the start value 3 of 'a' for head 3 lies outside [0, 2]");
}

TEST(Attention, ClampsParametersToTheirBounds) {
  Attention attention = make(
      "param a[head] = 1 in [0.5, 2]\nparam b[head] = 0\nparam c[head] = 1 in [0.5, inf]\n"
      "score = a * s + b + c",
      {.heads = 2});
  {
    torch::NoGradGuard no_gradient;
    for (const auto& parameter : attention->named_parameters())
      parameter.value().copy_(torch::tensor({-7.0, 1e9}));
  }
  attention->clamp_parameters();
  const auto parameters = attention->named_parameters();
  EXPECT_TRUE(torch::equal(parameters["a"], torch::tensor({0.5f, 2.0f})));
  EXPECT_TRUE(torch::equal(parameters["b"], torch::tensor({-7.0f, 1e9f})));
  EXPECT_TRUE(torch::equal(parameters["c"], torch::tensor({0.5f, 1e9f})));
  EXPECT_TRUE(parameters["a"].is_leaf() && parameters["a"].requires_grad());
}

TEST(Attention, ComputesItsVectorsFromTheLayer) {
  Seeded random(kSeed);
  Attention attention = make(
      "param g[head] = h + 1\nvector q2 = g * (norm(q) - project(x))\n"
      "vector k2 = 2 * linear(relu(k)) + project(x)\nstream t = q2 . k2\nscore = t",
      {.heads = 4, .kv_heads = 2, .head_dim = 3, .model_dim = 5});
  attention->to(torch::kDouble);
  const Tensor query = random.normal({2, 4, 6, 3}), key = random.normal({2, 2, 6, 3}),
               value = random.normal({2, 2, 6, 3}), x = random.normal({2, 6, 5});
  const auto parameters = attention->named_parameters();
  const auto projected = [&](const std::string& name, int64_t heads) {
    return torch::matmul(x, parameters[name + ".project.weight"].t()).view({2, 6, heads, 3}).transpose(1, 2);
  };
  const Tensor q2 = torch::arange(1, 5).view({1, 4, 1, 1}) *
                    (query / (query.square().mean(-1, true) + 1e-6).sqrt() - projected("q2", 4));
  const Tensor k2 = 2 * torch::einsum("bhtd,hed->bhte", {key.clamp_min(0), parameters["k2.linear.weight"]}) +
                    projected("k2", 2);
  const Tensor expected =
      torch::softmax(torch::matmul(q2, k2.repeat_interleave(2, 1).transpose(-2, -1)) / std::sqrt(3.0), -1);
  const Tensor weights = attention->run(query, key, value, {.x = x, .need_weights = true}).weights;
  EXPECT_TRUE(test::close(weights, expected,
                          test::rounding(torch::kDouble, 32, 1 + test::largest(q2) * test::largest(k2))));
}

// The rotary embedding comes after the map, as if the layer itself had computed the vectors.
TEST(Attention, TurnsTheVectorsThatItComputes) {
  Seeded random(kSeed);
  const Tensor query = random.normal({1, 2, 6, 4}), key = random.normal({1, 1, 6, 4}),
               value = random.normal({1, 1, 6, 4});
  AttentionOptions options{
      .heads = 2, .kv_heads = 1, .head_dim = 4, .rotary = RotaryOptions{.interleaved = true}};
  Attention computed = make("vector q2 = relu(q)\nvector k2 = -k\nstream t = q2 . k2\nscore = t", options);
  Attention plain = make("score = s", options);
  EXPECT_TRUE(torch::equal(computed->forward(query, key, value, {.offset = 2}),
                           plain->forward(query.clamp_min(0), -key, value, {.offset = 2})));
}

// Keys may come from another input, and queries may be the last of a longer one.
TEST(Attention, TakesKeysFromTheMemory) {
  Seeded random(kSeed);
  Attention attention = make("vector q2 = project(x)\nvector k2 = project(x)\nstream t = q2 . k2\nscore = t",
                             {.heads = 2, .head_dim = 3, .model_dim = 4});
  attention->to(torch::kDouble);
  const Tensor x = random.normal({1, 3, 4}), memory = random.normal({1, 5, 4});
  const auto ones = [](int64_t tokens) { return torch::ones({1, 2, tokens, 3}, torch::kDouble); };
  const auto parameters = attention->named_parameters();
  const auto projected = [&](const Tensor& input, const std::string& name) {
    return torch::matmul(input, parameters[name + ".project.weight"].t()).view({1, -1, 2, 3}).transpose(1, 2);
  };
  const auto expected = [&](const Tensor& queries, const Tensor& keys) {
    return torch::softmax(
        torch::matmul(projected(queries, "q2"), projected(keys, "k2").transpose(-2, -1)) / std::sqrt(3.0),
        -1);
  };
  const double tolerance = test::rounding(torch::kDouble, 32, 8);
  EXPECT_TRUE(test::close(
      attention->run(ones(3), ones(5), ones(5), {.x = x, .memory = memory, .need_weights = true}).weights,
      expected(x, memory), tolerance));
  EXPECT_TRUE(test::close(
      attention->run(ones(2), ones(5), ones(5), {.x = memory, .offset = 3, .need_weights = true}).weights,
      expected(memory.narrow(1, 3, 2), memory), tolerance));
}

TEST(Attention, SaysWhichPathRuns) {
  for (const auto& [wanted, taken] : {std::pair{Path::automatic, Path::fused},
                                      {Path::fused, Path::fused},
                                      {Path::reference, Path::reference}}) {
    const PathChoice choice = make("mask = causal", {.path = wanted})->path();
    EXPECT_EQ(choice.path, taken);
    EXPECT_FALSE(choice.reason.empty());
  }
}

// --- wrong options

TEST(AttentionOptions, AreChecked) {
  EXPECT_EQ(error_of([] { make("mask = causal", {.heads = 0}); }),
            "attention: it has 0 heads and 0 key heads; expected at least 1");
  EXPECT_EQ(error_of([] { make("mask = causal", {.heads = 8, .kv_heads = 3}); }),
            "attention: 8 heads are not a multiple of 3 key heads");
  EXPECT_EQ(error_of([] { make("mask = causal", {.head_dim = 0}); }),
            "attention: head_dim is 0; expected at least 1");
  EXPECT_EQ(error_of([] { make("token F = project(x)\nscore = s + F[j]", {}); }),
            "attention: 'F' projects the layer's input x, so model_dim must be given");
  EXPECT_EQ(error_of([] {
              make("param g[head] = 1\nvector k2 = g * k\nstream t = q . k2\nscore = t",
                   {.heads = 4, .kv_heads = 2});
            }),
            "attention: 'k2' is a key vector, of 2 heads, but its param 'g' has 4");
  EXPECT_EQ(error_of([] {
              make("param g = 1\nvector k2 = g * k\nstream t = q . k2\nscore = t",
                   {.heads = 4, .kv_heads = 2});
            }),
            "no error");
}

// --- wrong calls

struct Call {
  Tensor query = torch::zeros({2, 4, 5, 8}), key = torch::zeros({2, 2, 5, 8}),
         value = torch::zeros({2, 2, 5, 3});
  AttentionCall rest;
  bool with_cache = false;
};

// The error of a call that is right but for what `spoil` does to it.
std::string error_after(const std::string& text, const std::function<void(Call&)>& spoil) {
  Attention attention = make(text, {.heads = 4, .kv_heads = 2, .head_dim = 8, .model_dim = 6});
  Call call;
  spoil(call);
  KvCache cache = attention->make_cache();
  return error_of([&] {
    attention->run(call.query, call.key, call.value, call.rest, call.with_cache ? &cache : nullptr);
  });
}

TEST(AttentionCall, NamesTheWrongTensor) {
  const auto causal = [](const std::function<void(Call&)>& spoil) {
    return error_after("mask = causal", spoil);
  };
  EXPECT_EQ(causal([](Call&) {}), "no error");
  EXPECT_EQ(causal([](Call& c) { c.key = Tensor(); }), "attention: key is missing");
  EXPECT_EQ(causal([](Call& c) {
              c.query = torch::zeros({4, 5, 8});
            }),
            "attention: query has shape [4, 5, 8]; expected [batch, heads, tokens, width]");
  EXPECT_EQ(causal([](Call& c) { c.value = c.value.to(torch::kLong); }),
            "attention: value has dtype Long; expected float, double, bfloat16 or half");
  EXPECT_EQ(causal([](Call& c) { c.key = c.key.to(torch::kDouble); }),
            "attention: key has dtype Double, query has Float; expected one dtype");
  EXPECT_EQ(causal([](Call& c) {
              c.value = torch::zeros({3, 2, 5, 3});
            }),
            "attention: value has batch size 3, query has 2");
  EXPECT_EQ(causal([](Call& c) { c.key = torch::zeros({2, 0, 5, 8}); }), "attention: key has no heads");
  EXPECT_EQ(causal([](Call& c) {
              c.key = torch::zeros({2, 2, 5, 7});
            }),
            "attention: key has width 7, query has 8; expected the same");
  EXPECT_EQ(causal([](Call& c) {
              c.value = torch::zeros({2, 2, 6, 3});
            }),
            "attention: value has 6 tokens, key has 5; expected the same");
  EXPECT_EQ(causal([](Call& c) {
              c.value = torch::zeros({2, 1, 5, 3});
            }),
            "attention: value has 1 heads, key has 2; expected the same");
  EXPECT_EQ(causal([](Call& c) {
              c.key = c.value = torch::zeros({2, 3, 5, 8});
            }),
            "attention: key has 3 heads, query has 4; 4 is not a multiple of 3");
  EXPECT_EQ(causal([](Call& c) {
              c.query = torch::zeros({2, 2, 5, 8});
            }),
            "attention: query has 2 heads; expected 4");
  EXPECT_EQ(causal([](Call& c) {
              c.key = c.value = torch::zeros({2, 4, 5, 8});
            }),
            "attention: key has 4 heads; expected 2");
  EXPECT_EQ(causal([](Call& c) {
              c.query = torch::zeros({2, 4, 5, 6});
              c.key = torch::zeros({2, 2, 5, 6});
            }),
            "attention: query has width 6; expected head_dim 8");
  EXPECT_EQ(causal([](Call& c) { c.rest.offset = -1; }), "attention: the offset is -1; expected 0 or more");
  EXPECT_EQ(causal([](Call& c) { c.rest.dropout = 1; }),
            "attention: dropout is 1; expected 0 or more and less than 1");
  EXPECT_EQ(causal([](Call& c) {
              c.rest.key_mask = torch::ones({2, 4}, torch::kBool);
            }),
            "attention: the key mask has shape [2, 4]; expected [2, 5]");
  EXPECT_EQ(causal([](Call& c) {
              c.rest.key_mask = torch::ones({2, 5});
            }),
            "attention: the key mask has dtype Float; expected bool, true for real keys");
  EXPECT_EQ(causal([](Call& c) {
              c.rest.x = torch::zeros({5, 6});
            }),
            "attention: the layer's input has shape [5, 6]; expected [2, tokens, model_dim]");
}

TEST(AttentionCall, NamesTheWrongInput) {
  const std::string text =
      "input doc[token]: int\ninput kind[token]: bool\ninput bias[head, 3]\nmask = kind[j]\n"
      "score = s + bias[doc[j]]";
  const auto with = [&](const std::function<void(std::map<std::string, Tensor>&)>& spoil) {
    return error_after(text, [&](Call& call) {
      call.rest.inputs = {{"doc", torch::zeros({5}, torch::kLong)},
                          {"kind", torch::ones({2, 5}, torch::kBool)},
                          {"bias", torch::zeros({4, 3})}};
      spoil(call.rest.inputs);
    });
  };
  EXPECT_EQ(with([](auto&) {}), "no error");
  EXPECT_EQ(with([](auto& inputs) { inputs.erase("doc"); }),
            "attention: the formula 'it' needs the input 'doc'");
  EXPECT_EQ(with([](auto& inputs) { inputs["doc"] = Tensor(); }),
            "attention: the formula 'it' needs the input 'doc'");
  EXPECT_EQ(with([](auto& inputs) { inputs["bais"] = torch::zeros({1}); }),
            "attention: the formula 'it' has no input 'bais'; did you mean 'bias'?");
  EXPECT_EQ(with([](auto& inputs) { inputs["doc"] = torch::zeros({4}, torch::kLong); }),
            "attention: 'doc' has size 4 in its dimension 'token'; expected 5");
  EXPECT_EQ(with([](auto& inputs) {
              inputs["doc"] = torch::zeros({3, 5}, torch::kLong);
            }),
            "attention: 'doc' has size 3 in its dimension 'batch'; expected 2");
  EXPECT_EQ(with([](auto& inputs) {
              inputs["doc"] = torch::zeros({2, 2, 5}, torch::kLong);
            }),
            "attention: 'doc' has 3 dimensions of shape [2, 2, 5]; expected [token]");
  EXPECT_EQ(with([](auto& inputs) {
              inputs["bias"] = torch::zeros({2, 3});
            }),
            "attention: 'bias' has size 2 in its dimension 'head'; expected 4");
  EXPECT_EQ(with([](auto& inputs) {
              inputs["bias"] = torch::zeros({4, 2});
            }),
            "attention: 'bias' has size 2 in its dimension '3'; expected 3");
  EXPECT_EQ(with([](auto& inputs) { inputs["doc"] = torch::zeros({5}); }),
            "attention: 'doc' has dtype Float; expected an integer type");
  EXPECT_EQ(with([](auto& inputs) { inputs["kind"] = torch::zeros({5}, torch::kLong); }),
            "attention: 'kind' has dtype Long; expected bool");
  EXPECT_EQ(with([](auto& inputs) {
              inputs["bias"] = torch::zeros({4, 3}, torch::kLong);
            }),
            "attention: 'bias' has dtype Long; expected a floating type");
  EXPECT_EQ(error_after("input r[rel]\nscore = s + r[d]",
                        [](Call& call) {
                          call.rest.inputs = {{"r", torch::zeros({4})}};
                        }),
            "attention: 'r' has 4 entries by distance; expected an odd number, with d = 0 in the middle");
  EXPECT_EQ(error_after("input r[*]\nscore = s + r[d]",
                        [](Call& call) {
                          call.rest.inputs = {{"r", torch::zeros({0})}};
                        }),
            "attention: 'r' is empty in its dimension '*'");
}

TEST(AttentionCall, NamesTheWrongLayerInput) {
  const std::string vector = "vector q2 = project(x)\nvector k2 = project(x)\nstream t = q2 . k2\nscore = t";
  const std::string token = "token F = project(x)\nscore = s + F[j]";
  for (const std::string& text : {vector, token}) {
    EXPECT_EQ(
        error_after(text, [](Call&) {}),
        "attention: the formula 'it' is computed from the layer's input x, which this call does not give");
    EXPECT_EQ(error_after(text, [](Call& call) { call.rest.x = torch::zeros({2, 5, 6}); }), "no error");
  }
  EXPECT_EQ(error_after(vector,
                        [](Call& call) {
                          call.rest.x = torch::zeros({2, 5, 7});
                        }),
            "attention: the layer's input x has width 7; 'q2' expects model_dim 6");
  EXPECT_EQ(error_after(vector,
                        [](Call& call) {
                          call.rest.x = torch::zeros({2, 4, 6});
                        }),
            "attention: the layer's input x has 4 tokens; 'q2' needs those from 0 to 4");
  EXPECT_EQ(error_after(token,
                        [](Call& call) {
                          call.rest.x = torch::zeros({2, 4, 6});
                        }),
            "attention: the layer's input x has 4 tokens; 'F' needs it for all 5");
  EXPECT_EQ(error_after(token,
                        [](Call& call) {
                          call.rest.x = call.rest.memory = torch::zeros({2, 5, 6});
                        }),
            "attention: 'F' is read for queries and keys alike, which have different inputs here");
  EXPECT_EQ(error_after("vector q2 = cumsum(q)\nstream t = q2 . k\nscore = t",
                        [](Call& call) { call.rest.offset = 3; }),
            "attention: 'q2' sums q along the tokens; queries that start at position 3 need a cache");
}

TEST(AttentionCall, SaysWhyAFormulaCannotDecode) {
  const auto with_cache = [](const std::string& text) {
    return error_after(text, [](Call& call) { call.with_cache = true; });
  };
  const std::string prefix = "attention: the formula 'it' cannot decode with a cache: ";
  EXPECT_EQ(with_cache("mask = causal"), "no error");
  EXPECT_EQ(
      with_cache("score = s"),
      prefix + "its mask may allow a key that comes after the query (d < 0); add 'causal and' to the mask");
  EXPECT_EQ(
      with_cache("mask = causal\nscore = s / log(n)"),
      prefix +
          "it reads n, the number of keys, which grows with every token; pin it with 'const n = 2048' or "
          "--set n=2048");
  EXPECT_EQ(error_after("input c[token]\nmask = causal\nscore = s + c[i + 1]",
                        [](Call& call) {
                          call.with_cache = true;
                          call.rest.inputs = {{"c", torch::zeros({5})}};
                        }),
            prefix + "it reads c[i + 1], which may lie in the future");
  EXPECT_EQ(error_after("input m[query, key]\nmask = causal\nscore = s + m[i, j]",
                        [](Call& call) {
                          call.with_cache = true;
                          call.rest.inputs = {{"m", torch::zeros({5, 4})}};
                        }),
            "attention: 'm' has size 4 in its dimension 'key'; expected 5");
}

TEST(AttentionCall, WithACacheIsAboutNewTokensAlone) {
  const auto cached = [](const std::function<void(Call&)>& spoil) {
    return error_after("mask = causal", [&](Call& call) {
      call.with_cache = true;
      spoil(call);
    });
  };
  EXPECT_EQ(cached([](Call& c) {
              c.query = torch::zeros({2, 4, 3, 8});
            }),
            "attention: decoding got 3 new queries and 5 new keys; expected the same number");
  EXPECT_EQ(cached([](Call& c) { c.rest.offset = 2; }),
            "attention: with a cache the position is the cache's; an offset of 2 cannot be given too");
  EXPECT_EQ(cached([](Call& c) {
              c.rest.memory = torch::zeros({2, 5, 6});
            }),
            "attention: a cache cannot be used with another input for the keys");
}

// Rotary embedding turns keys that several heads share.
TEST(AttentionCall, TakesPositionsForAllHeadsAlike) {
  EXPECT_THAT(error_of([] { make("input pos[head, token]: int\nmask = causal", {.heads = 2}); }),
              ::testing::HasSubstr("a token has one position for all heads: 'input pos[token]: int'"));
}

}  // namespace
}  // namespace saccade::attention_test
