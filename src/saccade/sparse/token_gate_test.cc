// The gate against plain loops: which keys its lists name, and that a cache which has dropped tokens for good
// gives what a mask would give.
#include "saccade/sparse/token_gate.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "saccade/base/file.h"
#include "saccade/base/testing.h"
#include "saccade/sparse/testing.h"

namespace saccade {
namespace {

using at::Tensor;
using testing::HasSubstr;

// What the network says of one token and head, written out.
double estimate_of(TokenGate& gate, const Tensor& key, const Tensor& value, int64_t head) {
  const Tensor both = torch::cat({key, value}), f = torch::cat({both, both * both});
  double result = gate.constant[head].item<double>() + f.dot(gate.direct[head]).item<double>();
  for (int64_t unit = 0; unit < gate.hidden(); ++unit) {
    const double x = f.dot(gate.input_map[head].select(1, unit)).item<double>() +
                     gate.input_bias[head][unit].item<double>();
    result += gate.output_map[head][unit].item<double>() * x / (1 + std::exp(-x));
  }
  return result;
}

// Two sequences, four heads over two key heads.
struct Scene {
  static constexpr int64_t kHeads = 4, kKeyHeads = 2, kWidth = 8;

  explicit Scene(int64_t tokens, double kept, SelectionOptions options, const char* formula = "causal")
      : n(tokens),
        attention(Formula::load(formula),
                  AttentionOptions{.heads = kHeads, .kv_heads = kKeyHeads, .head_dim = kWidth}) {
    torch::manual_seed(11);
    query = torch::randn({2, kHeads, n, kWidth}) * 2;
    key = torch::randn({2, kKeyHeads, n, kWidth});
    value = torch::randn({2, kKeyHeads, n, kWidth});
    real = torch::ones({2, n}, torch::kBool);
    selector = std::make_shared<TokenGateSelector>(options, true, random_gate(1));
    // Each head keeps this share of the far keys.
    const Tensor all = selector->gate().estimate(key, value).transpose(0, 1).flatten(1);
    selector->gate().thresholds = all.quantile(1 - kept, 1).exp();
    attention->set_selector(selector);
  }

  // Which keys each query keeps, [2, heads, n, n], if a step begins at each of `starts`; by default all is
  // read in one. Single steps must keep the same.
  Tensor kept(const std::vector<int64_t>& starts = {0}) const {
    const SelectionOptions& options = selector->options();
    TokenGate& gate = selector->gate();
    Tensor result = torch::zeros({2, kHeads, n, n}, torch::kBool);
    auto set = result.accessor<bool, 4>();
    const auto is_real = real.accessor<bool, 2>();
    for (int64_t batch = 0; batch < 2; ++batch)
      for (int64_t head = 0; head < kHeads; ++head) {
        std::vector<double> estimates;
        for (int64_t token = 0; token < n; ++token)
          estimates.push_back(
              estimate_of(gate, key[batch][head / 2][token], value[batch][head / 2][token], head));
        const double limit = std::log(gate.thresholds[head].item<double>());
        for (int64_t row = 0; row < n; ++row) {
          const auto next = std::ranges::upper_bound(starts, row);
          const int64_t start = *std::prev(next), count = (next == starts.end() ? n : *next) - start;
          const int64_t tile = std::min(options.query_tile, count);
          const int64_t first =
              (start + (row - start) / tile * tile) / options.query_tile * options.query_tile;
          int64_t before = 0;
          for (int64_t token = 0; token <= row; ++token) {
            if (!is_real[batch][token]) continue;
            const bool sink = before++ < options.sinks;
            set[batch][head][row][token] =
                sink || token >= first - options.near || estimates[static_cast<size_t>(token)] >= limit;
          }
        }
      }
    return result;
  }

