// Padding is left out of every sum, so that a text's numbers do not depend on the texts beside it.
#include "saccade/certify/fidelity_embeddings.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "saccade/base/error.h"
#include "saccade/evaluate/batches.h"

namespace saccade {

using at::Tensor;

namespace {

struct Reading {
  Tensor hidden;      // [batch, tokens, width] in double, padding is 0
  Tensor embeddings;  // [batch, width] in double
  Tensor labels;      // [batch]; of classifiers
};

Reading read(Transformer& model, const TokenBatch& batch, bool classifies) {
  const Tensor hidden = model->forward({.ids = batch.ids, .key_mask = batch.key_mask});
  Reading reading{.hidden = hidden.to(torch::kDouble)};
  if (classifies) reading.labels = model->classify(hidden).argmax(-1);
  if (batch.key_mask.defined())
    reading.hidden = reading.hidden.masked_fill(batch.key_mask.logical_not().unsqueeze(-1), 0);
  reading.embeddings = TransformerImpl::sentence_embeddings(reading.hidden, batch.key_mask);
  return reading;
}

// To each text the other one that is nearest; a few hundred rows at a time, since there may be many texts.
Tensor neighbours(const Tensor& embeddings) {
  constexpr int64_t kRowsAtOnce = 256;
  std::vector<Tensor> found;
  for (int64_t first = 0; first < embeddings.size(0); first += kRowsAtOnce) {
    const int64_t rows = std::min(kRowsAtOnce, embeddings.size(0) - first);
    Tensor near = embeddings.narrow(0, first, rows).matmul(embeddings.t());
    near.narrow(1, first, rows).fill_diagonal_(-2);  // no text is its own neighbour
    found.push_back(near.argmax(-1));
  }
  return torch::cat(found);
}

}  // namespace

double EmbeddingFidelity::mean_cosine() const {
  double sum = 0;
  for (const double cosine : cosines) sum += cosine;
  return sum / static_cast<double>(texts);
}

EmbeddingFidelity compare_embeddings(Transformer baseline, Transformer candidate,
                                     std::span<const std::vector<int32_t>> texts, int64_t batch_size,
                                     const OnProgress& on_progress) {
  require(candidate->architecture().width == baseline->architecture().width,
          "certify: the candidate's hidden states have {} numbers and the baseline's {}; expected as many",
          candidate->architecture().width, baseline->architecture().width);
  const at::NoGradGuard no_gradients;
  std::vector<const TokenIds*> all;
  for (const TokenIds& text : texts) all.push_back(&text);
  EmbeddingFidelity result{.texts = static_cast<int64_t>(texts.size())};
  result.classifies = baseline->architecture().head == HeadKind::classifier;
  double difference = 0, square = 0;
  std::vector<Tensor> ours, theirs;
  const bool equal_lengths = length_matters(baseline) || length_matters(candidate);
  for (const auto& [first, end] : batches_of(all, batch_size, equal_lengths)) {
    const TokenBatch batch = make_batch(std::span(all).subspan(first, end - first));
    const Reading before = read(baseline, batch, result.classifies),
                  after = read(candidate, batch, result.classifies);
    difference += (after.hidden - before.hidden).square().sum().item<double>();
    square += before.hidden.square().sum().item<double>();
    ours.push_back(before.embeddings);
    theirs.push_back(after.embeddings);
    if (result.classifies) result.same_labels += (before.labels == after.labels).sum().item<int64_t>();
    for (size_t index = first; index < end; ++index)
      result.tokens += static_cast<int64_t>(texts[index].size());
    if (on_progress) on_progress(static_cast<int64_t>(end), result.texts);
  }
  require(result.texts > 0, "certify: no text to read");
  const Tensor before = torch::cat(ours), after = torch::cat(theirs), cosines = (before * after).sum(-1);
  result.cosines.assign(cosines.data_ptr<double>(), cosines.data_ptr<double>() + cosines.numel());
  result.hidden_distance = std::sqrt(difference / square);
  result.same_neighbours = (neighbours(before) == neighbours(after)).sum().item<int64_t>();
  return result;
}

}  // namespace saccade
