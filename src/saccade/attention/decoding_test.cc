// Decoding with a cache equals the full forward, for every kind of thing that a formula can remember.
#include <gtest/gtest.h>

#include "saccade/attention/attention.h"
#include "saccade/attention/testing.h"

namespace saccade::decoding_test {
namespace {

using test::close;
using test::largest;
using test::rounding;
using test::Seeded;
using torch::Tensor;

constexpr uint64_t kSeed = 20240609;
constexpr int64_t kHeads = 4, kKvHeads = 2, kWidth = 4, kModel = 3;

// An input for so many tokens, and whether its first dimension is the batch.
struct DecodingInput {
  std::string name;
  std::function<Tensor(Seeded&, int64_t batch, int64_t tokens)> make;
  bool by_batch = false;
};

struct DecodingCase {
  std::string name, text;
  std::vector<DecodingInput> inputs = {};
};
void PrintTo(const DecodingCase& what, std::ostream* out) { *out << what.text; }

Tensor document_numbers(Seeded& random, int64_t batch, int64_t tokens) {
  return random.booleans({batch, tokens}, 0.2).to(torch::kLong).cumsum(1);
}

// Positions with gaps, where tokens were dropped.
Tensor sparse_positions(Seeded& random, int64_t batch, int64_t tokens) {
  return random.integers({batch, tokens}, 1, 4).cumsum(1);
}

const std::vector<DecodingCase> kCases = {
    {"causal", "mask = causal"},
    {"window", "mask = 0 <= d < 3"},
    {"itself", "token F = cumsum(project(x))\nmask = d == 0\nweights = sigmoid(s + F[j])"},
    {"sink_window", "mask = causal and (j < 2 or d < 3)"},
    {"alibi", "mask = causal\nscore = s - 2 ^ (-8 * (h + 1) / H) * d"},
    {"prior",
     "param alpha[head] = 1\nparam beta[head] = 0.7\nmask = causal\nscore = s - abs(alpha * d) ^ beta"},
    {"buckets", "param b[head, 4] = 0.5\nmask = causal\nscore = s + b[min(floor(log(1 + d)), 3)] * j"},
    {"forgetting", "token F = cumsum(logsigmoid(project(x)))\nmask = causal\nscore = s + F[i] - F[j]"},
    {"forgetting_window",
     "token F = cumsum(cumsum(project(x)))\nmask = 0 <= d < 4\nweights = softmax(s) * F[i] + F[j]"},
    {"difference",
     "vector q2 = project(x)\nvector k2 = project(x)\nstream t = q2 . k2\nparam lam[head] = 0.8\n"
     "mask = causal\nweights = softmax(s) - lam * softmax(t)"},
    {"running_key",
     "vector k2 = norm(cumsum(project(x) + k))\nvector q2 = linear(relu(q))\nstream t = q2 . k2\n"
     "mask = 0 <= d < 5\nweights = softmax(t, sink = 0)"},
    {"document",
     "input doc[token]: int\nmask = causal and doc[i] == doc[j]",
     {{"doc", document_numbers, true}}},
    {"document_window",
     "input doc[token]: int\nmask = 0 <= d < 4 and doc[i] == doc[j]",
     {{"doc", document_numbers, true}}},
    {"chosen",
     "input global[token]: bool\nmask = causal and (d < 2 or global[j] or global[i])",
     {{"global", [](Seeded& random, int64_t, int64_t tokens) { return random.booleans({tokens}, 0.3); }}}},
    {"key_bias",
     "input b[head, key]\nmask = 0 <= d < 6\nscore = s + b[j]",
     {{"b",
       [](Seeded& random, int64_t, int64_t tokens) {
         return random.normal({kHeads, tokens});
       }}}},
    {"query_temperature",
     "input c[query]\nmask = causal\nscore = s * c[i]",
     {{"c",
       [](Seeded& random, int64_t batch, int64_t tokens) {
         return random.normal({batch, tokens});
       },
       true}}},
    {"earlier_token",
     "input c[token]\nmask = 0 <= d < 5\nscore = s + c[max(i - 2, 0)] * c[max(j - 1, 0)]",
     {{"c",
       [](Seeded& random, int64_t batch, int64_t tokens) {
         return random.normal({batch, tokens});
       },
       true}}},
    {"hidden_prefix",
     "input p[batch]: int\nmask = causal and (j >= p or i < p)",
     {{"p", [](Seeded& random, int64_t batch, int64_t) { return random.integers({batch}, 0, 5); }, true}}},
    {"distance_table",
     "input r[head, rel]\nmask = 0 <= d < 7\nscore = s + r[d]",
     {{"r",
       [](Seeded& random, int64_t, int64_t) {
         return random.normal({kHeads, 9});
       }}}},
    {"positions",
     "input pos[token]: int\nmask = causal\nscore = s - 0.3 * d + 0.1 * i",
     {{"pos", sparse_positions, true}}},
    {"running_query", "vector q2 = cumsum(project(x))\nstream t = q2 . k\nmask = 0 <= d < 5\nscore = t"},
    {"pair_bias",
     "input m[head, query, key]\nmask = causal\nscore = s + m[i, j]",
     {{"m",
       [](Seeded& random, int64_t, int64_t tokens) {
         return random.normal({kHeads, tokens, tokens});
       }}}},
    {"pair_bias_window",
     "input m[key, query]\nmask = 0 <= d < 4\nscore = s + m[j, i]",
     {{"m",
       [](Seeded& random, int64_t, int64_t tokens) {
         return random.normal({tokens, tokens});
       }}}},
    {"graph",
     "input edge[token, token]: bool\nmask = 0 <= d < 6 and (d == 0 or edge[j, i])",
     {{"edge",
       [](Seeded& random, int64_t, int64_t tokens) {
         return random.booleans({tokens, tokens});
       }}}},
    {"token_features",
     "input f[3, token, head]\nmask = 0 <= d < 4\nscore = s + f[0, i] * f[d % 3, j]",
     {{"f",
       [](Seeded& random, int64_t, int64_t tokens) {
         return random.normal({3, tokens, kHeads});
       }}}},
    {"token_features_by_sequence",
     "input f[token, 2]\nmask = causal\nscore = s + f[i, 0] * f[j, 1]",
     {{"f",
       [](Seeded& random, int64_t batch, int64_t tokens) {
         return random.normal({batch, tokens, 2});
       },
       true}}},
    {"softpick", "mask = 0 <= d < 5 and i % 4 != 2\nweights = softpick(s) - l1(s) / (j + 1)"},
};

struct Sequence {
  Tensor query, key, value, x, key_mask;
  std::map<std::string, Tensor> inputs;
};

class Decoding : public ::testing::TestWithParam<DecodingCase> {
 protected:
  void build(const DecodingCase& what, std::optional<RotaryOptions> rotary) {
    what_ = &what;
    attention_ =
        Attention(Formula::parse(what.text, {.name = what.name}), AttentionOptions{.heads = kHeads,
                                                                                   .kv_heads = kKvHeads,
                                                                                   .head_dim = kWidth,
                                                                                   .model_dim = kModel,
                                                                                   .rotary = rotary});
    attention_->to(torch::kDouble);
  }

