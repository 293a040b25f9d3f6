// Plain Adam, one text at a time in an order that is drawn for each epoch.
#include "saccade/distill/imitate.h"

#include <torch/autograd.h>
#include <torch/optim/adam.h>

#include <cmath>
#include <numeric>

#include "saccade/base/error.h"
#include "saccade/base/log.h"
#include "saccade/base/random.h"

namespace saccade {

using at::Tensor;

namespace {

bool is_chosen(const std::string& name, const Imitation& options) {
  const std::string dotted = "." + name + ".";
  const bool part = std::ranges::any_of(options.learn, [&](const std::string& word) {
    return dotted.find("." + word + ".") != std::string::npos;
  });
  const bool layer = options.layers.empty() || std::ranges::any_of(options.layers, [&](int64_t index) {
                       return name.starts_with("block_" + std::to_string(index) + ".");
                     });
  return part && layer;
}

// Texts are equally long.
double divergence_on(Transformer model, std::span<const TokenIds> texts, std::span<const Teacher> teachers) {
  if (texts.empty()) return 0;
  double sum = 0;
  const std::vector<Tensor> hidden = last_hidden_states(model, texts);
  for (size_t index = 0; index < texts.size(); ++index)
    sum += mean_divergence(model, teachers[index], hidden[index]);
  return sum / static_cast<double>(texts.size());
}

}  // namespace

std::vector<ImitationEpoch> imitate(Transformer model, std::span<const TokenIds> texts,
                                    std::span<const Teacher> teachers, std::span<const TokenIds> held_out,
                                    std::span<const Teacher> held_out_teachers, const Imitation& options) {
  std::vector<Tensor> learned;
  for (auto& item : model->named_parameters()) {
    const bool chosen = is_chosen(item.key(), options);
    item.value().requires_grad_(chosen);
    if (chosen) learned.push_back(item.value());
  }
  require(!learned.empty(),
          "distill: no parameter is called '{}'; expected names such as mlp, projection, output or attention",
          fmt::join(options.learn, "', '"));
  torch::optim::Adam adam(learned, torch::optim::AdamOptions(options.rate));
  std::vector<ImitationEpoch> epochs;
  const auto look = [&](int64_t epoch) {
    epochs.push_back(
        {epoch, divergence_on(model, texts, teachers), divergence_on(model, held_out, held_out_teachers)});
    if (options.on_epoch)
      options.on_epoch({{"stage", "imitation"},
                        {"epoch", epoch},
                        {"divergence", epochs.back().learned},
                        {"held_out", epochs.back().held_out}});
  };
  look(0);
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  RandomStream random(options.seed, "imitation");
  for (int64_t epoch = 1; epoch <= options.epochs && !(options.stop && options.stop()); ++epoch) {
    for (size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
    for (const size_t index : order) {
      torch::AutoGradMode with_gradient(true);
      const Tensor hidden =
          model->forward({.ids = torch::tensor(texts[index], torch::kInt).to(torch::kLong).unsqueeze(0)})[0];
      const Tensor start = divergence_gradient(model, teachers[index], hidden);
      if (!start.isfinite().all().item<bool>()) {
        log::warn("epoch {}: the divergence is not finite; training ends here", epoch);
        return epochs;
      }
      adam.zero_grad();
      hidden.backward(start);
      adam.step();
    }
    look(epoch);
  }
  for (Tensor& parameter : learned) parameter.requires_grad_(false);
  return epochs;
}

}  // namespace saccade
