// Both models read a batch, then the logits of the same few rows are made from both hidden states, compared
// and dropped.
#include "saccade/certify/fidelity_tokens.h"

#include <torch/types.h>

#include <algorithm>
#include <limits>

#include "saccade/base/error.h"
#include "saccade/evaluate/batches.h"

namespace saccade {

using at::Tensor;

namespace {

// In double precision and with a vocabulary of 150,000 these take about 80 MB, a few times over.
constexpr int64_t kRowsAtOnce = 64;

// Rows of a batch's hidden states, [batch * tokens, width], and what should be said there.
struct Places {
  std::vector<int64_t> rows;
  std::vector<int64_t> answers;  // -1: nothing is asked
};

Places places_of(std::span<const Sequence> windows, int64_t width, bool all_places) {
  Places places;
  for (size_t index = 0; index < windows.size(); ++index) {
    const Sequence& window = windows[index];
    const int64_t start = static_cast<int64_t>(index) * width;
    if (!all_places) {
      for (const Question& question : window.questions) {
        places.rows.push_back(start + question.row);
        places.answers.push_back(question.answer);
      }
      continue;
    }
    const size_t first = places.answers.size();
    for (size_t row = 0; row < window.ids.size(); ++row)
      places.rows.push_back(start + static_cast<int64_t>(row));
    places.answers.resize(first + window.ids.size(), -1);
    for (const Question& question : window.questions)
      places.answers[first + static_cast<size_t>(question.row)] = question.answer;
  }
  return places;
}

struct Predictions {
  Tensor likeliest;   // [rows]
  Tensor log_shares;  // [rows, vocabulary] in double: logarithms of probabilities
};

Predictions predict(Transformer& model, const Tensor& hidden, const Tensor& rows) {
  const Tensor logits = model->logits(hidden.index_select(0, rows)).to(torch::kDouble);
  return {logits.argmax(-1), logits.log_softmax(-1)};
}

void add(Tally& tally, const Predictions& predictions, int64_t row, int64_t answer) {
  const double* log_shares = predictions.log_shares.data_ptr<double>();
  tally.add(Answer{.nll = -log_shares[row * predictions.log_shares.size(1) + answer],
                   .correct = predictions.likeliest.data_ptr<int64_t>()[row] == answer});
}

Tensor read(Transformer& model, const TokenBatch& batch) {
  const Tensor hidden = model->forward({.ids = batch.ids, .key_mask = batch.key_mask});
  return hidden.reshape({-1, hidden.size(2)});
}

void compare(Transformer& baseline, Transformer& candidate, std::span<const Sequence> windows,
             const TokenBatch& batch, TokenFidelity& result) {
  const Tensor ours = read(baseline, batch), theirs = read(candidate, batch);
  const Places places = places_of(windows, batch.ids.size(1), result.all_places);
  const auto count = static_cast<int64_t>(places.rows.size());
  for (int64_t first = 0; first < count; first += kRowsAtOnce) {
    const int64_t size = std::min(kRowsAtOnce, count - first);
    const Tensor rows = torch::tensor(
        at::ArrayRef<int64_t>(places.rows.data() + first, static_cast<size_t>(size)), torch::kLong);
    const Predictions before = predict(baseline, ours, rows), after = predict(candidate, theirs, rows);
    // A token that the baseline finds impossible adds nothing, whatever the candidate thinks of it.
    const Tensor share = before.log_shares.exp();
    const Tensor kl = (share * (before.log_shares - after.log_shares)).masked_fill_(share == 0, 0).sum(-1);
    for (int64_t row = 0; row < size; ++row) {
      result.kl.push_back(kl.data_ptr<double>()[row]);
      result.same_top1 +=
          before.likeliest.data_ptr<int64_t>()[row] == after.likeliest.data_ptr<int64_t>()[row] ? 1 : 0;
      const int64_t answer = places.answers[static_cast<size_t>(first + row)];
      if (answer < 0) continue;
      add(result.baseline, before, row, answer);
      add(result.candidate, after, row, answer);
    }
  }
}

}  // namespace

TokenSpread spread_of(std::vector<double> values) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (values.empty() || !std::ranges::all_of(values, [](double value) { return std::isfinite(value); }))
    return {kNone, kNone, kNone, kNone};
  std::ranges::sort(values);
  double sum = 0;
  for (const double value : values) sum += value;
  const auto count = static_cast<double>(values.size());
  const auto quantile = [&](double share) {
    return values[static_cast<size_t>(std::max(0.0, std::ceil(share * count) - 1))];
  };
  return {sum / count, quantile(0.5), quantile(0.99), values.back()};
}

TokenFidelity compare_tokens(Transformer baseline, Transformer candidate, std::span<const Sequence> windows,
                             const TokenOptions& options) {
  const int64_t known = baseline->architecture().vocabulary;
  require(candidate->architecture().vocabulary == known,
          "certify: the candidate has {} tokens and the baseline {}; expected the same vocabulary",
          candidate->architecture().vocabulary, known);
  for (const Sequence& window : windows)
    for (const Question& question : window.questions)
      require(question.answer >= 0 && question.answer < known, "certify: token {}; the models have {}",
              question.answer, known);
  const at::NoGradGuard no_gradients;
  std::vector<const TokenIds*> texts;
  for (const Sequence& window : windows) texts.push_back(&window.ids);
  TokenFidelity result{.windows = static_cast<int64_t>(windows.size()), .all_places = options.all_places};
  const bool equal_lengths = length_matters(baseline) || length_matters(candidate);
  for (const auto& [first, end] : batches_of(texts, options.batch_size, equal_lengths)) {
    compare(baseline, candidate, windows.subspan(first, end - first),
            make_batch(std::span(texts).subspan(first, end - first)), result);
    if (options.on_progress) options.on_progress(static_cast<int64_t>(end), result.windows);
  }
  require(result.tokens() > 0, "certify: no token to predict; expected a text of at least 2 tokens");
  return result;
}

}  // namespace saccade