  Sequence random_sequence(Seeded& random, int64_t batch, int64_t tokens) const {
    Sequence result{random.normal({batch, kHeads, tokens, kWidth}),
                    random.normal({batch, kKvHeads, tokens, kWidth}),
                    random.normal({batch, kKvHeads, tokens, 3}), random.normal({batch, tokens, kModel})};
    for (const DecodingInput& input : what_->inputs)
      result.inputs[input.name] = input.make(random, batch, tokens);
    return result;
  }

  // The axes of an input that run along tokens, and what they are.
  std::vector<std::pair<int64_t, Dimension::Kind>> token_axes(const std::string& name,
                                                              const Tensor& tensor) const {
    const Plan& plan = attention_->formula().plan();
    const std::vector<Dimension>& dimensions =
        plan.tables[static_cast<size_t>(plan.table_index(name))].dimensions;
    std::vector<std::pair<int64_t, Dimension::Kind>> result;
    int64_t axis =
        tensor.dim() - static_cast<int64_t>(dimensions.size());  // a batch in front is not declared
    for (const Dimension& dimension : dimensions) {
      if (runs_along_tokens(dimension.kind)) result.emplace_back(axis, dimension.kind);
      ++axis;
    }
    return result;
  }

  // The tokens from `first` on, as a call of decoding gives them. A table of pairs goes back to the start.
  Sequence part(const Sequence& all, int64_t first, int64_t count) const {
    Sequence result{all.query.narrow(2, first, count), all.key.narrow(2, first, count),
                    all.value.narrow(2, first, count), all.x.narrow(1, first, count)};
    if (all.key_mask.defined()) result.key_mask = all.key_mask.narrow(1, first, count);
    for (const auto& [name, tensor] : all.inputs) {
      Tensor& input = result.inputs[name] = tensor;
      const auto axes = token_axes(name, tensor);
      for (const auto& [axis, kind] : axes)
        input = axes.size() > 1 && kind != Dimension::Kind::query ? input.narrow(axis, 0, first + count)
                                                                  : input.narrow(axis, first, count);
    }
    return result;
  }

