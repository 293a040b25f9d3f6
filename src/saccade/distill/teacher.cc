// A file of teachers is a safetensors file with the texts themselves in it, so that it cannot be taken for
// another's. Ids are written as numbers of single precision, which are exact for every vocabulary there is.
#include "saccade/distill/teacher.h"

#include <torch/autograd.h>

#include "saccade/base/error.h"
#include "saccade/base/log.h"
#include "saccade/base/text.h"
#include "saccade/models/tensor_files.h"

namespace saccade {

using at::Tensor;

namespace {

constexpr int64_t kRowsOfLogits = 256;
constexpr double kLeast = 1e-9;  // the least that is believed of the rest, whose share is 1 minus a sum

// log(1 - sum of exp(x)) of each row.
Tensor log_of_rest(const Tensor& log_probabilities) {
  return (1 - log_probabilities.exp().sum(-1)).clamp_min(kLeast).log();
}

// The sum of the divergence over rows [begin, begin + rows).
Tensor divergence_of_rows(Transformer model, const Teacher& teacher, int64_t begin, const Tensor& hidden) {
  const int64_t rows = hidden.size(0);
  if (teacher.stored()) {
    const Tensor p = teacher.log_probabilities.narrow(0, begin, rows),
                 rest = teacher.log_rest.narrow(0, begin, rows);
    const Tensor q = model->logits(hidden).log_softmax(-1).gather(-1, teacher.likely.narrow(0, begin, rows));
    return (p.exp() * (p - q)).sum() + (rest.exp() * (rest - log_of_rest(q))).sum();
  }
  const Tensor goal = teacher.hidden.narrow(0, begin, rows);
  if (!predicts_tokens(model->architecture()))
    return (1 - (hidden * goal).sum(-1) / (hidden.norm(2, -1) * goal.norm(2, -1))).sum();
  const Tensor p = model->logits(goal).log_softmax(-1);
  return (p.exp() * (p - model->logits(hidden).log_softmax(-1))).sum();
}

template <class Work>
void for_rows(int64_t rows, const Work& work) {
  for (int64_t begin = 0; begin < rows; begin += kRowsOfLogits)
    work(begin, std::min(kRowsOfLogits, rows - begin));
}

Teacher most_likely(Transformer model, const Tensor& hidden, int64_t count) {
  torch::NoGradGuard no_gradient;
  std::vector<Tensor> likely, logs;
  for_rows(hidden.size(0), [&](int64_t begin, int64_t rows) {
    const auto [values, ids] = model->logits(hidden.narrow(0, begin, rows)).log_softmax(-1).topk(count, -1);
    logs.push_back(values);
    likely.push_back(ids);
  });
  Teacher result{.likely = torch::cat(likely), .log_probabilities = torch::cat(logs)};
  result.log_rest = log_of_rest(result.log_probabilities);
  return result;
}

Tensor as_tensor(const TokenIds& text) { return torch::tensor(text, torch::kInt).to(torch::kFloat); }

std::string name_of(size_t text, const char* part) { return fmt::format("text_{}.{}", text, part); }

void write_teachers(const std::filesystem::path& file, std::span<const TokenIds> texts,
                    const std::vector<Teacher>& teachers) {
  std::vector<TensorSource> sources;
  for (size_t index = 0; index < texts.size(); ++index) {
    const auto add = [&](const char* part, const Tensor& tensor) {
      sources.push_back(source_of(name_of(index, part), tensor.to(torch::kFloat)));
    };
    add("tokens", as_tensor(texts[index]));
    add("likely", teachers[index].likely);
    add("log_probabilities", teachers[index].log_probabilities);
    add("log_rest", teachers[index].log_rest);
  }
  write_safetensors(file, sources);
}

Tensor read_part(const Checkpoint& from, size_t text, const char* part) {
  const TensorView& view = from.get(name_of(text, part));
  Tensor tensor = torch::empty(view.shape);
  read_tensor(view, tensor, from.path().string());
  return tensor;
}

std::vector<Teacher> read_teachers(Transformer model, std::span<const TokenIds> texts, int64_t count,
                                   const std::filesystem::path& file) {
  const Checkpoint from = Checkpoint::open(file);
  std::vector<Teacher> teachers;
  for (size_t index = 0; index < texts.size(); ++index) {
    const auto tokens = std::ssize(texts[index]);
    require(
        from.has(name_of(index, "tokens")) && read_part(from, index, "tokens").equal(as_tensor(texts[index])),
        "{}: what a teacher says of other texts than these {}; delete it to have it made again",
        file.string(), plural(std::ssize(texts), "text"));
    Teacher teacher{.likely = read_part(from, index, "likely").to(torch::kLong),
                    .log_probabilities = read_part(from, index, "log_probabilities"),
                    .log_rest = read_part(from, index, "log_rest")};
    require(
        teacher.likely.dim() == 2 && teacher.likely.size(0) == tokens && teacher.likely.size(1) == count &&
            teacher.log_probabilities.sizes() == teacher.likely.sizes() && teacher.log_rest.numel() == tokens,
        "{}: the most likely tokens have shape {}; expected {} x {}", file.string(),
        fmt::join(teacher.likely.sizes(), " x "), tokens, count);
    require(teacher.likely.min().item<int64_t>() >= 0 &&
                teacher.likely.max().item<int64_t>() < model->architecture().vocabulary,
            "{}: tokens outside the vocabulary of {}", file.string(), model->architecture().vocabulary);
    teachers.push_back(std::move(teacher));
  }
  return teachers;
}

}  // namespace

std::vector<Teacher> teachers_of(Transformer model, std::span<const TokenIds> texts) {
  std::vector<Teacher> teachers;
  for (Tensor& hidden : last_hidden_states(model, texts)) teachers.push_back({.hidden = std::move(hidden)});
  return teachers;
}

std::vector<Teacher> stored_teachers(Transformer model, std::span<const TokenIds> texts, int64_t count,
                                     const std::filesystem::path& file) {
  require(predicts_tokens(model->architecture()), "distill: a teacher without a head for tokens says none");
  require(count >= 1 && count < model->architecture().vocabulary,
          "distill: {} most likely tokens; expected 1 to {}", count, model->architecture().vocabulary - 1);
  if (std::filesystem::exists(file)) return read_teachers(model, texts, count, file);
  std::vector<Teacher> teachers;
  for (const TokenIds& text : texts)
    teachers.push_back(most_likely(model, last_hidden_states(model, std::span(&text, 1))[0], count));
  write_teachers(file, texts, teachers);
  log::info("{}: written, {} most likely tokens of {}", file.string(), count,
            plural(std::ssize(texts), "text"));
  return teachers;
}

double mean_divergence(Transformer model, const Teacher& teacher, const Tensor& hidden) {
  torch::NoGradGuard no_gradient;
  double sum = 0;
  for_rows(hidden.size(0), [&](int64_t begin, int64_t rows) {
    sum += divergence_of_rows(model, teacher, begin, hidden.narrow(0, begin, rows)).item<double>();
  });
  return sum / static_cast<double>(hidden.size(0));
}

Tensor divergence_gradient(Transformer model, const Teacher& teacher, const Tensor& hidden) {
  torch::AutoGradMode with_gradient(true);
  std::vector<Tensor> parts;
  for_rows(hidden.size(0), [&](int64_t begin, int64_t count) {
    const Tensor rows = hidden.narrow(0, begin, count).detach().clone().requires_grad_(true);
    const Tensor loss = divergence_of_rows(model, teacher, begin, rows);
    parts.push_back(torch::autograd::grad({loss / static_cast<double>(hidden.size(0))}, {rows})[0]);
  });
  return torch::cat(parts);
}

}  // namespace saccade
