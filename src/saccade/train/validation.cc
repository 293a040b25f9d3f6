#include "saccade/train/validation.h"

#include <array>

#include "saccade/train/batch.h"
#include "saccade/train/token_loss.h"

namespace saccade {

using at::Tensor;

Json to_json(const Validation& validation) {
  Json json = {{"loss", validation.loss()},
               {"perplexity", std::exp(validation.loss())},
               {"accuracy", validation.accuracy()},
               {"tokens", validation.tokens}};
  if (validation.answers > 0) json["answer_accuracy"] = validation.answer_accuracy();
  return json;
}

Validation validate(const Transformer& model, const Dataset& data, const ValidationOptions& options,
                    Team& team) {
  const torch::NoGradGuard no_gradient;
  TransformerImpl& inside = *model.ptr();
  const bool training = inside.is_training();
  inside.eval();
  const int64_t count = std::min(options.sequences, data.size());
  Validation found;
  const int64_t groups = (count + options.batch - 1) / options.batch;
  for (int64_t group = team.rank(); group < groups; group += team.size()) {
    const int64_t first = group * options.batch;
    const Batch batch =
        read_batch(data, first, std::min(options.batch, count - first), options.separate_documents);
    const Tensor hidden = inside.forward({.ids = batch.ids,
                                          .source = batch.source,
                                          .source_mask = batch.source_mask,
                                          .documents = batch.documents});
    // One sequence at a time: logits of a whole batch may be larger than the model.
    for (int64_t row = 0; row < batch.ids.size(0); ++row) {
      const Tensor targets = batch.targets[row], places = (targets != kNoTarget).nonzero().squeeze(1);
      if (places.numel() == 0) continue;
      const Tensor wanted = targets.index_select(0, places);
      const Tensor log_p =
          torch::log_softmax(inside.logits(hidden[row].index_select(0, places)).to(torch::kFloat), -1);
      const Tensor right = log_p.argmax(-1) == wanted;
      found.nll -= log_p.gather(1, wanted.unsqueeze(1)).sum(torch::kDouble).item<double>();
      found.tokens += places.numel();
      found.correct += right.sum().item<int64_t>();
      if (!batch.answers.defined()) continue;
      const Tensor asked = batch.answers[row].index_select(0, places);
      found.answers += asked.sum().item<int64_t>();
      found.answered += (asked & right).sum().item<int64_t>();
    }
  }
  std::array<double, 5> sums{found.nll, static_cast<double>(found.tokens), static_cast<double>(found.correct),
                             static_cast<double>(found.answers), static_cast<double>(found.answered)};
  team.add_up(sums);
  if (training) inside.train();
  return {sums[0], static_cast<int64_t>(sums[1]), static_cast<int64_t>(sums[2]),
          static_cast<int64_t>(sums[3]), static_cast<int64_t>(sums[4])};
}

}  // namespace saccade