  AttentionResult run(const Sequence& sequence, KvCache* cache = nullptr) {
    AttentionCall call{.inputs = sequence.inputs, .key_mask = sequence.key_mask};
    if (attention_->formula().plan().needs_layer_input()) call.x = sequence.x;
    return attention_->run(sequence.query, sequence.key, sequence.value, call, cache);
  }

  // Feeds the tokens first .. last-1 in chunks and compares each with the rows of the full forward.
  void decode(const Sequence& all, const AttentionResult& full, KvCache& cache, int64_t first, int64_t last,
              const std::function<int64_t()>& next_chunk) {
    // Scores grow with positions and sums; what they lose in digits, the exponential loses.
    double size = 10 * static_cast<double>(all.query.size(2)) * (1 + largest(full.output));
    for (const Tensor& sums : full.log_sums)
      size = std::max(size, 10 * largest(sums.masked_fill(sums.isinf(), 0)));
    const double tolerance = rounding(torch::kDouble, kWidth + all.query.size(2), size);
    while (first < last) {
      const int64_t count = std::min(next_chunk(), last - first);
      const AttentionResult step = run(part(all, first, count), &cache);
      ASSERT_TRUE(close(step.output, full.output.narrow(2, first, count), tolerance))
          << "tokens " << first << " to " << first + count - 1;
      for (size_t norm = 0; norm < step.log_sums.size(); ++norm)
        ASSERT_TRUE(close(step.log_sums[norm], full.log_sums[norm].narrow(2, first, count), tolerance));
      first += count;
      ASSERT_EQ(cache.length(), first);
    }
  }

