// The module: that it estimates the softmax, and is an Attention in everything else: grouped heads, padding,
// rotary embedding, short dtypes, decoding.
#include "saccade/attention/performer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "saccade/attention/testing.h"

namespace saccade::performer_test {
namespace {

using test::close;
using test::error_of;
using test::kNaN;
using test::largest;
using test::rounding;
using test::Seeded;
using ::testing::HasSubstr;
using torch::Tensor;

constexpr uint64_t kSeed = 20240705;

Formula formula_of(bool causal) { return Formula::load(causal ? "causal" : "full"); }

Performer make(bool causal, AttentionOptions options, PerformerOptions performer) {
  Performer result(formula_of(causal), options, performer);
  result->to(torch::kDouble);
  return result;
}

struct Inputs {
  Tensor query, key, value;

  Inputs(Seeded& random, int64_t batch, int64_t heads, int64_t kv_heads, int64_t tokens, int64_t width,
         at::ScalarType dtype = torch::kDouble)
      : query(random.normal({batch, heads, tokens, width}, dtype)),
        key(random.normal({batch, kv_heads, tokens, width}, dtype)),
        value(random.normal({batch, kv_heads, tokens, width + 1}, dtype)) {}
  // Scaled dot products of this size: large ones have a variance that no number of draws averages out.
  Inputs with_logits(double size) const {
    Inputs result = *this;
    result.query = query * std::sqrt(size);
    result.key = key * std::sqrt(size);
    return result;
  }
  Inputs part(int64_t first, int64_t count) const {
    Inputs result = *this;
    for (Tensor* tensor : {&result.query, &result.key, &result.value})
      *tensor = tensor->narrow(2, first, count);
    return result;
  }
};

template <class Module>
Tensor run(Module& module, const Inputs& inputs, const AttentionCall& call = {}) {
  return module->forward(inputs.query, inputs.key, inputs.value, call);
}

double tolerance(const Inputs& inputs) { return rounding(torch::kDouble, 512, 1 + largest(inputs.value)); }

// --- it estimates exact attention

// The estimate of exp(s) has exp(s) as mean, so the sum over keys has too: within what chance allows.
TEST(Performer, EstimatesSumsWithoutBias) {
  for (const bool causal : {true, false}) {
    Seeded random(kSeed);
    const AttentionOptions options{.heads = 2, .head_dim = 4};
    const Inputs inputs = Inputs(random, 1, 2, 2, 6, 4).with_logits(0.4);
    Performer performer = make(causal, options, {.features = 8, .seed = kSeed});
    Attention exact(formula_of(causal), options);
    const Tensor expected = torch::exp(exact->run(inputs.query, inputs.key, inputs.value, {}).log_sums[0]);
    constexpr int64_t kDraws = 3000;
    std::vector<Tensor> draws;
    for (int64_t draw = 0; draw < kDraws; ++draw) {
      performer->redraw();
      draws.push_back(torch::exp(performer->run(inputs.query, inputs.key, inputs.value, {}).log_sums[0]));
    }
    const Tensor all = torch::stack(draws);
    const Tensor error = all.std(0) / std::sqrt(static_cast<double>(kDraws));
    EXPECT_LE(largest((all.mean(0) - expected) / error), 5) << "standard errors";
    EXPECT_LE(largest(error / expected), 0.05) << "so that the comparison says something";
  }
}

// Outputs are quotients, whose bias falls faster with the number of features than their error.
TEST(Performer, AveragesToExactAttention) {
  for (const bool causal : {true, false}) {
    Seeded random(kSeed);
    const AttentionOptions options{.heads = 2, .head_dim = 4};
    const Inputs inputs = Inputs(random, 1, 2, 2, 12, 4).with_logits(0.4);
    Performer performer = make(causal, options, {.features = 128, .seed = kSeed});
    Attention exact(formula_of(causal), options);
    const Tensor expected = run(exact, inputs);
    constexpr int64_t kDraws = 400;
    Tensor sum = torch::zeros_like(expected);
    double square = 0;
    for (int64_t draw = 0; draw < kDraws; ++draw) {
      performer->redraw();
      const Tensor output = run(performer, inputs);
      sum += output;
      square += (output - expected).square().sum().item<double>();
    }
    const double single = std::sqrt(square / kDraws);
    EXPECT_LE((sum / kDraws - expected).norm().item<double>(), 0.2 * single);
    EXPECT_LE(single, 0.5 * expected.norm().item<double>());
  }
}

// --- it is an Attention

TEST(Performer, StandsInForAttention) {
  Seeded random(kSeed);
  const Inputs inputs(random, 2, 2, 2, 5, 4);
  const Performer performer = make(true, {.heads = 2, .head_dim = 4}, {.features = 6});
  Attention attention(std::static_pointer_cast<AttentionImpl>(performer.ptr()));
  EXPECT_TRUE(
      torch::equal(run(attention, inputs), performer.ptr()->forward(inputs.query, inputs.key, inputs.value)));
}

TEST(Performer, NeverLooksAhead) {
  Seeded random(kSeed);
  for (const auto dtype : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
    Performer performer(formula_of(true), AttentionOptions{.heads = 4, .kv_heads = 2, .head_dim = 8},
                        PerformerOptions{.features = 32, .chunk = 8});
    const Inputs inputs(random, 2, 4, 2, 30, 8, dtype);
    const Tensor before = run(performer, inputs);
    for (const int64_t changed : {1, 7, 8, 20, 29}) {
      Inputs other = inputs;
      for (Tensor* tensor : {&other.query, &other.key, &other.value}) {
        *tensor = tensor->clone();
        tensor->narrow(2, changed, 30 - changed).mul_(-20);
      }
      const Tensor after = run(performer, other);
      EXPECT_TRUE(torch::equal(after.narrow(2, 0, changed), before.narrow(2, 0, changed))) << changed;
      EXPECT_FALSE(torch::equal(after, before));
    }
  }
}

TEST(Performer, SharesKeysAmongGroupedHeads) {
  Seeded random(kSeed);
  for (const bool causal : {true, false}) {
    const Inputs inputs(random, 2, 6, 2, 11, 4);
    Performer grouped = make(causal, {.heads = 6, .kv_heads = 2, .head_dim = 4}, {.features = 8, .chunk = 4}),
              plain = make(causal, {.heads = 6, .head_dim = 4}, {.features = 8, .chunk = 4});
    Inputs repeated = inputs;
    repeated.key = inputs.key.repeat_interleave(3, 1);
    repeated.value = inputs.value.repeat_interleave(3, 1);
    EXPECT_TRUE(close(run(grouped, inputs), run(plain, repeated), tolerance(inputs)));
  }
}

TEST(Performer, IgnoresPadding) {
  Seeded random(kSeed);
  for (const bool causal : {true, false}) {
    Inputs inputs(random, 2, 4, 2, 12, 4);
    Performer performer =
        make(causal, {.heads = 4, .kv_heads = 2, .head_dim = 4}, {.features = 8, .chunk = 4});
    Tensor mask = torch::ones({2, 12}, torch::kBool);
    mask[0].narrow(0, 8, 4).fill_(false);
    const Tensor expected = run(performer, inputs.part(0, 8));
    for (Tensor* tensor : {&inputs.key, &inputs.value}) tensor->select(0, 0).narrow(1, 8, 4).fill_(kNaN);
    for (Tensor* tensor : {&inputs.query, &inputs.key, &inputs.value}) tensor->requires_grad_();
    const Tensor output = run(performer, inputs, {.key_mask = mask});
    EXPECT_TRUE(close(output[0].narrow(1, 0, 8), expected[0], tolerance(inputs.part(0, 8))));
    EXPECT_TRUE(output.isfinite().all().item<bool>());
    for (const Tensor& gradient :
         torch::autograd::grad({output.square().sum()}, {inputs.query, inputs.key, inputs.value}))
      EXPECT_TRUE(gradient.isfinite().all().item<bool>());
    EXPECT_EQ(largest(run(performer, inputs, {.key_mask = torch::zeros({2, 12}, torch::kBool)})), 0);
  }
}

TEST(Performer, TakesQueriesFromAnOffset) {
  Seeded random(kSeed);
  Performer performer =
      make(true, {.heads = 2, .head_dim = 4, .rotary = RotaryOptions{}}, {.features = 8, .chunk = 4});
  const Inputs inputs(random, 2, 2, 2, 12, 4);
  Inputs last = inputs;
  last.query = inputs.query.narrow(2, 5, 7);
  EXPECT_TRUE(
      close(run(performer, last, {.offset = 5}), run(performer, inputs).narrow(2, 5, 7), tolerance(inputs)));
}

TEST(Performer, TakesNoTokensAtAll) {
  Seeded random(kSeed);
  Performer performer = make(true, {.heads = 4, .kv_heads = 2, .head_dim = 4}, {.features = 8});
  const Inputs inputs(random, 2, 4, 2, 3, 4);
  EXPECT_EQ(shape_text(run(performer, inputs.part(0, 0))), "[2, 4, 0, 5]");
  Inputs no_keys = inputs.part(0, 0);
  no_keys.query = inputs.query;
  EXPECT_TRUE(torch::equal(run(performer, no_keys), torch::zeros({2, 4, 3, 5}, torch::kDouble)));
}

TEST(Performer, GivesTheWeightsOnRequest) {
  Seeded random(kSeed);
  Performer performer = make(true, {.heads = 4, .kv_heads = 2, .head_dim = 4}, {.features = 8, .chunk = 4});
  const Inputs inputs(random, 2, 4, 2, 9, 4);
  const AttentionResult result =
      performer->run(inputs.query, inputs.key, inputs.value, {.need_weights = true});
  EXPECT_TRUE(close(torch::matmul(result.weights, inputs.value.repeat_interleave(2, 1)), result.output,
                    tolerance(inputs)));
  EXPECT_EQ(largest(result.weights.triu(1)), 0);
  EXPECT_EQ(performer->run(inputs.query, inputs.key, inputs.value, {}).weights.defined(), false);
}

// Short dtypes are computed in single precision: what is lost is the rounding of inputs and output.
TEST(Performer, ComputesShortDtypesInFloat) {
  Seeded random(kSeed);
  Performer performer(formula_of(true), AttentionOptions{.heads = 2, .head_dim = 8},
                      PerformerOptions{.features = 16, .chunk = 4});
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    Inputs inputs(random, 1, 2, 2, 10, 8, dtype);
    inputs.key.requires_grad_();
    const Tensor output = run(performer, inputs);
    ASSERT_EQ(output.scalar_type(), dtype);
    Inputs wide = inputs;
    for (Tensor* tensor : {&wide.query, &wide.key, &wide.value}) *tensor = tensor->to(torch::kFloat);
    EXPECT_TRUE(torch::equal(output, run(performer, wide).to(dtype)));
    EXPECT_EQ(torch::autograd::grad({output.sum()}, {inputs.key})[0].scalar_type(), dtype);
  }
}

// --- decoding

const std::vector<std::vector<int64_t>> kSteps = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {13}, {6, 1, 1, 5}, {1, 9, 3}};

