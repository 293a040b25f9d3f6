// Hidden states of a batch at once, logits of a few hundred rows at a time: with a vocabulary of 50,000 a
// window's logits would be larger than the model.
#include "saccade/evaluate/reader.h"

#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/evaluate/batches.h"

namespace saccade {
namespace {

using at::Tensor;

constexpr int64_t kRowsOfLogits = 256;

Tensor hidden_states(Transformer& model, std::span<const TokenIds* const> texts) {
  const TokenBatch batch = make_batch(texts);
  return model->forward(ModelCall{.ids = batch.ids, .key_mask = batch.key_mask});
}

Tensor wide(const Tensor& tensor) {
  return tensor.scalar_type() == torch::kDouble ? tensor : tensor.to(torch::kFloat);
}

// The answers at rows of hidden states, [rows, width].
void answer_rows(Transformer& model, const Tensor& hidden, const std::vector<int64_t>& rows,
                 const std::vector<int64_t>& targets, std::vector<Answer>& answers) {
  const auto count = static_cast<int64_t>(rows.size());
  answers.reserve(rows.size());
  for (int64_t first = 0; first < count; first += kRowsOfLogits) {
    const int64_t size = std::min(kRowsOfLogits, count - first);
    const auto tensor = [&](const std::vector<int64_t>& values) {
      return torch::tensor(at::ArrayRef<int64_t>(values.data() + first, static_cast<size_t>(size)));
    };
    const Tensor target = tensor(targets);
    Tensor logits = wide(model->logits(hidden.index_select(0, tensor(rows))));
    const auto [largest, likeliest] = logits.max(-1, true);
    logits.sub_(largest);
    const Tensor chosen = logits.gather(1, target.unsqueeze(1)).squeeze(1);
    const Tensor nll = (logits.exp_().sum(-1).log() - chosen).to(torch::kDouble);
    const Tensor correct = likeliest.squeeze(1) == target;
    for (int64_t row = 0; row < size; ++row)
      answers.push_back({nll.data_ptr<double>()[row], correct.data_ptr<bool>()[row]});
  }
}

Answers read(Transformer& model, std::span<const Sequence> sequences, int64_t batch_size) {
  const Architecture& architecture = model->architecture();
  require(architecture.head == HeadKind::language_model || architecture.head == HeadKind::masked_model,
          "evaluate: the model has no head for tokens; expected a language model or a masked one");
  at::NoGradGuard no_gradients;
  std::vector<const TokenIds*> texts;
  for (const Sequence& sequence : sequences) texts.push_back(&sequence.ids);
  Answers result;
  for (const auto& [first, end] : batches_of(texts, batch_size, length_matters(model))) {
    const Tensor hidden = hidden_states(model, std::span(texts).subspan(first, end - first));
    std::vector<int64_t> rows, targets;
    for (size_t index = first; index < end; ++index)
      for (const Question& question : sequences[index].questions) {
        require(question.answer >= 0 && question.answer < architecture.vocabulary,
                "evaluate: token {}; the model has {}", question.answer, architecture.vocabulary);
        rows.push_back(static_cast<int64_t>(index - first) * hidden.size(1) + question.row);
        targets.push_back(question.answer);
      }
    std::vector<Answer> answers;
    answer_rows(model, hidden.reshape({-1, hidden.size(2)}), rows, targets, answers);
    auto next = answers.begin();
    for (size_t index = first; index < end; ++index) {
      const auto last = next + static_cast<ptrdiff_t>(sequences[index].questions.size());
      result.emplace_back(next, last);
      next = last;
    }
  }
  return result;
}

}  // namespace

Reader reader_of(Transformer model, int64_t batch_size) {
  return [model, batch_size](std::span<const Sequence> sequences) mutable {
    return read(model, sequences, batch_size);
  };
}

Tensor classify(Transformer model, std::span<const std::vector<int32_t>> texts, int64_t batch_size) {
  at::NoGradGuard no_gradients;
  std::vector<const TokenIds*> all;
  for (const TokenIds& text : texts) all.push_back(&text);
  std::vector<Tensor> logits;
  for (const auto& [first, end] : batches_of(all, batch_size, length_matters(model)))
    logits.push_back(wide(model->classify(hidden_states(model, std::span(all).subspan(first, end - first)))));
  return logits.empty() ? torch::empty({0, model->architecture().labels}) : torch::cat(logits);
}

int64_t checked_context(const Architecture& architecture, int64_t wanted, bool extend) {
  if (wanted == 0) return std::min<int64_t>(architecture.context, 1024);
  require(wanted >= 2, "evaluate: a context of {}; expected at least 2 tokens", wanted);
  const bool rotary = architecture.rotary.has_value() && !architecture.learned_positions;
  require(wanted <= architecture.context || (extend && rotary),
          "evaluate: a context of {} tokens; the model was made for {}{}", wanted, architecture.context,
          rotary ? " (--extend tries it all the same)" : "");
  return wanted;
}

}  // namespace saccade
