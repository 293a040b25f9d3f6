// Every row keeps its own tokens, so that the cache can be thrown away at any time and made anew from them:
// when the context slides, and at every step where a formula cannot decode.
#include "saccade/generate/decoder.h"

#include <algorithm>
#include <functional>

#include "saccade/base/error.h"

namespace saccade {

using at::Tensor;

std::string cache_obstacle(const Transformer& model) {
  for (int64_t layer = 0; layer < model->architecture().layers; ++layer) {
    const Decoding& decoding = model->formula(layer).plan().decoding;
    if (!decoding.possible)
      return fmt::format("the formula '{}' cannot decode with a cache: {}", model->formula(layer).name(),
                         decoding.reason);
  }
  return {};
}

bool padding_matters(const Formula& formula) {
  const Plan& plan = formula.plan();
  // A running sum begins at the first token, which may be padding.
  for (const VectorInfo& vector : plan.vectors)
    if (vector.used && reads(*vector.host, HostOp::cumsum)) return true;
  for (const TableInfo& table : plan.tables)
    if (table.host && reads(*table.host, HostOp::cumsum)) return true;

  std::vector<bool> visited(static_cast<size_t>(plan.graph.size()));
  const std::function<bool(NodeId)> looks = [&](NodeId id) -> bool {
    if (visited[static_cast<size_t>(id)]) return false;
    visited[static_cast<size_t>(id)] = true;
    const Node& node = plan.graph[id];
    const auto is_place = [&](NodeId argument) {  // i or j as it stands
      const Node& inner = plan.graph[argument];
      return inner.op == Op::variable && (inner.symbol == static_cast<int32_t>(Variable::i) ||
                                          inner.symbol == static_cast<int32_t>(Variable::j));
    };
    if (node.op == Op::variable) return is_place(id) || node.symbol == static_cast<int32_t>(Variable::n);
    std::vector<Dimension> dimensions;
    if (node.op == Op::read) dimensions = plan.tables[static_cast<size_t>(node.symbol)].subscripted();
    for (size_t index = 0; index < node.args.size(); ++index) {
      const NodeId argument = node.args[index];
      // F[j] is what belongs to the token, wherever it stands.
      const bool of_token = index < dimensions.size() && runs_along_tokens(dimensions[index].kind);
      if (argument == kNoNode || (of_token && is_place(argument))) continue;
      if (looks(argument)) return true;
    }
    return false;
  };
  return std::ranges::any_of(plan.outputs(), looks);
}

bool padding_matters(const Transformer& model) {
  for (int64_t layer = 0; layer < model->architecture().layers; ++layer)
    if (padding_matters(model->formula(layer))) return true;
  return false;
}

void check_length(const Architecture& architecture, int64_t prompt_tokens, int64_t new_tokens,
                  Overflow overflow) {
  const int64_t context = architecture.context;
  if (overflow == Overflow::slide || prompt_tokens + new_tokens <= context) return;
  require(overflow == Overflow::extend,
          "generate: {} tokens of the prompt and {} new ones exceed the model's context of {}; shorten one "
          "of them, "
          "or let the oldest tokens go with the overflow policy 'slide'",
          prompt_tokens, new_tokens, context);
  require(
      !architecture.learned_positions,
      "generate: {} tokens of the prompt and {} new ones cannot extend the model's context of {}, where its "
      "learned positions end; expected the overflow policy 'slide'",
      prompt_tokens, new_tokens, context);
}

Decoder::Decoder(Transformer model, std::vector<std::vector<int64_t>> prompts, Overflow overflow)
    : model_(std::move(model)), overflow_(overflow) {
  require(!prompts.empty(), "generate: there is no prompt");
  for (std::vector<int64_t>& prompt : prompts) {
    require(!prompt.empty(), "generate: a prompt has no tokens");
    require(prompt.size() == prompts.front().size() || !padding_matters(model_),
            "generate: prompts of {} and {} tokens in one batch; a formula of the model looks at positions, "
            "and needs "
            "prompts of one length",
            prompts.front().size(), prompt.size());
  }
  for (std::vector<int64_t>& prompt : prompts) {
    rows_.push_back({std::move(prompt)});
    Row& row = rows_.back();
    if (overflow_ == Overflow::slide && row.length() > model_->architecture().context)
      row.first = row.ids.size() - static_cast<size_t>(model_->architecture().context);
  }
  if (cache_obstacle(model_).empty()) cache_ = model_->make_cache();
}

void Decoder::forget(Row& row) const {
  const int64_t context = model_->architecture().context;
  if (overflow_ == Overflow::slide && row.length() > context)
    row.first = row.ids.size() - static_cast<size_t>(std::max<int64_t>(1, context / 2));
}

Tensor Decoder::start() {
  torch::NoGradGuard no_gradient;
  return compute_all();
}

Tensor Decoder::compute_all() {
  int64_t longest = 0;
  for (const Row& row : rows_) longest = std::max(longest, row.length());
  const auto count = static_cast<int64_t>(rows_.size());
  const Tensor ids = torch::zeros({count, longest}, torch::kLong);
  const Tensor real = torch::ones({count, longest}, torch::kBool);
  bool padded = false;
  for (int64_t index = 0; index < count; ++index) {
    const Row& row = rows_[static_cast<size_t>(index)];
    const int64_t padding = longest - row.length();
    std::copy(row.ids.begin() + static_cast<std::ptrdiff_t>(row.first), row.ids.end(),
              ids.data_ptr<int64_t>() + index * longest + padding);
    if (padding > 0) real[index].narrow(0, 0, padding).fill_(false);
    padded = padded || padding > 0;
  }
  if (cache_) cache_->reset();
  const Tensor hidden = model_->forward({.ids = ids,
                                         .key_mask = padded ? real : Tensor(),
                                         .cache = cache_ ? &*cache_ : nullptr,
                                         .last_only = true});
  return model_->logits(hidden.select(1, 0).contiguous());
}

void Decoder::choose_rows(const Tensor& rows) {
  const auto* from = rows.data_ptr<int64_t>();
  bool same = rows.numel() == static_cast<int64_t>(rows_.size());
  for (int64_t index = 0; same && index < rows.numel(); ++index) same = from[index] == index;
  if (same) return;
  std::vector<Row> chosen;
  for (int64_t index = 0; index < rows.numel(); ++index) {
    require(from[index] >= 0 && from[index] < static_cast<int64_t>(rows_.size()),
            "generate: row {} cannot go on; there are {}", from[index], rows_.size());
    chosen.push_back(rows_[static_cast<size_t>(from[index])]);
  }
  rows_ = std::move(chosen);
  if (cache_) cache_->reorder(rows);
}

Tensor Decoder::step(const Tensor& ids, const Tensor& rows) {
  torch::NoGradGuard no_gradient;
  const Tensor tokens = ids.to(torch::kLong).contiguous();
  if (rows.defined()) choose_rows(rows.to(torch::kLong).contiguous());
  require(tokens.dim() == 1 && tokens.numel() == static_cast<int64_t>(rows_.size()),
          "generate: {} tokens for {} rows", tokens.numel(), rows_.size());
  bool anew = !cache_;
  for (size_t index = 0; index < rows_.size(); ++index) {
    Row& row = rows_[index];
    const size_t first = row.first;
    row.ids.push_back(tokens.data_ptr<int64_t>()[index]);
    forget(row);
    anew = anew || row.first != first;
  }
  // The longest row may have ended: padding alone must not fill the context.
  const Architecture& architecture = model_->architecture();
  anew = anew || (architecture.learned_positions && cache_->length() + 1 > architecture.context);
  if (anew) return compute_all();
  const Tensor hidden = model_->forward({.ids = tokens.unsqueeze(1), .cache = &*cache_});
  return model_->logits(hidden.select(1, 0).contiguous());
}

}  // namespace saccade
