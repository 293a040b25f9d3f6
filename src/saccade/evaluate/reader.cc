// Hidden states of a batch at once, logits of a few hundred rows at a time: with a vocabulary of 50,000 a
// window's logits would be larger than the model.
#include "saccade/evaluate/reader.h"

#include <algorithm>

#include "saccade/base/error.h"

namespace saccade {
namespace {

using at::Tensor;

constexpr int64_t kRowsAtOnce = 256;

struct Batch {
  Tensor ids, key_mask;  // no mask when all are equally long
};

Batch make_batch(const std::vector<const std::vector<int32_t>*>& texts) {
  const auto shorter = [](const auto* a, const auto* b) { return a->size() < b->size(); };
  const auto [shortest, longest] = std::minmax_element(texts.begin(), texts.end(), shorter);
  const auto rows = static_cast<int64_t>(texts.size()), width = static_cast<int64_t>((*longest)->size());
  Batch batch{.ids = torch::zeros({rows, width}, torch::kLong)};
  if ((*shortest)->size() < (*longest)->size()) batch.key_mask = torch::zeros({rows, width}, torch::kBool);
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<int32_t>& text = *texts[static_cast<size_t>(row)];
    std::copy(text.begin(), text.end(), batch.ids.data_ptr<int64_t>() + row * width);
    if (batch.key_mask.defined())
      std::fill_n(batch.key_mask.data_ptr<bool>() + row * width, text.size(), true);
  }
  return batch;
}

bool length_matters(Transformer& model) {
  for (int64_t layer = 0; layer < model->architecture().layers; ++layer)
    if (model->formula(layer).plan().uses_length()) return true;
  return false;
}

// Calls work(first, end) for runs of texts that go into one batch.
template <class Text, class Work>
void for_each_batch(Transformer& model, const std::vector<Text>& texts, int64_t batch_size,
                    const Work& work) {
  require(batch_size > 0, "evaluate: batches of {} texts; expected at least 1", batch_size);
  const bool equal_only = length_matters(model);
  for (size_t first = 0; first < texts.size();) {
    size_t end = first + 1;
    while (end < texts.size() && end - first < static_cast<size_t>(batch_size) &&
           (!equal_only || texts[end]->size() == texts[first]->size()))
      ++end;
    work(first, end);
    first = end;
  }
}

Tensor hidden_states(Transformer& model, const std::vector<const std::vector<int32_t>*>& texts, size_t first,
                     size_t end) {
  const Batch batch = make_batch(
      {texts.begin() + static_cast<ptrdiff_t>(first), texts.begin() + static_cast<ptrdiff_t>(end)});
  return model->forward(ModelCall{.ids = batch.ids, .key_mask = batch.key_mask});
}

std::vector<const std::vector<int32_t>*> checked(std::vector<const std::vector<int32_t>*> texts) {
  for (const auto* text : texts) require(!text->empty(), "evaluate: a text without tokens");
  return texts;
}

Tensor wide(const Tensor& tensor) {
  return tensor.scalar_type() == torch::kDouble ? tensor : tensor.to(torch::kFloat);
}

// The answers at rows of hidden states, [rows, width].
void answer_rows(Transformer& model, const Tensor& hidden, const std::vector<int64_t>& rows,
                 const std::vector<int64_t>& targets, std::vector<Answer>& answers) {
  const auto count = static_cast<int64_t>(rows.size());
  answers.reserve(rows.size());
  for (int64_t first = 0; first < count; first += kRowsAtOnce) {
    const int64_t size = std::min(kRowsAtOnce, count - first);
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
  std::vector<const std::vector<int32_t>*> texts;
  for (const Sequence& sequence : sequences) texts.push_back(&sequence.ids);
  Answers result;
  for_each_batch(model, checked(texts), batch_size, [&](size_t first, size_t end) {
    const Tensor hidden = hidden_states(model, texts, first, end);
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
  });
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
  std::vector<const std::vector<int32_t>*> all;
  for (const std::vector<int32_t>& text : texts) all.push_back(&text);
  std::vector<Tensor> logits;
  for_each_batch(model, checked(all), batch_size, [&](size_t first, size_t end) {
    logits.push_back(wide(model->classify(hidden_states(model, all, first, end))));
  });
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
