// A selector that watches stands in for each captured layer's own: it sees the call as it really was, with
// the rotated queries and the keys that were chosen, and computes the weights of a few rows at a time from
// that.
#include "saccade/diagnose/capture.h"

#include <torch/types.h>

#include <algorithm>
#include <numeric>

#include "saccade/attention/allowed_pairs.h"
#include "saccade/attention/rows.h"
#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/base/units.h"

namespace saccade {

using at::Tensor;

namespace {

constexpr int64_t kRowsAtOnce = 32;

int64_t cells_of(int64_t length, int64_t cell) { return (length + cell - 1) / cell; }

// The value of the largest size in each cell, [heads, rows, keys] to cells. Cells begin at the first row.
Tensor shrink(const Tensor& weights, int64_t cell) {
  if (cell == 1) return weights;
  const int64_t rows = cells_of(weights.size(1), cell), columns = cells_of(weights.size(2), cell);
  const Tensor padded = torch::constant_pad_nd(
      weights, {0, columns * cell - weights.size(2), 0, rows * cell - weights.size(1)}, 0);
  const Tensor cells =
      padded.view({-1, rows, cell, columns, cell}).permute({0, 1, 3, 2, 4}).flatten(3).contiguous();
  return cells.gather(-1, cells.abs().argmax(-1, true)).squeeze(-1);
}

// The mean over each cell, of what lies inside the map.
Tensor shrink_mean(const Tensor& share, int64_t cell) {
  if (cell == 1) return share;
  return torch::avg_pool2d(share.unsqueeze(1), {cell, cell}, {cell, cell}, 0, /*ceil_mode=*/true,
                           /*count_include_pad=*/false)
      .squeeze(1);
}

struct Wanted {
  std::vector<int64_t> heads;
  int64_t first_row, rows, cell;
};

class Watching : public Selector {
 public:
  Watching(std::shared_ptr<Selector> inner, const Formula& formula, Wanted wanted)
      : inner_(std::move(inner)), formula_(formula), wanted_(std::move(wanted)) {}

  void make_room(KvCache& cache, const Formula& formula) override {
    if (inner_) inner_->make_room(cache, formula);
  }
  std::optional<KeyLists> select(const PairInputs& inputs, KvCache* cache) override {
    return inner_ ? inner_->select(inputs, cache) : std::nullopt;
  }
  void adjust(PairInputs& inputs) override {
    if (inner_) inner_->adjust(inputs);
  }
  void finished(const PairInputs& inputs, const AttentionResult& result) override {
    if (inner_) inner_->finished(inputs, result);
    const int64_t keys = inputs.value.size(2), columns = cells_of(keys, wanted_.cell);
    const auto heads = static_cast<int64_t>(wanted_.heads.size());
    weights = torch::empty({heads, cells_of(wanted_.rows, wanted_.cell), columns}, torch::kFloat);
    if (inputs.lists) kept = torch::empty_like(weights);
    const Tensor chosen = torch::tensor(wanted_.heads, torch::kLong);
    // Whole rows of cells, and some more rows so that the lists' tiles are whole too.
    const int64_t step = cells_of(kRowsAtOnce, wanted_.cell) * wanted_.cell;
    const int64_t end = wanted_.first_row + wanted_.rows;
    for (int64_t first = wanted_.first_row; first < end; first += step) {
      const int64_t count = std::min(step, end - first);
      const int64_t tile = inputs.lists ? inputs.lists->query_tile : 1;
      const int64_t before = first % tile;
      const int64_t after =
          std::min(cells_of(first + count, tile) * tile, inputs.queries[0].size(2)) - (first + count);
      const PairInputs part = rows_of(formula_.plan(), inputs, first - before, before + count + after);
      const auto cut = [&](const Tensor& map) {
        return map[0].index_select(0, chosen).narrow(1, before, count).to(torch::kFloat);
      };
      const int64_t row = (first - wanted_.first_row) / wanted_.cell, rows = cells_of(count, wanted_.cell);
      const Tensor exact = cut(reference_attention(formula_.plan(), part, true).weights);
      has_negative |= (exact < 0).any().item<bool>();
      weights.narrow(1, row, rows).copy_(shrink(exact, wanted_.cell));
      if (inputs.lists)
        kept.narrow(1, row, rows).copy_(shrink_mean(cut(allowed_pairs(formula_.plan(), part)), wanted_.cell));
    }
  }

  Tensor weights, kept;  // [heads, rows, keys] in cells
  bool has_negative = false;

