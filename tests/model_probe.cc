// Lets Python look into our models: runs one on given ids and writes what came out, to be compared with what
// the `transformers` package makes of the same files.
//
//   model_probe MODEL IN.safetensors OUT.safetensors [decode] [gradients DIR] [save DIR] [attention FORMULA]
//
// IN has ids [batch, tokens], and perhaps mask and types, as 64-bit integers. OUT gets hidden.0 ..., logits,
// labels or sentences, and with `decode` the same logits token by token through the cache. `gradients`
// writes, as a model, the gradient of the mean loss of predicting each next id.
#include <fmt/format.h>
#include <torch/nn/functional/loss.h>

#include <cstring>

#include "saccade/base/error.h"
#include "saccade/models/model_files.h"
#include "saccade/weights/safetensors_writer.h"

namespace saccade {
namespace {

at::Tensor integers(const Checkpoint& file, const std::string& name) {
  if (!file.has(name)) return {};
  const TensorView& view = file.get(name);
  require(view.type == ElementType::I64, "probe: '{}' is not of 64-bit integers", name);
  at::Tensor tensor = torch::empty(view.shape, torch::kLong);
  std::memcpy(tensor.data_ptr(), view.bytes.data(), view.bytes.size());
  return tensor;
}

void probe(int argc, char** argv) {
  Transformer model = load_model(argv[1]);
  const Checkpoint given = Checkpoint::open(argv[2]);
  std::vector<std::pair<std::string, at::Tensor>> results;
  std::string gradients;
  bool decode = false;
  for (int at = 4; at < argc; ++at) {
    const std::string word = argv[at];
    if (word == "decode") decode = true;
    if (word == "gradients") gradients = argv[++at];
    if (word == "save") save_model(model, argv[++at]);
    if (word == "attention") model->set_attention(Formula::load(argv[++at]));
  }
  ModelCall call{.ids = integers(given, "ids"), .token_types = integers(given, "types")};
  if (const at::Tensor mask = integers(given, "mask"); mask.defined()) call.key_mask = mask != 0;
  std::vector<at::Tensor> hidden_states;
  call.hidden_states = &hidden_states;
  const HeadKind head = model->architecture().head;
  {
    const torch::NoGradGuard no_gradient;
    const at::Tensor hidden = model->forward(call);
    for (size_t index = 0; index < hidden_states.size(); ++index)
      results.emplace_back(fmt::format("hidden.{}", index), hidden_states[index]);
    if (head == HeadKind::none)
      results.emplace_back("sentences", TransformerImpl::sentence_embeddings(hidden, call.key_mask));
    else if (head == HeadKind::classifier)
      results.emplace_back("labels", model->classify(hidden));
    else
      results.emplace_back("logits", model->logits(hidden));
    if (decode) {
      ModelCache cache = model->make_cache();
      std::vector<at::Tensor> steps;
      const int64_t tokens = call.ids.size(1), first = tokens / 2;
      for (int64_t at = 0; at < tokens;) {
        const int64_t count = at == 0 ? std::max<int64_t>(first, 1) : 1;
        ModelCall step{.ids = call.ids.narrow(1, at, count), .cache = &cache};
        if (call.key_mask.defined()) step.key_mask = call.key_mask.narrow(1, at, count);
        steps.push_back(model->logits(model->forward(step)));
        at += count;
      }
      results.emplace_back("decoded", torch::cat(steps, 1));
    }
  }
  call.hidden_states = nullptr;
  if (!gradients.empty()) {
    for (at::Tensor parameter : model->parameters()) parameter.requires_grad_(true);
    const at::Tensor logits = model->logits(model->forward(call));
    const int64_t tokens = call.ids.size(1);
    const at::Tensor loss = torch::nn::functional::cross_entropy(
        logits.narrow(1, 0, tokens - 1).flatten(0, 1), call.ids.narrow(1, 1, tokens - 1).flatten());
    loss.backward();
    results.emplace_back("loss", loss.detach().reshape({1}));
    const torch::NoGradGuard no_gradient;
    for (at::Tensor parameter : model->parameters())
      parameter.copy_(parameter.grad().defined() ? parameter.grad() : torch::zeros_like(parameter));
    save_model(model, gradients);
  }
  std::vector<TensorSource> sources;
  for (auto& [name, tensor] : results) {
    const at::Tensor numbers = tensor.to(torch::kFloat).contiguous();
    sources.push_back({.name = name,
                       .type = ElementType::F32,
                       .shape = numbers.sizes().vec(),
                       .write = [numbers](const ByteSink& sink) {
                         sink({static_cast<const std::byte*>(numbers.data_ptr()), numbers.nbytes()});
                       }});
  }
  write_safetensors(argv[3], sources);
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    saccade::probe(argc, argv);
  } catch (const saccade::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