  // Plain softmax over what is kept.
  Tensor expected(const Tensor& kept) const {
    const Tensor keys = key.repeat_interleave(2, 1), values = value.repeat_interleave(2, 1);
    Tensor scores = torch::matmul(query, keys.transpose(2, 3)) / std::sqrt(static_cast<double>(kWidth));
    if (attention->formula().name() == "softcap") scores = 50 * torch::tanh(scores / 50);
    scores.masked_fill_(kept.logical_not(), -INFINITY);
    return torch::matmul(scores.softmax(-1).nan_to_num(0), values);
  }

  // The next tokens through a cache; a mask only if there is padding among them.
  Tensor step(KvCache& cache, int64_t count) {
    const int64_t at = cache.length();
    const Tensor mask = real.narrow(1, at, count);
    return attention->forward(query.narrow(2, at, count), key.narrow(2, at, count),
                              value.narrow(2, at, count), cache,
                              {.key_mask = mask.all().item<bool>() ? Tensor() : mask});
  }

  int64_t n;
  Attention attention;
  Tensor query, key, value, real;
  std::shared_ptr<TokenGateSelector> selector;
};

// Rows of real tokens only: what padding gets is nobody's affair.
double difference_of_rows(const Scene& scene, const Tensor& a, const Tensor& b, int64_t first) {
  const Tensor real = scene.real.narrow(1, first, a.size(2)).view({2, 1, -1, 1});
  return ((a - b) * real).abs().max().item<double>();
}

TEST(TokenGate, ListsNameWhatAPlainLoopKeeps) {
  for (const int64_t tile : {1, 16})
    for (const double share : {0.0, 0.2, 1.0}) {
      Scene scene(70, share, {.query_tile = tile, .sinks = 2, .near = 8});
      if (share == 0) scene.selector->gate().thresholds.fill_(kernels::kKeepNone);
      if (share == 1) scene.selector->gate().thresholds.fill_(kernels::kKeepAll);
      scene.real[0].narrow(0, 0, 5).fill_(false);
      scene.real[1].narrow(0, 60, 10).fill_(false);
      PairInputs inputs{
          .queries = {scene.query}, .keys = {scene.key}, .value = scene.value, .key_mask = scene.real};
      const KeyLists lists = scene.selector->select(inputs, nullptr).value();
      EXPECT_EQ(lists.query_tile, tile);
      const Tensor kept = scene.kept();
      Tensor listed = torch::zeros_like(kept);
      auto set = listed.accessor<bool, 4>();
      const auto starts = lists.starts.accessor<int32_t, 3>();
      const auto entries = lists.keys.accessor<int32_t, 1>();
      for (int64_t batch = 0; batch < 2; ++batch)
        for (int64_t head = 0; head < 4; ++head)
          for (int64_t row = 0; row < 70; ++row) {
            const int32_t begin = starts[batch][head][row / tile], end = starts[batch][head][row / tile + 1];
            for (int32_t at = begin; at < end; ++at) {
              if (at > begin) {
                EXPECT_GT(entries[at], entries[at - 1]);
              }
              if (entries[at] <= row) set[batch][head][row][entries[at]] = true;
            }
          }
      EXPECT_TRUE(torch::equal(listed, kept)) << tile << " " << share;
    }
}

TEST(TokenGate, EvictingGivesWhatAMaskWouldGive) {
  torch::NoGradGuard no_gradient;
  for (const bool padded : {false, true})
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{1, 1}, {150, 1}, {40, 7}, {90, 33}})
      for (const char* formula : {"causal", "softcap"}) {
        Scene scene(400, 0.15, {.query_tile = 16, .sinks = 3, .near = 10}, formula);
        if (padded) {  // on the left, and in the middle where a shorter prompt ends
          scene.real[0].narrow(0, 0, 11).fill_(false);
          scene.real[1].narrow(0, first - first / 3, first / 3).fill_(false);
        }
        std::vector<int64_t> starts;
        for (int64_t at = 0; at < scene.n; at += at == 0 ? first : count) starts.push_back(at);
        const Tensor expected = scene.expected(scene.kept(starts));
        KvCache cache = scene.attention->make_cache();
        int64_t evictions = 0;
        while (cache.length() < scene.n) {
          const int64_t at = cache.length(), before = cache.first();
          const int64_t wanted = std::min(at == 0 ? first : count, scene.n - at);
          const Tensor output = scene.step(cache, wanted);
          ASSERT_LT(difference_of_rows(scene, output, expected.narrow(2, at, wanted), at), 2e-5)
              << formula << " " << at;
          evictions += cache.first() > before ? 1 : 0;
        }
        EXPECT_EQ(cache.length(), scene.n);
        EXPECT_GE(evictions, 2);
        // Two heads of a group keep about 0.28 of the old tokens between them, and 64 may wait to go.
        const int64_t bytes = 2 * (2 * 2 * 8 * 4 + 4 * 4 + (padded ? 1 : 0));  // of a slot
        EXPECT_LT(cache.length() - cache.first(), 220);
        EXPECT_EQ(cache.bytes_held(), (cache.length() - cache.first()) * bytes);
        EXPECT_LT(cache.bytes_allocated(), 300 * bytes);
      }
}