template <class Memory>
void expect_decoding(const std::function<Memory(Performer&)>& begin) {
  Seeded random(kSeed);
  Performer performer = make(true, {.heads = 4, .kv_heads = 2, .head_dim = 4, .rotary = RotaryOptions{}},
                             {.features = 8, .chunk = 4});
  const Inputs inputs(random, 2, 4, 2, 13, 4);
  Tensor mask = torch::ones({2, 13}, torch::kBool);
  mask[0].narrow(0, 0, 3).fill_(false);
  for (const bool padded : {false, true}) {
    const Tensor expected = run(performer, inputs, {.key_mask = padded ? mask : Tensor()});
    for (const auto& steps : kSteps) {
      Memory memory = begin(performer);
      std::vector<Tensor> outputs;
      for (const int64_t count : steps) {
        const int64_t first = memory.length();
        const Inputs fresh = inputs.part(first, count);
        AttentionCall call;
        if (padded) call.key_mask = mask.narrow(1, first, count);
        outputs.push_back(performer->forward(fresh.query, fresh.key, fresh.value, memory, call));
      }
      EXPECT_EQ(memory.length(), 13);
      EXPECT_TRUE(close(torch::cat(outputs, 2), expected, tolerance(inputs))) << steps.size() << " steps";
    }
  }
}

