// Selectors in a model: against dense attention, against the reference with the same lists, with padding,
// with a cache, and through their files.
#include <gmock/gmock.h>
#include <torch/autograd.h>

#include <filesystem>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/sparse/lists.h"
#include "saccade/sparse/span.h"
#include "saccade/sparse/testing.h"

namespace saccade {
namespace {

using at::Tensor;
using testing::HasSubstr;

Tensor run(Transformer model, const Tensor& ids, Path path = Path::automatic) {
  torch::NoGradGuard no_gradient;
  model->set_path(path);
  return model->forward({.ids = ids});
}

TEST(Sparse, KeepingAllIsDense) {
  for (const bool causal : {true, false}) {
    Transformer model = tiny_transformer(causal);
    if (!causal) model->set_attention(Formula::load("full"));
    const Tensor ids = some_tokens(2, 70), dense = run(model, ids);
    attach(model, random_selectors(kernels::kKeepAll, causal));
    EXPECT_LT(difference(run(model, ids), dense), 2e-5);
    detach(model);
    EXPECT_EQ(difference(run(model, ids), dense), 0);
  }
}

TEST(Sparse, KernelsAndReferenceLookAtTheSameKeys) {
  for (const bool causal : {true, false})
    for (const int64_t key_tile : {1, 16})
      for (const int64_t query_tile : {1, 16, 32, 64})
        for (const float threshold : {0.02F, 0.1F, kernels::kKeepNone}) {
          Transformer model = tiny_transformer(causal);
          if (!causal) model->set_attention(Formula::load("full"));
          const Tensor ids = some_tokens(2, 100), dense = run(model, ids);
          const Selectors selectors = random_selectors(
              threshold, causal, {.query_tile = query_tile, .key_tile = key_tile, .near = 8});
          attach(model, selectors);
          const ModelDensity density = measure_density(selectors, [&] { run(model, ids); });
          const Tensor sparse = run(model, ids);
          EXPECT_LT(difference(sparse, run(model, ids, Path::reference)), 2e-5)
              << query_tile << " x " << key_tile;
          EXPECT_GT(difference(sparse, dense), 1e-3);
          EXPECT_GT(density.all(), 0.05);
          EXPECT_LT(density.all(), 1);
        }
}

TEST(Sparse, DecodingTakesTheSameKeysAsSingleQueries) {
  Transformer model = tiny_transformer();
  const Tensor ids = some_tokens(2, 60);
  // Tiles of one query, with the scorer of single queries: what decoding does, for all tokens at once.
  const Selectors decoding = random_selectors(0.03F);
  Selectors at_once;
  for (const auto& selector : decoding) {
    SelectionOptions options = selector->options();
    options.query_tile = 1;
    at_once.push_back(std::make_shared<LowRankSelector>(options, true,
                                                        *dynamic_cast<LowRankSelector&>(*selector).single()));
  }
  attach(model, at_once);
  const Tensor expected = run(model, ids);
  attach(model, decoding);
  ModelCache cache = model->make_cache();
  torch::NoGradGuard no_gradient;
  for (int64_t token = 0; token < 60; ++token) {
    const Tensor hidden = model->forward({.ids = ids.narrow(1, token, 1), .cache = &cache});
    EXPECT_LT(difference(hidden, expected.narrow(1, token, 1)), 5e-5) << token;
  }
}

// A few vectors are multiplied as they come, many by a product that lays them out.
TEST(Sparse, NumbersOfFewAreThoseOfMany) {
  torch::manual_seed(11);
  const LowRankScorer scorer = random_scorer(1, 0.1F);
  const at::Tensor keys = torch::randn({2, 2, 40, 8}), queries = torch::randn({2, 4, 40, 8});
  const auto expect_part = [](const at::Tensor& many, const at::Tensor& few, int64_t first) {
    EXPECT_LT(difference(many.narrow(2, first, few.size(2)), few), 1e-5);
  };
  for (const int64_t count : {1, 3}) {
    expect_part(scorer.key_numbers(keys), scorer.key_numbers(keys.narrow(2, 5, count)), 5);
    expect_part(scorer.group_numbers(queries), scorer.group_numbers(queries.narrow(2, 5, count)), 5);
  }
}

TEST(Sparse, CachesCanBeCroppedAndReordered) {
  Transformer model = tiny_transformer();
  attach(model, random_selectors(0.03F));
  const Tensor ids = some_tokens(2, 40);
  torch::NoGradGuard no_gradient;
  ModelCache cache = model->make_cache();
  model->forward({.ids = ids, .cache = &cache});
  const Tensor next = model->forward({.ids = ids.narrow(1, 0, 1), .cache = &cache});
  cache.crop(40);
  EXPECT_LT(difference(model->forward({.ids = ids.narrow(1, 0, 1), .cache = &cache}), next), 1e-6);
  cache.crop(40);
  cache.reorder(torch::tensor({1, 0}));
  const Tensor swapped = model->forward({.ids = ids.narrow(1, 0, 1).flip(0), .cache = &cache});
  EXPECT_LT(difference(swapped.flip(0), next), 1e-5);
}

TEST(Sparse, PaddingChangesNothing) {
  Transformer model = tiny_transformer();
  attach(model, random_selectors(0.05F));
  const Tensor ids = some_tokens(1, 64);
  const Tensor alone = run(model, ids);
  // Padding behind the text: positions and tiles stay.
  Tensor padded = torch::cat({ids, torch::zeros({1, 16}, torch::kLong)}, 1);
  Tensor mask = torch::ones({1, 80}, torch::kBool);
  mask.narrow(1, 64, 16).fill_(false);
  torch::NoGradGuard no_gradient;
  const Tensor together = model->forward({.ids = padded, .key_mask = mask});
  EXPECT_LT(difference(together.narrow(1, 0, 64), alone), 1e-5);
  const Tensor nothing = model->forward({.ids = padded, .key_mask = torch::zeros({1, 80}, torch::kBool)});
  EXPECT_TRUE(nothing.isfinite().all().item<bool>());
}

TEST(Sparse, ShortAndRepeatedTexts) {
  Transformer model = tiny_transformer();
  const Selectors selectors = random_selectors(0.05F);
  for (const int64_t tokens : {1, 2, 3, 15, 16, 17, 33}) {
    detach(model);
    const Tensor ids = some_tokens(1, tokens), dense = run(model, ids);
    attach(model, selectors);
    const Tensor sparse = run(model, ids);
    EXPECT_TRUE(sparse.isfinite().all().item<bool>());
    if (tokens <= 9) {  // all of them are near
      EXPECT_LT(difference(sparse, dense), 1e-5);
    }
  }
  EXPECT_TRUE(run(model, torch::full({1, 90}, 5, torch::kLong)).isfinite().all().item<bool>());
}

TEST(Sparse, GradientsFlowThroughChosenKeys) {
  Transformer model = tiny_transformer();
  attach(model, random_selectors(0.05F));
  const Tensor ids = some_tokens(1, 50);
  const auto gradient = [&](Path path) {
    model->set_path(path);
    Tensor x = model->embed({.ids = ids}).detach().requires_grad_(true);
    Tensor y = x;
    for (int64_t layer = 0; layer < 2; ++layer)
      y = model->block(layer).ptr()->forward(y, {.ids = ids}, nullptr);
    return torch::autograd::grad({y.square().sum()}, {x})[0];
  };
  const Tensor fused = gradient(Path::automatic), reference = gradient(Path::reference);
  EXPECT_LT(difference(fused, reference), 1e-3 * reference.abs().max().item<double>());
}

TEST(Sparse, FewKeysAreAllLookedAt) {
  Transformer model = tiny_transformer();
  const Tensor ids = some_tokens(1, 50), dense = run(model, ids);
  const Selectors selectors =
      random_selectors(kernels::kKeepNone, true, {.query_tile = 16, .near = 8, .min_keys = 51});
  attach(model, selectors);
  EXPECT_EQ(difference(run(model, ids), dense), 0);
  EXPECT_EQ(measure_density(selectors, [&] { run(model, ids); }).all(), 1);
}

TEST(Sparse, OneNewQueryHasItsOwnLimit) {
  Transformer model = tiny_transformer();
  const Tensor ids = some_tokens(1, 50), dense = run(model, ids).narrow(1, 49, 1);
  for (const int64_t limit : {50, 51}) {
    attach(model, random_selectors(kernels::kKeepNone, true,
                                   {.query_tile = 16, .near = 8, .min_keys = 50, .min_cached = limit}));
    torch::NoGradGuard no_gradient;
    ModelCache cache = model->make_cache();
    model->forward({.ids = ids.narrow(1, 0, 49), .cache = &cache});
    const Tensor last = model->forward({.ids = ids.narrow(1, 49, 1), .cache = &cache});
    EXPECT_EQ(difference(last, dense) < 1e-5, limit == 51) << limit;
  }
}

TEST(Sparse, SpansCountTheirPairs) {
  Transformer model = tiny_transformer();
  Selectors selectors;
  const Tensor spans = torch::tensor({0, 8, 24, 1}, torch::kLong);
  for (int layer = 0; layer < 2; ++layer)
    selectors.push_back(
        std::make_shared<SpanSelector>(SelectionOptions{.query_tile = 1, .sinks = 2}, true, spans));
  attach(model, selectors);
  const ModelDensity density = measure_density(selectors, [&] { run(model, some_tokens(1, 40)); });
  for (int64_t head = 0; head < 4; ++head) {
    double kept = 0;
    for (int64_t row = 0; row < 40; ++row)
      for (int64_t key = 0; key <= row; ++key)
        kept += key < 2 || row - key <= spans[head].item<int64_t>() ? 1 : 0;
    EXPECT_DOUBLE_EQ(density.by_head[0][head].item<double>(), kept / (40 * 41 / 2));
  }
  const Tensor ids = some_tokens(1, 40);
  EXPECT_LT(difference(run(model, ids), run(model, ids, Path::reference)), 1e-5);
}

TEST(Sparse, FilesBringBackTheSame) {
  const std::filesystem::path directory = std::filesystem::path(testing::TempDir()) / "sparse_files";
  std::filesystem::remove_all(directory);
  Transformer model = tiny_transformer();
  Selectors selectors = random_selectors(0.05F);
  for (const auto& selector : selectors) dynamic_cast<LowRankSelector&>(*selector).set_ranges({0, 32});
  selectors[1]->set(2, 1, kernels::kKeepNone);
  attach(model, selectors);
  const Tensor ids = some_tokens(1, 80), before = run(model, ids);
  save_sparse(directory, "somewhere", selectors, {{"why", "a test"}});
  ASSERT_TRUE(is_sparse_directory(directory));
  const SparseFiles files = load_sparse(directory);
  EXPECT_EQ(files.base, "somewhere");
  EXPECT_EQ(files.notes["why"], "a test");
  detach(model);
  attach(model, files.selectors);
  EXPECT_EQ(difference(run(model, ids), before), 0);
  EXPECT_EQ(selectors_of(model).size(), 2U);

  const auto error = [&](const std::string& text) {
    write_atomic(directory / "sparse.json", text);
    try {
      load_sparse(directory);
    } catch (const Error& caught) {
      return std::string(caught.what());
    }
    return std::string("none");
  };
  const std::string good = read_file(directory / "sparse.json", 1 << 20);
  EXPECT_THAT(error("{}"), HasSubstr("no 'saccade sparse attention 1'"));
  EXPECT_THAT(error("["), HasSubstr("sparse.json"));
  std::string broken = good;
  broken.replace(broken.find("\"layers\": 2"), 11, "\"layers\": 3");
  EXPECT_THAT(error(broken), HasSubstr("block_2"));
  broken = good;
  broken.replace(broken.find("\"near\": 8"), 9, "\"near\": -1");
  EXPECT_THAT(error(broken), HasSubstr("-1 near tokens"));
  broken = good;
  broken.replace(broken.find("low_rank"), 8, "lowrank2");
  EXPECT_THAT(error(broken), HasSubstr("'lowrank2'"));
}

TEST(Sparse, WrongSizesAreNamed) {
  Transformer model = tiny_transformer();
  Selectors selectors = random_selectors(0.05F);
  selectors.pop_back();
  EXPECT_THROW(attach(model, selectors), Error);
  EXPECT_THROW(SpanSelector({.query_tile = 0}, true, torch::ones({4})), Error);
  EXPECT_THROW(LowRankSelector({.query_tile = 8}, true, random_scorer(16, 1)), Error);
  LowRankScorer scorer = random_scorer(16, 1);
  scorer.key_bias = torch::ones({4, 7});
  EXPECT_THROW(LowRankSelector({}, true, scorer), Error);
}

TEST(Lists, FromAMap) {
  Tensor keep = torch::zeros({2, 2, 2, 5}, torch::kBool);
  keep[0][0][1][3] = true;
  keep[1][0][0][0] = true;
  keep[1][1][1][2] = true;
  keep[1][1][1][4] = true;
  const KeyLists lists = lists_of(keep, 4);
  EXPECT_TRUE(torch::equal(lists.keys, torch::tensor({3, 0, 2, 4}, torch::kInt)));
  EXPECT_TRUE(torch::equal(lists.starts,
                           torch::tensor({{{0, 0, 1}, {1, 1, 1}}, {{1, 2, 2}, {2, 2, 4}}}, torch::kInt)));
}

}  // namespace
}  // namespace saccade
