// One pass over the model in all: what leaves a layer is kept until the next one is visited.
#include "saccade/distill/layer_stream.h"

namespace saccade {

using at::Tensor;

void stream_layers(Transformer model, std::span<const TokenIds> texts, const VisitLayer& visit) {
  torch::NoGradGuard no_gradient;
  std::vector<ModelCall> calls;
  std::vector<Tensor> states;
  for (const TokenIds& text : texts) {
    calls.push_back({.ids = torch::tensor(text, torch::kInt).to(torch::kLong).unsqueeze(0)});
    states.push_back(model->embed(calls.back()));
  }
  for (int64_t layer = 0; layer < model->architecture().layers; ++layer) {
    Block block = model->block(layer);
    const auto watcher = std::make_shared<Watcher>();
    const std::shared_ptr<Selector> own = block->attention->selector();
    block->attention->set_selector(watcher);
    std::vector<PairInputs> inputs;
    for (size_t text = 0; text < texts.size(); ++text) {
      states[text] = block.ptr()->forward(states[text], calls[text], nullptr);
      inputs.push_back(watcher->inputs());
    }
    block->attention->set_selector(own);
    visit(layer, inputs);
  }
}

}  // namespace saccade