  const DecodingCase* what_ = nullptr;
  Attention attention_{nullptr};
};

const std::vector<std::optional<RotaryOptions>> kRotary = {std::nullopt, RotaryOptions{},
                                                           RotaryOptions{.dims = 2, .interleaved = true}};

TEST_P(Decoding, EqualsTheFullForwardForEveryChunking) {
  size_t round = 0;
  for (const int64_t largest_chunk : {1, 5, 100})
    for (const char* mask : {"none", "from the start", "late"}) {
      const size_t rotary = (round / 3 + round) % kRotary.size();  // every pair of choices meets once
      const uint64_t seed = kSeed + round++;
      SCOPED_TRACE(
          fmt::format("rotary {}, chunks up to {}, key mask {}, seed {}", rotary, largest_chunk, mask, seed));
      build(GetParam(), kRotary[rotary]);
      Seeded random(seed);
      const int64_t batch = 2, tokens = 18, late = 7;
      Sequence all = random_sequence(random, batch, tokens);
      if (mask != std::string("none")) all.key_mask = random.booleans({batch, tokens}, 0.7);
      if (mask == std::string("late")) all.key_mask.narrow(1, 0, late).fill_(true);
      const AttentionResult full = run(all);
      KvCache cache = attention_->make_cache();
      const auto chunk = [&] { return largest_chunk == 5 ? random.between(1, 5) : largest_chunk; };
      if (mask == std::string("late")) {
        Sequence unmasked = all;
        unmasked.key_mask = Tensor();
        decode(unmasked, full, cache, 0, late, chunk);
      }
      decode(all, full, cache, cache.length(), tokens, chunk);
    }
}

// Without a cache, queries in the middle of a sequence are given by an offset.
TEST_P(Decoding, EqualsAPartOfTheFullForward) {
  build(GetParam(), kRotary[1]);
  Seeded random(kSeed);
  const int64_t tokens = 11, first = 4, count = 5;
  const Sequence all = random_sequence(random, 2, tokens);
  const AttentionResult full = run(all);
  AttentionCall call{.x = all.x, .inputs = all.inputs, .offset = first};
  for (auto& [name, input] : call.inputs)
    for (const auto& [axis, kind] : token_axes(name, input))
      if (kind == Dimension::Kind::query) input = input.narrow(axis, first, count);
  const AttentionResult part = attention_->run(all.query.narrow(2, first, count), all.key, all.value, call);
  EXPECT_TRUE(close(part.output, full.output.narrow(2, first, count),
                    rounding(torch::kDouble, kWidth + tokens, 10 * tokens * (1 + largest(full.output)))));
}

TEST_P(Decoding, GoesOnAfterTheMaskIsNoLongerGiven) {
  build(GetParam(), kRotary[1]);
  Seeded random(kSeed);
  Sequence all = random_sequence(random, 2, 12);
  all.key_mask = random.booleans({2, 12}, 0.6);
  all.key_mask.narrow(1, 5, 7).fill_(true);
  const AttentionResult full = run(all);
  KvCache cache = attention_->make_cache();
  decode(all, full, cache, 0, 5, [] { return 5; });
  all.key_mask = Tensor();
  decode(all, full, cache, 5, 12, [] { return 2; });
}

TEST_P(Decoding, GoesOnAfterRejectedGuesses) {
  build(GetParam(), kRotary[1]);
  Seeded random(kSeed);
  const Sequence all = random_sequence(random, 2, 20);
  const AttentionResult full = run(all);
  KvCache cache = attention_->make_cache();
  int64_t length = 0;
  while (length < 20) {
    const Sequence wrong = random_sequence(random, 2, 20);
    const int64_t guesses = std::min<int64_t>(random.between(1, 3), 20 - length);
    for (int64_t guess = 0; guess < guesses; ++guess) run(part(wrong, length + guess, 1), &cache);
    const std::string error = test::error_of([&] { cache.crop(length); });
    if (error != "no error") {  // a ring has already let go of what it would need
      ASSERT_TRUE(cache.ring().has_value()) << error;
      cache.reset();
      length = 0;
      decode(all, full, cache, 0, 20, [&] { return random.between(1, 4); });
      break;
    }
    const int64_t right = std::min<int64_t>(random.between(1, 4), 20 - length);
    decode(all, full, cache, length, length + right, [&] { return random.between(1, 2); });
    length += right;
  }
}

TEST_P(Decoding, StartsAnewAfterReset) {
  build(GetParam(), kRotary[0]);
  Seeded random(kSeed);
  KvCache cache = attention_->make_cache();
  Sequence other = random_sequence(random, 3, 8);
  other.key_mask = random.booleans({3, 8});
  run(other, &cache);
  cache.reset();
  const Sequence all = random_sequence(random, 2, 10);
  decode(all, run(all), cache, 0, 10, [&] { return random.between(1, 3); });
}

TEST_P(Decoding, FollowsBeams) {
  build(GetParam(), kRotary[1]);
  Seeded random(kSeed);
  Sequence all = random_sequence(random, 2, 16);
  KvCache cache = attention_->make_cache();
  decode(all, run(all), cache, 0, 9, [&] { return random.between(1, 4); });
  for (const std::vector<int64_t>& survivors :
       {std::vector<int64_t>{1, 0, 1, 1}, std::vector<int64_t>{2, 1}}) {
    const int64_t length = cache.length(), batch = static_cast<int64_t>(survivors.size());
    const Tensor indices = torch::tensor(survivors);
    cache.reorder(indices);
    // The survivors' past, and a future of their own.
    const Sequence fresh = random_sequence(random, batch, 16);
    const auto continued = [&](const Tensor& past, const Tensor& future, int64_t axis) {
      return torch::cat(
          {past.index_select(0, indices).narrow(axis, 0, length), future.narrow(axis, length, 16 - length)},
          axis);
    };
    Sequence next{continued(all.query, fresh.query, 2), continued(all.key, fresh.key, 2),
                  continued(all.value, fresh.value, 2), continued(all.x, fresh.x, 1)};
    for (const DecodingInput& input : what_->inputs) {
      const Tensor& past = all.inputs.at(input.name);
      const auto axes = token_axes(input.name, past);
      next.inputs[input.name] = !input.by_batch ? past
                                : axes.empty()  ? past.index_select(0, indices)
                                                : continued(past, fresh.inputs.at(input.name), axes[0].first);
    }
    all = next;
    decode(all, run(all), cache, length, length + 3, [&] { return random.between(1, 2); });
  }
}

TEST_P(Decoding, HoldsNoMoreThanTheRing) {
  build(GetParam(), kRotary[0]);
  const auto ring = attention_->formula().plan().decoding.ring;
  Seeded random(kSeed);
  const Sequence all = random_sequence(random, 1, 84);
  KvCache cache = attention_->make_cache();
  EXPECT_EQ(cache.ring(), ring);
  run(part(all, 0, 60), &cache);
  const int64_t prompt_bytes = cache.bytes_held();
  for (int64_t token = 60; token < 84; ++token) run(part(all, token, 1), &cache);
  if (ring)
    EXPECT_LE(cache.bytes_allocated(), prompt_bytes / 60 * (4 * *ring + 16));
  else
    EXPECT_EQ(cache.bytes_held(), prompt_bytes / 60 * 84);
}

TEST_P(Decoding, GoesOnAfterFailedCalls) {
  build(GetParam(), kRotary[1]);
  Seeded random(kSeed);
  const Sequence all = random_sequence(random, 2, 12);
  const AttentionResult full = run(all);
  KvCache cache = attention_->make_cache();
  const auto fail = [&](const std::function<void(Sequence&)>& spoil, int64_t batch = 2) {
    Sequence wrong = random_sequence(random, batch, 12);
    wrong = part(wrong, cache.length(), std::min<int64_t>(2, 12 - cache.length()));
    spoil(wrong);
    const std::string error = test::error_of([&] { run(wrong, &cache); });
    EXPECT_TRUE(error.starts_with("attention: ") || error.starts_with("cache: ")) << error;
  };
  int64_t length = 0;
  while (length < 12) {
    const int64_t before = cache.length();
    fail([](Sequence& wrong) { wrong.key_mask = torch::ones({3, 3}, torch::kBool); }, 3);
    fail([](Sequence& wrong) { wrong.value = wrong.value.to(torch::kFloat); });
    if (attention_->formula().plan().needs_layer_input())
      fail(
          [](Sequence& wrong) {
            wrong.x = torch::zeros({3, wrong.x.size(1), kModel + 1}, torch::kDouble);
          },
          3);
    if (!what_->inputs.empty())
      fail(
          [&](Sequence& wrong) {
            wrong.inputs[what_->inputs.back().name] = torch::zeros({1, 2, 3, 4, 5});
          },
          3);
    if (length > 0) {
      fail([](Sequence&) {}, 3);  // another batch than the cache's
      fail([](Sequence& wrong) { wrong.value = wrong.value.narrow(3, 0, 1); });
    }
    EXPECT_EQ(cache.length(), before);
    const int64_t count = random.between(1, 3);
    decode(all, full, cache, length, std::min<int64_t>(length + count, 12), [] { return 1; });
    length = cache.length();
  }
}

INSTANTIATE_TEST_SUITE_P(Formulas, Decoding, ::testing::ValuesIn(kCases),
                         [](const auto& parameter) { return parameter.param.name; });

// Within one call tokens may stand in any order; their positions say who sees whom.
TEST(Decoding, GoesOnAfterAPromptInAnotherOrder) {
  Attention attention(Formula::parse("input pos[token]: int\nmask = causal\nscore = s - 0.3 * d"),
                      AttentionOptions{.heads = 1, .head_dim = 4, .rotary = RotaryOptions{}});
  Seeded random(kSeed);
  const Tensor query = random.normal({1, 1, 6, 4}), key = random.normal({1, 1, 6, 4}),
               value = random.normal({1, 1, 6, 4});
  const Tensor in_order = attention->forward(query, key, value, {.inputs = {{"pos", torch::arange(6)}}});
  const Tensor order = torch::tensor({2, 0, 3, 1, 4, 5});
  const auto reordered = [&](const Tensor& tensor, int64_t first, int64_t count) {
    return tensor.index_select(2, order.narrow(0, first, count));
  };
  KvCache cache = attention->make_cache();
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 4}, {4, 1}, {5, 1}}) {
    const Tensor step = attention->forward(reordered(query, first, count), reordered(key, first, count),
                                           reordered(value, first, count), cache,
                                           {.inputs = {{"pos", order.narrow(0, first, count)}}});
    EXPECT_TRUE(
        close(step, reordered(in_order, first, count), rounding(torch::kDouble, 16, 8 * largest(value))));
  }
}