TEST(Performer, DecodesWithACache) {
  expect_decoding<KvCache>([](Performer& performer) { return performer->make_cache(); });
}

TEST(Performer, DecodesWithAStateOfFixedSize) {
  expect_decoding<PerformerState>([](Performer&) { return PerformerState(); });
  Seeded random(kSeed);
  Performer performer = make(true, {.heads = 4, .kv_heads = 2, .head_dim = 4}, {.features = 8});
  PerformerState state;
  EXPECT_EQ(state.bytes(), 0);
  for (const int64_t tokens : {1, 5, 40}) {
    const Inputs fresh(random, 3, 4, 2, tokens, 4);
    performer->forward(fresh.query, fresh.key, fresh.value, state);
    EXPECT_EQ(state.bytes(), 3 * 2 * (8 * 6 + 1) * 8);
  }
}

TEST(Performer, ExchangesBeams) {
  Seeded random(kSeed);
  Performer performer = make(true, {.heads = 4, .kv_heads = 2, .head_dim = 4}, {.features = 8});
  const Inputs inputs(random, 3, 4, 2, 6, 4);
  const Tensor beams = torch::tensor({2, 0, 2, 1});
  Inputs exchanged = inputs;
  for (Tensor* tensor : {&exchanged.query, &exchanged.key, &exchanged.value})
    *tensor = tensor->index_select(0, beams);
  const Inputs first = inputs.part(0, 5), last = exchanged.part(5, 1);
  PerformerState state;
  performer->forward(first.query, first.key, first.value, state);
  const PerformerState copy = state;
  state.reorder(beams);
  EXPECT_EQ(state.batch(), 4);
  EXPECT_EQ(copy.batch(), 3);
  EXPECT_TRUE(close(performer->forward(last.query, last.key, last.value, state),
                    run(performer, exchanged).narrow(2, 5, 1), tolerance(inputs)));
  EXPECT_EQ(error_of([&] { state.reorder(torch::tensor({4})); }),
            "performer: reorder has an index outside 0..3");
  state.reset();
  EXPECT_EQ(state.length(), 0);
}

