// Each text goes through the model once with gradients; then every layer's attention is run at every setting,
// by the same kernels that will run it later.
#include "saccade/distill/sensitivity.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/autograd.h>

#include "saccade/attention/fused.h"
#include "saccade/base/error.h"
#include "saccade/base/random.h"

namespace saccade {

using at::Tensor;

namespace {

constexpr int64_t kSensedRows = 256;

// The gradient, with respect to hidden states [tokens, width], of the sum over tokens of the logarithm of a
// drawn label's probability; of a model without a head for tokens, of the direction along a random vector.
Tensor drawn_gradient(Transformer model, const Tensor& hidden, at::Generator& random) {
  const bool tokens = predicts_tokens(model->architecture());
  std::vector<Tensor> parts;
  for (int64_t begin = 0; begin < hidden.size(0); begin += kSensedRows) {
    Tensor rows = hidden.narrow(0, begin, std::min(kSensedRows, hidden.size(0) - begin)).detach().clone();
    rows.requires_grad_(true);
    Tensor score;
    if (tokens) {
      const Tensor logs = model->logits(rows).log_softmax(-1);
      score = logs.gather(1, at::multinomial(logs.detach().exp(), 1, false, random)).sum();
    } else {
      const Tensor direction = at::randn(rows.sizes(), random, rows.options().requires_grad(false));
      score = (rows / rows.norm(2, -1, true) * direction).sum();
    }
    parts.push_back(torch::autograd::grad({score}, {rows})[0]);
  }
  return torch::cat(parts);
}

struct Rows {
  int64_t begin, end;
};

// The rows of a text in each range of positions.
std::vector<Rows> rows_by_range(const std::vector<int64_t>& ranges, int64_t tokens) {
  std::vector<Rows> result;
  for (size_t range = 0; range < ranges.size(); ++range)
    result.push_back({std::min(ranges[range], tokens),
                      range + 1 < ranges.size() ? std::min(ranges[range + 1], tokens) : tokens});
  return result;
}

void add_text(Transformer model, const Selectors& selectors, const TokenIds& text,
              const SensitivityOptions& options, at::Generator& random, Sensitivity& sums,
              const std::function<void()>& layer_done) {
  const int64_t layers = model->architecture().layers, tokens = std::ssize(text);
  std::vector<std::shared_ptr<Watcher>> watchers;
  for (int64_t layer = 0; layer < layers; ++layer) {
    watchers.push_back(std::make_shared<Watcher>());
    model->block(layer)->attention->set_selector(watchers.back());
  }
  // Gradients flow from the embeddings on; no weight has one.
  const ModelCall call{.ids = torch::tensor(text, torch::kInt).to(torch::kLong).unsqueeze(0)};
  torch::AutoGradMode with_gradient(true);
  Tensor x = model->embed(call).detach().requires_grad_(true);
  for (int64_t layer = 0; layer < layers; ++layer) x = model->block(layer).ptr()->forward(x, call, nullptr);
  const Tensor hidden = model->finish(x);
  std::vector<Tensor> outputs;
  for (const auto& watcher : watchers) outputs.push_back(watcher->output());
  std::vector<std::vector<Tensor>> gradients;
  for (int64_t draw = 0; draw < options.draws; ++draw) {
    const Tensor start = drawn_gradient(model, hidden[0], random).unsqueeze(0);
    gradients.push_back(torch::autograd::grad({hidden}, outputs, {start}, draw + 1 < options.draws));
  }
  torch::NoGradGuard no_gradient;
  const std::vector<int64_t>& ranges = selectors[0]->ranges();
  const std::vector<Rows> rows = rows_by_range(ranges, tokens);
  for (size_t range = 0; range < ranges.size(); ++range)
    sums.texts_by_range[range] += rows[range].begin < rows[range].end ? 1 : 0;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const auto place = static_cast<size_t>(layer);
    SparseSelector& selector = *selectors[place];
    const Tensor dense = outputs[place].detach();
    PairInputs inputs = watchers[place]->inputs();
    for (Tensor& query : inputs.queries)
      if (query.defined()) query = query.detach();
    for (Tensor& key : inputs.keys)
      if (key.defined()) key = key.detach();
    inputs.value = inputs.value.detach();
    for (size_t setting = 0; setting < sums.settings.size(); ++setting) {
      for (int64_t head = 0; head < dense.size(1); ++head)
        for (size_t range = 0; range < ranges.size(); ++range)
          selector.set(head, static_cast<int64_t>(range), sums.settings[setting]);
      inputs.lists = selector.select(inputs, nullptr);
      require(inputs.lists.has_value(),
              "distill: texts of {} tokens, but the selector chooses only from {} on", tokens,
              selector.options().min_keys);
      const Tensor kept = kept_by_tile(*inputs.lists, inputs, selector.causal());  // [heads, tiles]
      const Tensor change = fused_attention(model->formula(layer), inputs).output - dense;
      Tensor squares = torch::zeros({dense.size(1), tokens}, torch::kDouble);
      for (const std::vector<Tensor>& draw : gradients)
        squares += (change * draw[place]).sum(-1)[0].to(torch::kDouble).square();
      for (size_t range = 0; range < ranges.size(); ++range) {
        const auto [begin, end] = rows[range];
        if (begin == end) continue;
        const int64_t tile = inputs.lists->query_tile;
        const auto at = [&](Tensor& table) {
          return table[static_cast<int64_t>(setting)][static_cast<int64_t>(range)][layer];
        };
        at(sums.cost) += squares.narrow(1, begin, end - begin).sum(1) *
                         (0.5 / static_cast<double>(options.draws * (end - begin)));
        at(sums.density) += kept.slice(1, begin / tile, (end + tile - 1) / tile).sum(1) /
                            visible_pairs(inputs, selector.causal(), begin, end);
      }
    }
    watchers[place]->forget();
    outputs[place] = Tensor();
    layer_done();
  }
}

}  // namespace

Sensitivity measure_sensitivity(Transformer model, const Selectors& selectors,
                                std::span<const TokenIds> texts, const SensitivityOptions& options) {
  const int64_t layers = model->architecture().layers, heads = model->architecture().heads;
  const auto ranges = std::ssize(selectors.at(0)->ranges());
  Sensitivity result{.settings = selectors[0]->settings()};
  result.cost = torch::zeros({std::ssize(result.settings), ranges, layers, heads}, torch::kDouble);
  result.density = torch::zeros_like(result.cost);
  result.texts_by_range.assign(static_cast<size_t>(ranges), 0);
  at::Generator random = at::detail::createCPUGenerator(RandomStream(options.seed, "sensitivity").next());
  std::vector<std::shared_ptr<Selector>> own;
  for (int64_t layer = 0; layer < layers; ++layer) own.push_back(model->block(layer)->attention->selector());
  int64_t done = 0;
  for (const TokenIds& text : texts)
    add_text(model, selectors, text, options, random, result, [&] {
      if (options.on_progress) options.on_progress(++done, layers * std::ssize(texts));
    });
  for (int64_t layer = 0; layer < layers; ++layer)
    model->block(layer)->attention->set_selector(own[static_cast<size_t>(layer)]);
  for (int64_t range = 0; range < ranges; ++range) {
    const double count = std::max(1.0, result.texts_by_range[static_cast<size_t>(range)]);
    result.cost.select(1, range) /= count;
    result.density.select(1, range) /= count;
  }
  return result;
}

}  // namespace saccade