// What rides in a ring is derived from the mask.
TEST(DecodingPlan, FindsTheRings) {
  const auto ring = [](const std::string& text) {
    return Attention(Formula::parse(text), AttentionOptions{})->make_cache().ring();
  };
  EXPECT_EQ(ring("mask = 0 <= d < 3"), std::optional<int64_t>(3));
  EXPECT_EQ(ring("mask = d == 0"), std::optional<int64_t>(1));
  EXPECT_EQ(ring("mask = causal"), std::nullopt);
  EXPECT_EQ(ring("input c[token]\nmask = 0 <= d < 5\nscore = s + c[max(j - 1, 0)]"), std::nullopt);
}

TEST(Decoding, RefusesACacheThatForgetsTooMuch) {
  Attention attention(Formula::parse("mask = 0 <= d < 5", {.name = "window"}),
                      AttentionOptions{.head_dim = 2});
  const Tensor token = torch::ones({1, 1, 1, 2});
  KvCache small(4), plain, large(6);
  EXPECT_EQ(test::error_of([&] { attention->forward(token, token, token, small); }),
            "attention: the cache keeps 4 keys; the formula 'window' looks at the last 5");
  EXPECT_EQ(test::error_of([&] { attention->forward(token, token, token, plain); }), "no error");
  EXPECT_EQ(test::error_of([&] { attention->forward(token, token, token, large); }), "no error");
  Attention causal(Formula::parse("mask = causal", {.name = "causal"}), AttentionOptions{.head_dim = 2});
  EXPECT_EQ(test::error_of([&] { causal->forward(token, token, token, large); }),
            "attention: the cache keeps 6 keys; the formula 'causal' looks at all");
}