// --- directions

TEST(Performer, DrawsDirectionsFromItsSeed) {
  const AttentionOptions options{.heads = 1, .head_dim = 4};
  const auto directions = [&](uint64_t seed, int redraws) {
    Performer performer(formula_of(true), options, PerformerOptions{.features = 6, .seed = seed});
    while (redraws-- > 0) performer->redraw();
    return performer->directions().clone();
  };
  EXPECT_TRUE(torch::equal(directions(1, 0), directions(1, 0)));
  EXPECT_TRUE(torch::equal(directions(1, 2), directions(1, 2)));
  EXPECT_FALSE(torch::equal(directions(1, 0), directions(2, 0)));
  EXPECT_FALSE(torch::equal(directions(1, 0), directions(1, 1)));
}

TEST(Performer, KeepsDirectionsInItsState) {
  Performer performer = make(true, {.heads = 1, .head_dim = 4}, {.features = 6});
  EXPECT_TRUE(performer->parameters().empty());
  ASSERT_EQ(performer->named_buffers().size(), 1u);
  EXPECT_EQ(performer->named_buffers()[0].key(), "directions");
  performer->redraw();
  EXPECT_TRUE(torch::equal(performer->named_buffers()["directions"], performer->directions()));
}

// --- what it refuses

TEST(Performer, RefusesOtherFormulas) {
  const auto refusal = [](const std::string& text) {
    return error_of([&] {
      Performer(Formula::parse(text, {.name = "it"}), AttentionOptions{.heads = 2, .head_dim = 4},
                PerformerOptions{});
    });
  };
  EXPECT_EQ(refusal("mask = causal\nscore = s - 2 * d"),
            "performer: it cannot run the formula 'it': its weights are softmax(s - 2 * d); it estimates the "
            "softmax "
            "of plain scores, so it takes 'causal' and 'full' alone");
  EXPECT_THAT(refusal("mask = 0 <= d < 5"), HasSubstr("sums over features cannot leave out single pairs"));
  EXPECT_THAT(refusal("mask = causal\nscale = 2"), HasSubstr("its scale is 2"));
  EXPECT_THAT(refusal("weights = softmax(s, sink = 0)"), HasSubstr("its weights are softmax(s, sink = 0)"));
  EXPECT_THAT(refusal("input pos[token]: int\nmask = causal"), HasSubstr("its mask is "));
  // Other words for the same are the same.
  for (const std::string text : {"mask = i >= j", "mask = causal\nscore = s", "weights = softmax(s)"})
    EXPECT_EQ(refusal(text), "no error") << text;
}

TEST(Performer, RefusesWhatItCannotDo) {
  Seeded random(kSeed);
  const Inputs inputs(random, 1, 1, 1, 3, 4);
  const AttentionOptions options{.heads = 1, .head_dim = 4};
  EXPECT_EQ(error_of([&] { Performer(formula_of(true), options, PerformerOptions{.features = 0}); }),
            "performer: it has 0 features; expected at least 1");
  Performer performer = make(true, options, {.features = 4}), full = make(false, options, {.features = 4});
  EXPECT_EQ(error_of([&] { run(performer, inputs, {.dropout = 0.5}); }),
            "performer: dropout is 0.5; it forms no weights that could be dropped");
  EXPECT_EQ(error_of([&] { run(performer, inputs, {.lists = KeyLists{}}); }),
            "performer: a call with lists of keys; sums over features cannot leave out single pairs");
  PerformerState state;
  const auto step = [&](Performer& with, const Inputs& fresh) {
    return error_of([&] { with->forward(fresh.query, fresh.key, fresh.value, state); });
  };
  EXPECT_THAT(step(full, inputs), HasSubstr("performer: the formula 'full' cannot decode with a state: "));
  EXPECT_EQ(step(performer, inputs), "no error");
  EXPECT_EQ(step(performer, Inputs(random, 2, 1, 1, 1, 4)),
            "performer: the state holds 1 sequences, the new tokens have 2");
  EXPECT_THAT(step(performer, Inputs(random, 1, 1, 1, 1, 4, torch::kFloat)),
              HasSubstr("which the new tokens do not fit"));
  performer->redraw();
  EXPECT_EQ(step(performer, inputs), "performer: the state was computed before redraw(); reset it");
}

}  // namespace
}  // namespace saccade::performer_test