 private:
  std::shared_ptr<Selector> inner_;
  const Formula& formula_;
  Wanted wanted_;
};

// Puts the model's own selectors back, also after an error.
class Watch {
 public:
  Watch(Transformer model, const std::vector<int64_t>& layers, const Wanted& wanted)
      : model_(std::move(model)), layers_(layers) {
    for (const int64_t layer : layers_) {
      Attention attention = model_->block(layer)->attention;
      own_.push_back(attention->selector());
      watching.push_back(std::make_shared<Watching>(own_.back(), attention->formula(), wanted));
      attention->set_selector(watching.back());
    }
  }
  ~Watch() {
    for (size_t index = 0; index < layers_.size(); ++index)
      model_->block(layers_[index])->attention->set_selector(own_[index]);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  std::vector<std::shared_ptr<Watching>> watching;

 private:
  Transformer model_;
  const std::vector<int64_t>& layers_;
  std::vector<std::shared_ptr<Selector>> own_;
};

std::vector<int64_t> chosen_or_all(const std::vector<int64_t>& chosen, int64_t count, std::string_view what) {
  if (chosen.empty()) {
    std::vector<int64_t> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  for (const int64_t index : chosen)
    require(index >= 0 && index < count, "capture: {} {}; the model has {}, counted from 0", what, index,
            plural(count, what));
  return chosen;
}

// Everything that was left open, filled in and checked.
CaptureOptions complete(CaptureOptions options, const Architecture& architecture, int64_t tokens) {
  require(tokens > 0, "capture: a text of no tokens; expected at least one");
  options.layers = chosen_or_all(options.layers, architecture.layers, "layer");
  options.heads = chosen_or_all(options.heads, architecture.heads, "head");
  require(options.first_row >= 0 && options.first_row < tokens,
          "capture: the first row is {}; the text has {}, counted from 0", options.first_row,
          plural(tokens, "token"));
  require(options.rows >= 0 && options.first_row + options.rows <= tokens,
          "capture: {} from row {} on; the text has {}", plural(options.rows, "row"), options.first_row,
          plural(tokens, "token"));
  if (options.rows == 0) options.rows = tokens - options.first_row;
  require(options.cell >= 1 && options.cell <= tokens, "capture: cells of {} tokens; expected 1 to {}",
          options.cell, tokens);
  return options;
}

}  // namespace

int64_t bytes_of_capture(const Architecture& architecture, int64_t tokens, const CaptureOptions& given) {
  const CaptureOptions options = complete(given, architecture, tokens);
  return static_cast<int64_t>(options.layers.size() * options.heads.size()) *
         cells_of(options.rows, options.cell) * cells_of(tokens, options.cell) *
         static_cast<int64_t>(sizeof(float));
}

Capture capture_attention(Transformer model, const Tensor& ids, const CaptureOptions& given) {
  const Architecture& architecture = model->architecture();
  require(!model->encoder(),
          "capture: the model translates; attention is captured of models that read one "
          "text");
  require(ids.dim() == 1, "capture: the ids have {} dimensions; expected one text, [tokens]", ids.dim());
  const int64_t tokens = ids.size(0);
  const CaptureOptions options = complete(given, architecture, tokens);
  const bool selects = std::ranges::any_of(
      options.layers, [&](int64_t layer) { return model->block(layer)->attention->selector() != nullptr; });
  const int64_t bytes = bytes_of_capture(architecture, tokens, options) * (selects ? 2 : 1);
  require(bytes <= options.most_bytes,
          "capture: {} of weights{}, with at most {} allowed; choose fewer layers, heads or rows, or larger "
          "cells",
          bytes_text(bytes), selects ? " and of what was kept" : "", bytes_text(options.most_bytes));
  const torch::NoGradGuard no_gradient;
  const Wanted wanted{options.heads, options.first_row, options.rows, options.cell};
  Watch watch(model, options.layers, wanted);
  model->forward({.ids = ids.unsqueeze(0)});
  Capture capture{
      .tokens = tokens, .first_row = options.first_row, .rows = options.rows, .cell = options.cell};
  for (size_t index = 0; index < options.layers.size(); ++index) {
    const Watching& seen = *watch.watching[index];
    capture.has_negative |= seen.has_negative;
    for (size_t head = 0; head < options.heads.size(); ++head) {
      const auto place = static_cast<int64_t>(head);
      capture.heads.push_back({.layer = options.layers[index],
                               .head = options.heads[head],
                               .weights = seen.weights[place],
                               .kept = seen.kept.defined() ? seen.kept[place] : Tensor()});
    }
  }
  return capture;
}

}  // namespace saccade