TEST(Decoding, WorksInShortDtypes) {
  for (const auto dtype : {torch::kBFloat16, torch::kHalf, torch::kFloat}) {
    Attention attention(
        Formula::parse("token F = cumsum(logsigmoid(project(x)))\nmask = causal\nscore = s + F[i] - F[j]"),
        AttentionOptions{.heads = 2, .head_dim = 4, .model_dim = 3, .rotary = RotaryOptions{}});
    Seeded random(kSeed);
    const Tensor query = random.normal({1, 2, 9, 4}, dtype), key = random.normal({1, 2, 9, 4}, dtype),
                 value = random.normal({1, 2, 9, 4}, dtype), x = random.normal({1, 9, 3}, dtype);
    torch::NoGradGuard no_gradient;
    const Tensor full = attention->forward(query, key, value, {.x = x});
    KvCache cache = attention->make_cache();
    for (int64_t token = 0; token < 9; ++token) {
      const Tensor step = attention->forward(query.narrow(2, token, 1), key.narrow(2, token, 1),
                                             value.narrow(2, token, 1), cache, {.x = x.narrow(1, token, 1)});
      EXPECT_EQ(step.scalar_type(), dtype);
      // The result is rounded once; what comes before is float, with sums in another order.
      EXPECT_TRUE(close(step, full.narrow(2, token, 1),
                        rounding(dtype, 1, largest(full)) + rounding(torch::kFloat, 64, 4 * largest(value))));
    }
  }
}

}  // namespace
}  // namespace saccade::decoding_test
