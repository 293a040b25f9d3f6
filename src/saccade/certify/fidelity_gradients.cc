// The gradients of one model are kept while the other's are computed: a few hundred megabytes for a model of
// a hundred million parameters, since only the attention's projections are asked for.
#include "saccade/certify/fidelity_gradients.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "saccade/base/error.h"
#include "saccade/diagnose/gradients.h"

namespace saccade {

using at::Tensor;

namespace {

struct LayerSums {
  std::vector<Tensor> inputs;  // a gradient for each window; undefined where the attention does not read it
  Tensor projection, output;   // summed over the windows
};

struct ModelGradients {
  double loss = 0;
  std::vector<LayerSums> layers;
};

Tensor projection_of(const Block& block) {
  return block->token_projection.defined() ? block->token_projection : block->projection->weight;
}

std::vector<Tensor> projections_of(Transformer& model) {
  std::vector<Tensor> all;
  for (int64_t layer = 0; layer < model->architecture().layers; ++layer) {
    all.push_back(projection_of(model->block(layer)));
    all.push_back(model->block(layer)->output->weight);
  }
  return all;
}

Tensor loss_of(Transformer& model, const Sequence& window, std::vector<Tensor>& inputs) {
  const Tensor ids = torch::tensor(std::vector<int64_t>(window.ids.begin(), window.ids.end())).unsqueeze(0);
  std::vector<int64_t> rows, answers;
  for (const Question& question : window.questions) {
    rows.push_back(question.row);
    answers.push_back(question.answer);
  }
  const auto keep = [&](int64_t, const Tensor& x) {
    // Before the first attention nothing asks for gradients yet.
    inputs.push_back(x.requires_grad() ? x : x.set_requires_grad(true));
  };
  const Tensor hidden = model->forward({.ids = ids, .on_attention_input = keep});
  const Tensor logits = model->logits(hidden.select(0, 0).index_select(0, torch::tensor(rows)));
  return at::cross_entropy_loss(logits.scalar_type() == torch::kDouble ? logits : logits.to(torch::kFloat),
                                torch::tensor(answers), {}, at::Reduction::Sum);
}

void add(Tensor& sum, const Tensor& gradient) {
  if (!gradient.defined()) return;
  sum = sum.defined() ? sum.add_(gradient) : gradient;
}

ModelGradients gradients_of(Transformer& model, std::span<const Sequence> windows,
                            const std::function<void()>& on_window) {
  const std::vector<Tensor> weights = projections_of(model);
  const AskForGradients asking(weights);
  const torch::AutoGradMode with_gradients(true);
  ModelGradients result;
  result.layers.resize(weights.size() / 2);
  int64_t questions = 0;
  for (const Sequence& window : windows) {
    std::vector<Tensor> inputs;
    const Tensor loss = loss_of(model, window, inputs);
    std::vector<Tensor> wanted = weights;
    wanted.insert(wanted.end(), inputs.begin(), inputs.end());
    const std::vector<Tensor> found =
        torch::autograd::grad({loss}, wanted, {}, /*retain_graph=*/false, /*create_graph=*/false,
                              /*allow_unused=*/true);
    for (size_t layer = 0; layer < result.layers.size(); ++layer) {
      LayerSums& sums = result.layers[layer];
      add(sums.projection, found[2 * layer]);
      add(sums.output, found[2 * layer + 1]);
      sums.inputs.push_back(found[weights.size() + layer]);
    }
    result.loss += loss.item<double>();
    questions += static_cast<int64_t>(window.questions.size());
    on_window();
  }
  result.loss /= static_cast<double>(questions);
  return result;
}

// What a cosine is made of, so that those of several tensors can be put together.
struct Angle {
  double product = 0, ours = 0, theirs = 0;

