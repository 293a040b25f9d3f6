#include "saccade/diagnose/capture.h"

#include <gmock/gmock.h>

#include "saccade/base/testing.h"
#include "saccade/diagnose/testing.h"

namespace saccade {
namespace {

using at::Tensor;
using ::testing::HasSubstr;

// The whole maps, [layers, heads, tokens, tokens], by the reference path.
Tensor all_weights(Transformer model, const Tensor& ids) {
  const torch::NoGradGuard no_gradient;
  std::vector<Tensor> maps;
  model->forward({.ids = ids.unsqueeze(0), .on_attention = [&](int64_t, const AttentionResult& result) {
                    maps.push_back(result.weights[0]);
                  }});
  return torch::stack(maps);
}

Tensor stacked(const Capture& capture) {
  std::vector<Tensor> maps;
  for (const CapturedHead& head : capture.heads) maps.push_back(head.weights);
  return torch::stack(maps);
}

TEST(Capture, GivesTheWeightsOfEveryHead) {
  for (const char* formula : {"causal", "prior", "gpam", "fox", "window"}) {
    SCOPED_TRACE(formula);
    Transformer model = random_model(small_architecture(), formula);
    const Tensor ids = some_ids(1, 70)[0], expected = all_weights(model, ids);
    const Capture capture = capture_attention(model, ids);
    ASSERT_EQ(capture.heads.size(), 8u);
    EXPECT_EQ(capture.heads[5].layer, 1);
    EXPECT_EQ(capture.heads[5].head, 1);
    EXPECT_FALSE(capture.heads[0].kept.defined());
    EXPECT_EQ(capture.has_negative, expected.min().item<float>() < 0);
    EXPECT_LT((stacked(capture) - expected.flatten(0, 1)).abs().max().item<float>(), 1e-5);
  }
}

TEST(Capture, GivesTheChosenRowsAndHeads) {
  Transformer model = random_model(small_architecture(), "prior");
  const Tensor ids = some_ids(1, 90)[0];
  const Capture capture =
      capture_attention(model, ids, {.layers = {1}, .heads = {3, 0}, .first_row = 37, .rows = 41});
  ASSERT_EQ(capture.heads.size(), 2u);
  EXPECT_EQ(capture.heads[0].head, 3);
  const Tensor expected = all_weights(model, ids)[1].narrow(1, 37, 41);
  EXPECT_LT((capture.heads[0].weights - expected[3]).abs().max().item<float>(), 1e-5);
  EXPECT_LT((capture.heads[1].weights - expected[0]).abs().max().item<float>(), 1e-5);
}

TEST(Capture, ACellShowsItsLargestWeight) {
  Transformer model = random_model(small_architecture(), "gpam");
  const Tensor ids = some_ids(1, 75)[0];
  const Capture fine = capture_attention(model, ids, {.layers = {0}, .heads = {2}});
  const Capture coarse = capture_attention(model, ids, {.layers = {0}, .heads = {2}, .cell = 8});
  const Tensor whole = fine.heads[0].weights, cells = coarse.heads[0].weights;
  ASSERT_EQ(cells.sizes(), (std::vector<int64_t>{10, 10}));
  for (int64_t row = 0; row < 10; ++row)
    for (int64_t column = 0; column < 10; ++column) {
      const Tensor inside = whole.slice(0, row * 8, row * 8 + 8).slice(1, column * 8, column * 8 + 8);
      EXPECT_FLOAT_EQ(std::abs(cells[row][column].item<float>()), inside.abs().max().item<float>());
      EXPECT_TRUE((inside == cells[row][column]).any().item<bool>() || inside.abs().max().item<float>() == 0);
    }
}

// Every tile of 16 queries looks at itself and at the first four keys.
class Blocks : public Selector {
 public:
  std::optional<KeyLists> select(const PairInputs& inputs, KvCache*) override {
    std::vector<int32_t> starts{0}, keys;
    const auto count = static_cast<int32_t>(inputs.value.size(2));
    for (int32_t first = 0; first < count; first += 16) {
      for (int32_t key = 0; key < std::min(4, first); ++key) keys.push_back(key);
      for (int32_t key = first; key < std::min(first + 16, count); ++key) keys.push_back(key);
      starts.push_back(static_cast<int32_t>(keys.size()));
    }
    return KeyLists{16, 1, torch::tensor(starts, torch::kInt).view({1, 1, -1}),
                    torch::tensor(keys, torch::kInt)};
  }
};

TEST(Capture, ShowsWhatASelectorKept) {
  Transformer model = random_model(small_architecture());
  const auto blocks = std::make_shared<Blocks>();
  model->block(1)->attention->set_selector(blocks);
  const Tensor ids = some_ids(1, 75)[0];
  // Rows that begin and end inside tiles.
  const Capture capture =
      capture_attention(model, ids, {.layers = {0, 1}, .heads = {1}, .first_row = 21, .rows = 40});
  EXPECT_EQ(model->block(1)->attention->selector(), blocks);
  EXPECT_EQ(model->block(0)->attention->selector(), nullptr);
  EXPECT_FALSE(capture.heads[0].kept.defined());
  const Tensor kept = capture.heads[1].kept, weights = capture.heads[1].weights;
  for (int64_t row = 0; row < 40; ++row)
    for (int64_t key = 0; key < 75; ++key) {
      const int64_t query = row + 21;
      const bool expected = key <= query && (key < 4 || key >= query / 16 * 16);
      ASSERT_EQ(kept[row][key].item<float>(), expected ? 1 : 0) << query << " looks at " << key;
      if (!expected) {
        ASSERT_EQ(weights[row][key].item<float>(), 0);
      }
    }
  EXPECT_LT((weights.sum(1) - 1).abs().max().item<float>(), 1e-5);
}

TEST(Capture, RefusesWhatIsNotThereOrTooMuch) {
  Transformer model = random_model(small_architecture());
  const Tensor ids = some_ids(1, 64)[0];
  const auto message = [&](const CaptureOptions& options) {
    return message_of([&] { capture_attention(model, ids, options); });
  };
  EXPECT_THAT(message({.layers = {2}}), HasSubstr("layer 2; the model has 2 layers"));
  EXPECT_THAT(message({.heads = {-1}}), HasSubstr("head -1"));
  EXPECT_THAT(message({.first_row = 64}), HasSubstr("the first row is 64"));
  EXPECT_THAT(message({.first_row = 60, .rows = 5}), HasSubstr("5 rows from row 60 on"));
  EXPECT_THAT(message({.cell = 0}), HasSubstr("cells of 0"));
  EXPECT_THAT(message({.most_bytes = 1000}), HasSubstr("128 KiB of weights, with at most 1000 B allowed"));
  EXPECT_EQ(bytes_of_capture(model->architecture(), 64, {}), 2 * 4 * 64 * 64 * 4);
  EXPECT_THAT(message_of([&] { capture_attention(model, ids.slice(0, 0, 0)); }), HasSubstr("no tokens"));
}

}  // namespace
}  // namespace saccade