TEST(TokenGate, ALongPromptsBuffersShrink) {
  torch::NoGradGuard no_gradient;
  Scene scene(1000, 0.05, {.query_tile = 64, .near = 16});
  KvCache cache = scene.attention->make_cache();
  scene.step(cache, 990);
  const int64_t before = cache.bytes_allocated();
  scene.step(cache, 1);
  EXPECT_LT(cache.bytes_allocated(), before / 3);
  EXPECT_EQ(cache.length(), 991);
  EXPECT_LT(cache.bytes_held(), before / 4);
}

TEST(TokenGate, HeadsThatKeepAllEvictNothing) {
  torch::NoGradGuard no_gradient;
  Scene scene(300, 0.1, {.query_tile = 64, .near = 16});
  scene.selector->set(2, 0, kernels::kKeepAll);
  KvCache cache = scene.attention->make_cache();
  scene.step(cache, 290);
  scene.step(cache, 1);
  EXPECT_EQ(cache.first(), 0);
  // The same with too few keys to choose from.
  Scene few(300, 0.1, {.query_tile = 64, .near = 16, .min_keys = 296});
  KvCache other = few.attention->make_cache();
  few.step(other, 290);
  for (int64_t token = 290; token < 300; ++token) few.step(other, 1);
  EXPECT_GT(other.first(), 0);
  EXPECT_GE(other.shortest(), 296);
}

TEST(TokenGate, CopiesAndBeamsGoOn) {
  torch::NoGradGuard no_gradient;
  Scene scene(300, 0.15, {.query_tile = 16, .near = 10});
  const Tensor expected = scene.expected(scene.kept());
  KvCache cache = scene.attention->make_cache();
  scene.step(cache, 200);
  for (int64_t token = 200; token < 210; ++token) scene.step(cache, 1);
  ASSERT_GT(cache.first(), 0);
  KvCache copy = cache;
  EXPECT_EQ(copy.shortest(), cache.shortest());
  for (int64_t token = 210; token < 300; ++token)
    EXPECT_LT(difference(scene.step(cache, 1), expected.narrow(2, token, 1)), 2e-5);
  // The copy knows nothing of that; its sequences change places.
  copy.reorder(torch::tensor({1, 0}));
  for (Tensor* part : {&scene.query, &scene.key, &scene.value}) *part = part->flip(0);
  for (int64_t token = 210; token < 300; ++token)
    EXPECT_LT(difference(scene.step(copy, 1), expected.narrow(2, token, 1).flip(0)), 2e-5);
}

