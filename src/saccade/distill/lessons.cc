// Plain softmax over s takes two products; every other formula asks the reference, some rows at a time.
#include "saccade/distill/lessons.h"

#include <cmath>

#include "saccade/attention/raw_call.h"
#include "saccade/attention/rows.h"
#include "saccade/base/error.h"
#include "saccade/kernels/key_selection.h"
#include "saccade/sparse/low_rank.h"

namespace saccade {

using at::Tensor;

namespace {

constexpr int64_t kRowsAtOnce = 256;

// Whether the weights are the softmax of s over all keys, or over those up to the query's own.
bool is_plain(const Formula& formula) {
  static const std::string causal = Formula::load("causal", {}).resolved(),
                           full = Formula::load("full", {}).resolved();
  const std::string text = formula.resolved();
  return text == causal || text == full;
}

RowWeights plain_weights(const PairInputs& inputs, bool causal, int64_t begin, int64_t end) {
  const Tensor key = inputs.keys[0][0].to(torch::kFloat);
  const int64_t n = key.size(1), seen = causal ? end : n;
  const double scale = 1 / std::sqrt(static_cast<double>(key.size(2)));
  const Tensor query = inputs.queries[0][0].narrow(1, begin, end - begin).to(torch::kFloat) * scale;
  const int64_t heads = query.size(0), group = heads / key.size(0);
  Tensor scores = torch::bmm(query.reshape({key.size(0), group * (end - begin), -1}),
                             key.narrow(1, 0, seen).transpose(1, 2))
                      .view({heads, end - begin, seen});
  if (causal) {
    const Tensor hidden = torch::ones({end - begin, end - begin}, torch::kBool).triu(1);
    scores.narrow(2, begin, end - begin).masked_fill_(hidden, -INFINITY);
  }
  const Tensor log_sums = scores.logsumexp(-1);
  return {scores.sub_(log_sums.unsqueeze(-1)).exp_(), log_sums};
}

}  // namespace

RowWeights weights_of_rows(const Formula& formula, const PairInputs& inputs, int64_t begin, int64_t end) {
  torch::NoGradGuard no_gradient;
  require(inputs.queries[0].size(0) == 1 && !inputs.key_mask.defined(),
          "distill: a batch of {} texts; expected one, without padding", inputs.queries[0].size(0));
  if (is_plain(formula)) return plain_weights(inputs, looks_back_only(formula), begin, end);
  PairInputs without_lists = inputs;
  without_lists.lists.reset();
  const PairInputs rows = rows_of(formula.plan(), without_lists, begin, end - begin);
  const AttentionResult result = reference_attention(formula.plan(), rows, true);
  return {result.weights[0].abs().to(torch::kFloat), result.log_sums.at(0)[0].to(torch::kFloat)};
}

Tensor always_kept_keys(const LessonOptions& options, int64_t begin, int64_t end, int64_t n) {
  const SelectionOptions& selection = options.selection;
  const Tensor rows = torch::arange(begin, end).unsqueeze(1), keys = torch::arange(n).unsqueeze(0);
  const Tensor first = rows.div(selection.query_tile, "floor") * selection.query_tile,
               last = first + (selection.query_tile - 1);
  return (keys < selection.sinks)
      .logical_or(
          (keys >= first - selection.near).logical_and(keys <= last + (options.causal ? 0 : selection.near)));
}

Tensor far_keys(const LessonOptions& options, const std::vector<int64_t>& groups, int64_t n) {
  std::vector<Tensor> rows;
  for (const int64_t group : groups) {
    const int64_t row = group * options.pool;
    Tensor far = always_kept_keys(options, row, row + 1, n).logical_not();
    if (options.causal) far = far.logical_and(torch::arange(n).unsqueeze(0) < row);
    rows.push_back(far);
  }
  return torch::cat(rows);
}

Lesson make_lesson(const Formula& formula, const PairInputs& inputs, const LessonOptions& options) {
  torch::NoGradGuard no_gradient;
  const Tensor query = inputs.queries[0].detach(), key = inputs.keys[0][0].detach();
  const int64_t heads = query.size(1), n = query.size(2), pool = options.pool;
  require(n % options.selection.query_tile == 0 && options.selection.query_tile % pool == 0,
          "distill: a text of {} tokens; expected a multiple of the query tile of {}", n,
          options.selection.query_tile);
  std::vector<int64_t> groups;
  for (int64_t group = options.first; group < n / pool; group += options.stride) groups.push_back(group);
  const auto count = std::ssize(groups);
  const Tensor index = torch::tensor(groups, torch::kLong);

  const kernels::Shape shape{.batch = 1, .heads = heads, .queries = n};
  const int64_t width = LowRankScorer::features(pool, query.size(3));
  Tensor features = torch::empty({heads, n / pool, width});
  kernels::pool_queries(shape, array_of(query), pool, 1 / std::sqrt(static_cast<double>(query.size(3))),
                        features.data_ptr<float>());
  Lesson lesson{.features = options.stride == 1 ? features : features.index_select(1, index),
                .key = key.to(torch::kFloat).contiguous(),
                .target = torch::zeros({heads, count, n}),
                .near = torch::zeros({heads, count}),
                .far = far_keys(options, groups, n)};
  // Which of a group's queries stand for it in `near`: as the kernels choose them.
  const int64_t step = pool / options.samples;
  for (int64_t first = 0; first < count;) {
    const int64_t begin = groups[static_cast<size_t>(first)] * pool;
    const int64_t end = std::min(n, begin + kRowsAtOnce);
    int64_t taken = 0;
    while (first + taken < count && (groups[static_cast<size_t>(first + taken)] + 1) * pool <= end) ++taken;
    const auto [weights, log_sums] = weights_of_rows(formula, inputs, begin, end);
    const int64_t seen = weights.size(2);
    const Tensor always = always_kept_keys(options, begin, end, n).narrow(1, 0, seen);
    const Tensor near = log_sums + (weights * always).sum(-1).clamp_min(1e-30).log();  // [heads, rows]
    const Tensor squares = weights.square();
    for (int64_t at = 0; at < taken; ++at) {
      const int64_t row = groups[static_cast<size_t>(first + at)] * pool - begin;
      lesson.target.select(1, first + at)
          .narrow(1, 0, seen)
          .copy_(squares.narrow(1, row, pool).sum(1).sqrt_());
      lesson.near.select(1, first + at).copy_(near.slice(1, row + step / 2, row + pool, step).mean(1));
    }
    first += taken;
  }
  lesson.target.mul_(lesson.far);
  return lesson;
}

}  // namespace saccade
