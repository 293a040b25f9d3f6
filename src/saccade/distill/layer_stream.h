// Texts on their way through a frozen model, all of them one layer at a time: what each layer's attention is
// given is there while that layer is looked at, and no longer.
#pragma once

#include <functional>

#include "saccade/evaluate/divergence.h"
#include "saccade/sparse/selection.h"

namespace saccade {

// Remembers what attention was given and what came out, and selects nothing.
class Watcher : public Selector {
 public:
  std::optional<KeyLists> select(const PairInputs&, KvCache*) override { return std::nullopt; }
  void finished(const PairInputs& inputs, const AttentionResult& result) override {
    inputs_ = inputs;
    output_ = result.output;
  }

  const PairInputs& inputs() const { return inputs_; }
  const at::Tensor& output() const { return output_; }
  void forget() { inputs_ = PairInputs(), output_ = at::Tensor(); }

 private:
  PairInputs inputs_;
  at::Tensor output_;
};

// Calls `visit` for each layer with what its attention gets for each text. The model's own selectors are put
// back at the end.
using VisitLayer = std::function<void(int64_t layer, std::span<const PairInputs> texts)>;
void stream_layers(Transformer model, std::span<const TokenIds> texts, const VisitLayer& visit);

}  // namespace saccade