TEST(TokenGate, CroppingBringsNothingBack) {
  torch::NoGradGuard no_gradient;
  Scene scene(300, 0.15, {.query_tile = 16, .near = 10});
  const Tensor expected = scene.expected(scene.kept());
  KvCache cache = scene.attention->make_cache();
  scene.step(cache, 200);
  scene.step(cache, 20);  // evicts before position 182
  ASSERT_GT(cache.first(), 0);
  const int64_t shortest = cache.shortest();
  EXPECT_GT(shortest, 150);
  EXPECT_LE(shortest, 200);
  EXPECT_EQ(shortest % 16, 0);
  EXPECT_THAT(message_of([&] { cache.crop(shortest - 1); }),
              HasSubstr(fmt::format("cannot crop to {} tokens; with fewer than {}", shortest - 1, shortest)));
  EXPECT_EQ(cache.length(), 220);
  cache.crop(shortest);
  for (int64_t token = shortest; token < 300; ++token)
    EXPECT_LT(difference(scene.step(cache, 1), expected.narrow(2, token, 1)), 2e-5) << token;
  cache.crop(0);  // a new text
  EXPECT_EQ(cache.shortest(), 0);
  EXPECT_LT(difference(scene.step(cache, 1), expected.narrow(2, 0, 1)), 2e-5);
}

TEST(TokenGate, FormulasThatLookAtPositionsAreRefused) {
  for (const char* fine : {"causal", "softcap", "off_by_one", "sink_logit", "logn", "diff", "sigmoid"})
    EXPECT_EQ(eviction_obstacle(Formula::load(fine)), "") << fine;
  const std::pair<const char*, const char*> refused[] = {
      {"alibi", "reads d"},   {"window", "its mask"},      {"fox", "'F' by token"},
      {"prior", "reads d"},   {"full", "cannot decode"},   {"chunked", "its mask"},
      {"t5", "reads d"},      {"sink_window", "its mask"}, {"retention", "reads d"},
      {"last10", "its mask"}, {"document", "by token"}};
  for (const auto& [name, reason] : refused)
    EXPECT_THAT(eviction_obstacle(Formula::load(name)), HasSubstr(reason)) << name;

  Transformer model = tiny_transformer();
  model->set_attention(Formula::load("alibi"));
  Selectors selectors;
  for (int layer = 0; layer < 2; ++layer)
    selectors.push_back(std::make_shared<TokenGateSelector>(SelectionOptions{}, true, random_gate(1)));
  EXPECT_THAT(message_of([&] { attach(model, selectors); }), HasSubstr("formula 'alibi': it reads d"));
  EXPECT_TRUE(selectors_of(model).empty());
  // Where nobody has asked, the first eviction does.
  torch::NoGradGuard no_gradient;
  Scene scene(200, 0.1, {.near = 10}, "alibi");
  KvCache cache = scene.attention->make_cache();
  scene.step(cache, 190);
  EXPECT_THAT(message_of([&] { scene.step(cache, 1); }), HasSubstr("formula 'alibi'"));
  EXPECT_EQ(cache.length(), 190);
}

TEST(TokenGate, WrongSizesAreNamed) {
  EXPECT_THAT(message_of([] { TokenGateSelector({}, false, random_gate(1)); }), HasSubstr("looks ahead"));
  EXPECT_THAT(message_of([] { TokenGateSelector({.key_tile = 16}, true, random_gate(1)); }),
              HasSubstr("tiles of 16 keys"));
  TokenGate gate = random_gate(1);
  gate.output_map = torch::ones({4, 6});
  EXPECT_THAT(message_of([&] { TokenGateSelector({}, true, gate); }), HasSubstr("output_map has shape"));
  gate = random_gate(-1);
  EXPECT_THAT(message_of([&] { TokenGateSelector({}, true, gate); }), HasSubstr("below 0"));
  Scene scene(20, 0.5, {});
  scene.selector->gate().input_map = torch::ones({4, 30, 5});
  EXPECT_THAT(message_of([&] { scene.attention->forward(scene.query, scene.key, scene.value); }),
              HasSubstr("gates of 30 features, the model's tokens have 32"));
}