  void add(const Tensor& a, const Tensor& b) {
    if (a.defined()) ours += a.to(torch::kDouble).square().sum().item<double>();
    if (b.defined()) theirs += b.to(torch::kDouble).square().sum().item<double>();
    if (a.defined() && b.defined())
      product += (a.to(torch::kDouble) * b.to(torch::kDouble)).sum().item<double>();
  }
  void add(const Angle& other) {
    product += other.product;
    ours += other.ours;
    theirs += other.theirs;
  }
  double cosine() const {
    if (ours == 0 && theirs == 0) return 1;
    if (ours == 0 || theirs == 0) return 0;
    // Of equal gradients it is exactly 1.
    return ours == theirs ? product / ours : product / (std::sqrt(ours) * std::sqrt(theirs));
  }
};

Tensor part(const Tensor& gradient, int64_t dimension, int64_t first, int64_t size) {
  return gradient.defined() ? gradient.narrow(dimension, first, size) : gradient;
}

LayerCosines compare(const Architecture& a, bool looked_up, const LayerSums& ours, const LayerSums& theirs) {
  // Looked up by the token, queries, keys and values are columns instead of rows.
  const int64_t along = looked_up ? 1 : 0, query = a.heads * a.head_dim, key = a.kv_heads * a.head_dim;
  Angle input, parts[4];
  for (size_t window = 0; window < ours.inputs.size(); ++window)
    input.add(ours.inputs[window], theirs.inputs[window]);
  const int64_t starts[] = {0, query, query + key}, sizes[] = {query, key, key};
  for (size_t index = 0; index < 3; ++index)
    parts[index].add(part(ours.projection, along, starts[index], sizes[index]),
                     part(theirs.projection, along, starts[index], sizes[index]));
  parts[3].add(ours.output, theirs.output);
  Angle all;
  for (const Angle& each : parts) all.add(each);
  return {.input = input.cosine(),
          .weights = all.cosine(),
          .query = parts[0].cosine(),
          .key = parts[1].cosine(),
          .value = parts[2].cosine(),
          .output = parts[3].cosine()};
}

// std::min would pass over a NaN or keep it, depending on where it stands.
double lower(double a, double b) { return std::isnan(a) || std::isnan(b) ? a + b : std::min(a, b); }

}  // namespace

double LayerCosines::lowest() const { return lower(input, weights); }

double GradientFidelity::lowest() const {
  double result = std::numeric_limits<double>::infinity();
  for (const LayerCosines& layer : layers) result = lower(result, layer.lowest());
  return result;
}

double GradientFidelity::mean() const {
  double sum = 0;
  for (const LayerCosines& layer : layers) sum += layer.lowest();
  return sum / static_cast<double>(layers.size());
}

GradientFidelity compare_gradients(Transformer baseline, Transformer candidate,
                                   std::span<const Sequence> windows, const OnProgress& on_progress) {
  const Architecture& a = baseline->architecture();
  const Architecture& b = candidate->architecture();
  require(a.layers == b.layers && a.width == b.width && a.heads == b.heads && a.kv_heads == b.kv_heads &&
              a.head_dim == b.head_dim && a.embedded_qkv == b.embedded_qkv,
          "certify: gradients of models of different shapes cannot be compared");
  GradientFidelity result;
  for (const Sequence& window : windows) {
    ++result.windows;
    result.longest = std::max(result.longest, static_cast<int64_t>(window.ids.size()));
  }
  int64_t done = 0;
  const auto on_window = [&] {
    if (on_progress) on_progress(++done, 2 * result.windows);
  };
  const ModelGradients ours = gradients_of(baseline, windows, on_window),
                       theirs = gradients_of(candidate, windows, on_window);
  result.baseline_loss = ours.loss;
  result.candidate_loss = theirs.loss;
  for (int64_t layer = 0; layer < a.layers; ++layer)
    result.layers.push_back(compare(a, a.embeds_qkv(layer), ours.layers[static_cast<size_t>(layer)],
                                    theirs.layers[static_cast<size_t>(layer)]));
  return result;
}

}  // namespace saccade
