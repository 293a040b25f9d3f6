// Logits are made again for each comparison: they are a hundred times as large as the hidden states.
#include "saccade/evaluate/divergence.h"

#include <cmath>

#include "saccade/base/error.h"

namespace saccade {

using at::Tensor;

namespace {
constexpr int64_t kRowsAtOnce = 256;
}

double Divergence::quantile(double share) const {
  const Tensor sorted = std::get<0>(values.sort());
  const auto at = static_cast<int64_t>(std::ceil(share * static_cast<double>(sorted.numel()))) - 1;
  return sorted[std::clamp<int64_t>(at, 0, sorted.numel() - 1)].item<double>();
}

bool predicts_tokens(const Architecture& architecture) {
  return architecture.head == HeadKind::language_model || architecture.head == HeadKind::masked_model;
}

std::vector<Tensor> last_hidden_states(Transformer model, std::span<const TokenIds> texts) {
  torch::NoGradGuard no_gradient;
  std::vector<Tensor> result;
  for (const TokenIds& text : texts)
    result.push_back(
        model->forward({.ids = torch::tensor(text, torch::kInt).to(torch::kLong).unsqueeze(0)})[0]);
  return result;
}

Divergence divergence_of(Transformer base, std::span<const Tensor> base_hidden, Transformer changed,
                         std::span<const Tensor> changed_hidden, std::span<const TokenIds> texts) {
  torch::NoGradGuard no_gradient;
  require(base_hidden.size() == texts.size() && changed_hidden.size() == texts.size(),
          "divergence: {} and {} hidden states for {} texts", base_hidden.size(), changed_hidden.size(),
          texts.size());
  const bool tokens = predicts_tokens(base->architecture());
  std::vector<Tensor> values, same, base_nll, changed_nll;
  for (size_t text = 0; text < texts.size(); ++text) {
    const Tensor ids = torch::tensor(texts[text], torch::kInt).to(torch::kLong);
    const int64_t rows = ids.numel();
    for (int64_t begin = 0; begin < rows; begin += kRowsAtOnce) {
      const int64_t count = std::min(kRowsAtOnce, rows - begin);
      const Tensor one = base_hidden[text].narrow(0, begin, count),
                   other = changed_hidden[text].narrow(0, begin, count);
      if (!tokens) {
        const Tensor a = one.to(torch::kDouble), b = other.to(torch::kDouble);
        values.push_back(1 - (a * b).sum(-1) / (a.norm(2, -1) * b.norm(2, -1)).clamp_min(1e-30));
        continue;
      }
      const Tensor p = base->logits(one).to(torch::kFloat).log_softmax(-1),
                   q = changed->logits(other).to(torch::kFloat).log_softmax(-1);
      // Sums of tens of thousands of small numbers of both signs: in double precision.
      values.push_back((p.exp() * (p - q)).sum(-1, false, torch::kDouble));
      same.push_back(p.argmax(-1) == q.argmax(-1));
      const int64_t next = std::min(count, rows - begin - 1);
      const Tensor following = ids.narrow(0, begin + 1, next).unsqueeze(1);
      for (const auto& [sums, logs] : {std::pair{&base_nll, &p}, {&changed_nll, &q}}) {
        Tensor nll = torch::full({count}, std::nan(""), torch::kDouble);
        nll.narrow(0, 0, next).copy_(-logs->narrow(0, 0, next).gather(1, following).squeeze(1));
        sums->push_back(nll);
      }
    }
  }
  Divergence result{.values = torch::cat(values)};
  if (tokens) {
    result.same_top = torch::cat(same);
    result.base_nll = torch::cat(base_nll);
    result.changed_nll = torch::cat(changed_nll);
  }
  return result;
}

}  // namespace saccade