// Sets its thresholds by the first text that it sees.
class AFewOfThem : public TokenGateSelector {
 public:
  using TokenGateSelector::TokenGateSelector;

  std::optional<KeyLists> select(const PairInputs& inputs, KvCache* cache) override {
    if (!std::exchange(set_, true)) {
      const Tensor all = gate().estimate(inputs.keys[0], inputs.value).transpose(0, 1).flatten(1);
      gate().thresholds = all.quantile(0.8, 1).exp();
    }
    return TokenGateSelector::select(inputs, cache);
  }

 private:
  bool set_ = false;
};

// With rotary embedding, several layers, and the whole way through a model.
TEST(TokenGate, AModelDecodesAsItReads) {
  torch::NoGradGuard no_gradient;
  for (const int64_t tile : {1, 16}) {
    Transformer model = tiny_transformer();
    const Tensor ids = some_tokens(2, 250);
    const Tensor dense = model->forward({.ids = ids});
    Selectors selectors;
    for (int layer = 0; layer < 2; ++layer)
      selectors.push_back(std::make_shared<AFewOfThem>(SelectionOptions{.query_tile = tile, .near = 8}, true,
                                                       random_gate(1)));
    attach(model, selectors);
    model->forward({.ids = ids});  // sets the thresholds
    const ModelDensity density = measure_density(selectors, [&] { model->forward({.ids = ids}); });
    EXPECT_LT(density.all(), 0.6);
    const Tensor expected = model->forward({.ids = ids});
    EXPECT_GT(difference(expected, dense), 1e-2);
    ModelCache cache = model->make_cache();
    for (int64_t token = 0; token < 250; ++token) {
      const Tensor hidden = model->forward({.ids = ids.narrow(1, token, 1), .cache = &cache});
      EXPECT_LT(difference(hidden, expected.narrow(1, token, 1)), 2e-4) << token;
    }
    EXPECT_GT(cache.layer(0).first(), 0);
    EXPECT_GT(cache.layer(1).first(), 0);
  }
}

TEST(TokenGate, FilesBringBackTheSame) {
  const std::filesystem::path directory = std::filesystem::path(testing::TempDir()) / "token_gate_files";
  std::filesystem::remove_all(directory);
  torch::NoGradGuard no_gradient;
  Transformer model = tiny_transformer();
  Selectors selectors;
  for (int layer = 0; layer < 2; ++layer)
    selectors.push_back(std::make_shared<TokenGateSelector>(SelectionOptions{.query_tile = 16, .near = 8},
                                                            true, random_gate(3)));
  selectors[1]->set(2, 0, kernels::kKeepNone);
  attach(model, selectors);
  const Tensor ids = some_tokens(1, 80), before = model->forward({.ids = ids});
  save_sparse(directory, "somewhere", selectors, {});
  attach(model, load_sparse(directory).selectors);
  EXPECT_EQ(difference(model->forward({.ids = ids}), before), 0);
  const std::string good = read_file(directory / "sparse.json", 1 << 20);
  const auto broken = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    write_atomic(directory / "sparse.json", text);
    return message_of([&] { load_sparse(directory); });
  };
  EXPECT_THAT(broken("\"causal\": true", "\"causal\": false"), HasSubstr("looks ahead"));
  EXPECT_THAT(broken("\"layers\": 2", "\"layers\": 3"), HasSubstr("block_2"));
  EXPECT_THAT(broken("token_gate", "low_rank"), HasSubstr("'scorer' is missing"));
  selectors[0]->set(0, 0, -1);
  save_sparse(directory, "somewhere", selectors, {});
  EXPECT_THAT(message_of([&] { load_sparse(directory); }), HasSubstr("layer 0: thresholds below 0"));
}

}  // namespace
}  // namespace saccade
