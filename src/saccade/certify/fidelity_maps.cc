// The maps of all layers would not fit into memory. So a first pass keeps only what enters each block, and
// then every block runs once more in both models, which gives two maps at a time.
#include "saccade/certify/fidelity_maps.h"

#include <torch/types.h>

#include <algorithm>

#include "saccade/attention/allowed_pairs.h"
#include "saccade/base/error.h"

namespace saccade {

using at::Tensor;

namespace {

struct Sums {
  Tensor differences, squares;  // by head, in double
  double pairs = 0;             // in each head
};

// How many pairs of a head the mask lets through, on average over the heads. A mask that depends on what
// queries and keys contain is taken for those without content.
double count_pairs(const Block& block, int64_t width, int64_t tokens) {
  Attention attention = block->attention;
  const AttentionOptions& options = attention->options();
  const Tensor query = torch::zeros({1, options.heads, tokens, options.head_dim});
  const Tensor key =
      torch::zeros({1, options.kv_heads > 0 ? options.kv_heads : options.heads, tokens, options.head_dim});
  const auto dtype = block->output->weight.scalar_type();
  const PairInputs inputs = attention->prepare(query.to(dtype), key.to(dtype), key.to(dtype),
                                               {.x = torch::zeros({1, tokens, width}, dtype)}, nullptr);
  const Tensor mask = allowed_pairs(attention->formula().plan(), inputs);
  return static_cast<double>(mask.sum().item<int64_t>()) / static_cast<double>(options.heads);
}

Tensor map_of(Transformer& model, int64_t layer, const Tensor& entering, const Tensor& ids) {
  Tensor map;
  model->block(layer)->forward(
      entering,
      {.ids = ids, .on_attention = [&](int64_t, const AttentionResult& result) { map = result.weights; }},
      nullptr);
  return map.select(0, 0).to(torch::kDouble);
}

std::vector<Tensor> block_inputs(Transformer& model, const Tensor& ids) {
  std::vector<Tensor> hidden;
  model->forward({.ids = ids, .hidden_states = &hidden});
  return hidden;
}

}  // namespace

double MapFidelity::mse() const {
  double sum = 0;
  for (const LayerMaps& layer : layers) sum += layer.mse;
  return sum / static_cast<double>(layers.size());
}

double MapFidelity::relative() const {
  double sum = 0;
  for (const LayerMaps& layer : layers) sum += layer.relative;
  return sum / static_cast<double>(layers.size());
}

MapFidelity compare_maps(Transformer baseline, Transformer candidate,
                         std::span<const std::vector<int32_t>> windows, const OnProgress& on_progress) {
  const Architecture& a = baseline->architecture();
  const Architecture& b = candidate->architecture();
  require(a.layers == b.layers && a.heads == b.heads,
          "certify: {} layers of {} heads beside {} of {}; expected as many", a.layers, a.heads, b.layers,
          b.heads);
  const at::NoGradGuard no_gradients;
  std::vector<Sums> sums(static_cast<size_t>(a.layers));
  for (Sums& each : sums)
    each.differences = torch::zeros({a.heads}, torch::kDouble), each.squares = each.differences.clone();
  MapFidelity result;
  for (const std::vector<int32_t>& window : windows) {
    const Tensor ids = torch::tensor(std::vector<int64_t>(window.begin(), window.end())).unsqueeze(0);
    const std::vector<Tensor> ours = block_inputs(baseline, ids), theirs = block_inputs(candidate, ids);
    for (int64_t layer = 0; layer < a.layers; ++layer) {
      const auto index = static_cast<size_t>(layer);
      const Tensor before = map_of(baseline, layer, ours[index], ids);
      Tensor after = map_of(candidate, layer, theirs[index], ids);
      Sums& sum = sums[index];
      sum.differences += after.sub_(before).square_().sum({1, 2});
      sum.squares += before.square().sum({1, 2});
      sum.pairs += count_pairs(baseline->block(layer), a.width, ids.size(1));
      if (on_progress)
        on_progress(result.windows * a.layers + layer + 1, static_cast<int64_t>(windows.size()) * a.layers);
    }
    ++result.windows;
    result.longest = std::max(result.longest, ids.size(1));
  }
  for (const Sums& sum : sums) {
    LayerMaps layer;
    const Tensor heads = sum.differences / sum.pairs;
    layer.heads.assign(heads.data_ptr<double>(), heads.data_ptr<double>() + heads.numel());
    layer.mse = heads.mean().item<double>();
    layer.relative = (sum.differences.sum() / sum.squares.sum()).item<double>();
    result.layers.push_back(std::move(layer));
  }
  return result;
}

}  // namespace saccade
