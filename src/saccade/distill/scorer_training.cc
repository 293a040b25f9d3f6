// The gradient is written out: with y = F e / S, e = exp(a - near), S = 1 + sum e, and the loss y - t log y,
// the derivative in a is (y - t) - (e / S) * sum (y - t). It is checked against differences in the tests.
#include "saccade/distill/scorer_training.h"

#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/linalg_svd.h>

#include <cmath>
#include <map>

#include "saccade/base/error.h"
#include "saccade/base/random.h"
#include "saccade/distill/adam.h"

namespace saccade {

using at::Tensor;

namespace {

constexpr double kHighest = 60;      // as in the kernels
constexpr int64_t kFirstTokens = 8;  // whose keys are unlike all others
constexpr int64_t kRising = 10;      // steps

// C^power for symmetric matrices.
Tensor matrix_power(const Tensor& values, const Tensor& vectors, double power) {
  return torch::matmul(vectors * values.pow(power).unsqueeze(-2), vectors.transpose(-1, -2));
}

struct Statistics {
  Tensor mean, values, vectors;  // [heads, d], eigenvalues, eigenvectors of the covariance
};

Statistics statistics_of(const std::vector<Tensor>& parts) {
  const Tensor all = torch::cat(parts, 1).to(torch::kDouble);  // [heads, tokens, d]
  const Tensor mean = all.mean(1), centred = all - mean.unsqueeze(1);
  Tensor covariance = torch::matmul(centred.transpose(1, 2), centred) / static_cast<double>(all.size(1));
  const Tensor trace = covariance.diagonal(0, 1, 2).mean(-1);
  covariance = covariance + torch::eye(all.size(2), torch::kDouble) * (1e-6 * trace + 1e-12).view({-1, 1, 1});
  auto [values, vectors] = at::linalg_eigh(covariance);
  return {mean, values.clamp_min(1e-12), vectors};
}

// Everything of one step's lesson that the loss and the gradient need.
struct Estimate {
  Tensor key, query_numbers, key_numbers;  // [heads, n, d], [heads, groups, rank], [heads, n, rank]
  Tensor share;                            // e / S
  Tensor factor;                           // [heads, 1, 1]
};

Estimate estimate(const LowRankScorer& scorer, const Lesson& lesson) {
  const int64_t group = scorer.heads() / lesson.key.size(0);
  Estimate result{.key = group == 1 ? lesson.key : lesson.key.repeat_interleave(group, 0)};
  result.query_numbers = torch::bmm(lesson.features, scorer.query_map);
  result.key_numbers = torch::bmm(result.key, scorer.key_map);
  Tensor scores = torch::bmm(result.query_numbers, result.key_numbers.transpose(1, 2));
  const Tensor by_group = torch::matmul(lesson.features, scorer.query_bias.unsqueeze(-1)) +
                          scorer.constant.view({-1, 1, 1}) - lesson.near.unsqueeze(-1);
  scores.add_(by_group).add_(torch::matmul(result.key, scorer.key_bias.unsqueeze(-1)).transpose(1, 2));
  scores.clamp_max_(kHighest).exp_().mul_(lesson.far);
  result.share = scores.div_(scores.sum(-1, true) + 1);
  result.factor = scorer.log_factor.exp().view({-1, 1, 1});
  return result;
}

// Some groups of a lesson.
Lesson part_of(const Lesson& lesson, int64_t groups, RandomStream& random) {
  const int64_t all = lesson.near.size(1);
  if (all <= groups) return lesson;
  // Evenly spread from a random start, so that early and late tokens are all seen.
  const int64_t step = all / groups;
  const auto first = static_cast<int64_t>(random.below(static_cast<uint64_t>(step)));
  const auto pick = [&](const Tensor& tensor, int64_t dimension) {
    return tensor.slice(dimension, first, first + step * groups, step).contiguous();
  };
  return {pick(lesson.features, 1), lesson.key, pick(lesson.target, 1), pick(lesson.near, 1),
          pick(lesson.far, 0)};
}

double loss_of(const Estimate& estimate, const Lesson& lesson) {
  const Tensor guess = estimate.share * estimate.factor, target = lesson.target;
  const Tensor error = guess - target - target * (guess.clamp_min(1e-20) / target.clamp_min(1e-20)).log();
  return (error * lesson.far).sum().item<double>() / static_cast<double>(lesson.near.numel());
}

using Gradients = std::map<std::string, Tensor>;

void add_gradients(const Lesson& lesson, const Estimate& at, double weight, Gradients& sums) {
  const Tensor error = at.share * at.factor - lesson.target;  // [heads, groups, n]; near keys are 0 in both
  const Tensor total = error.sum(-1, true);
  const double norm = weight / static_cast<double>(lesson.near.size(1));
  const Tensor slope = torch::addcmul(error, at.share, total, -1).mul_(norm);
  const Tensor by_group = slope.sum(-1, true);               // [heads, groups, 1]
  const Tensor by_key = slope.sum(1, true).transpose(1, 2);  // [heads, n, 1]
  const Tensor features = lesson.features.transpose(1, 2), key = at.key.transpose(1, 2);
  const auto add = [&](const char* name, const Tensor& gradient) {
    Tensor& sum = sums[name];
    sum = sum.defined() ? sum + gradient : gradient;
  };
  add("query_map", torch::bmm(features, torch::bmm(slope, at.key_numbers)));
  add("key_map", torch::bmm(key, torch::bmm(slope.transpose(1, 2), at.query_numbers)));
  add("query_bias", torch::bmm(features, by_group).squeeze(-1));
  add("key_bias", torch::bmm(key, by_key).squeeze(-1));
  add("constant", by_group.sum(c10::IntArrayRef{1, 2}));
  add("log_factor", total.sum(c10::IntArrayRef{1, 2}) * norm);
}

}  // namespace

LowRankScorer starting_scorer(std::span<const PairInputs> texts, int64_t rank, int64_t pool,
                              int64_t samples) {
  torch::NoGradGuard no_gradient;
  require(!texts.empty(), "distill: no texts to start from");
  const Tensor& some_query = texts[0].queries[0];
  const int64_t heads = some_query.size(1), width = some_query.size(3), key_heads = texts[0].keys[0].size(1);
  require(rank >= 1 && rank <= width, "distill: a rank of {}; expected 1 to the head's width of {}", rank,
          width);
  std::vector<Tensor> query_parts, key_parts;
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  for (const PairInputs& text : texts) {
    const int64_t skipped = std::min(kFirstTokens, text.queries[0].size(2) - 1);
    query_parts.push_back(text.queries[0][0].slice(1, skipped).to(torch::kFloat) * scale);
    key_parts.push_back(text.keys[0][0].slice(1, skipped).to(torch::kFloat));
  }
  const Statistics query = statistics_of(query_parts), key = statistics_of(key_parts);
  const auto by_head = [&](const Tensor& tensor) { return tensor.repeat_interleave(heads / key_heads, 0); };
  const Tensor key_root = by_head(matrix_power(key.values, key.vectors, 0.5)),
               key_inverse = by_head(matrix_power(key.values, key.vectors, -0.5)),
               key_mean = by_head(key.mean);
  const auto [left, sizes, right] =
      at::linalg_svd(torch::matmul(matrix_power(query.values, query.vectors, 0.5), key_root));
  const Tensor roots = sizes.narrow(1, 0, rank).sqrt().unsqueeze(1);
  const Tensor query_map =
      torch::matmul(matrix_power(query.values, query.vectors, -0.5), left.narrow(2, 0, rank)) * roots;
  const Tensor key_map = torch::matmul(key_inverse, right.transpose(1, 2).narrow(2, 0, rank)) * roots;
  // s = (q - mean q)(k - mean k) + q . mean k + mean q . (k - mean k), of which the first part has low rank.
  const Tensor product = torch::matmul(query_map, key_map.transpose(1, 2));
  const Tensor query_bias = key_mean - torch::matmul(product, key_mean.unsqueeze(-1)).squeeze(-1);
  const Tensor key_bias =
      query.mean - torch::matmul(product.transpose(1, 2), query.mean.unsqueeze(-1)).squeeze(-1);
  const Tensor constant =
      torch::matmul(torch::matmul(query.mean.unsqueeze(1), product), key_mean.unsqueeze(-1)).view({-1}) -
      (query.mean * key_mean).sum(-1);
  const int64_t features = LowRankScorer::features(pool, width);
  LowRankScorer scorer{.pool = pool, .samples = samples};
  scorer.query_map = torch::zeros({heads, features, rank});
  scorer.query_map.narrow(1, 0, width).copy_(query_map);  // the mean comes first
  scorer.query_bias = torch::zeros({heads, features});
  scorer.query_bias.narrow(1, 0, width).copy_(query_bias);
  scorer.key_map = key_map.to(torch::kFloat).contiguous();
  scorer.key_bias = key_bias.to(torch::kFloat).contiguous();
  scorer.constant = constant.to(torch::kFloat).contiguous();
  // A group's target is the root of a sum of squares: of alike queries, the root of their number times one's.
  scorer.log_factor = torch::full({heads}, 0.5 * std::log(static_cast<double>(pool)));
  scorer.thresholds = torch::full({heads, 1}, 0.01);
  return scorer;
}

double scorer_loss(const LowRankScorer& scorer, const Lesson& lesson) {
  torch::NoGradGuard no_gradient;
  return loss_of(estimate(scorer, lesson), lesson);
}

std::map<std::string, Tensor> scorer_gradients(const LowRankScorer& scorer, const Lesson& lesson) {
  torch::NoGradGuard no_gradient;
  Gradients gradients;
  add_gradients(lesson, estimate(scorer, lesson), 1, gradients);
  return gradients;
}

TrainedScorer train_scorer(LowRankScorer& scorer, std::span<const Lesson> lessons,
                           const ScorerTraining& options) {
  torch::NoGradGuard no_gradient;
  require(!lessons.empty(), "distill: no lessons to learn from");
  RandomStream random(options.seed, "scorer training");
  Adam adam;
  const int64_t width = scorer.key_map.size(1);
  for (const auto& [name, tensor] : scorer.named()) {
    // Of a pooled scorer, what is not the mean starts at 0 and learns as fast as the mean.
    const Tensor typical =
        name == "query_map" || name == "query_bias" ? tensor->narrow(1, 0, width) : *tensor;
    const bool logarithm = name == "constant" || name == "log_factor";
    adam.add(*tensor, logarithm ? 1 : std::max(typical.square().mean().sqrt().item<double>(), 1e-3));
  }
  TrainedScorer result;
  const int64_t tenth = std::max<int64_t>(1, options.steps / 10);
  for (int64_t step = 0; step < options.steps; ++step) {
    Gradients gradients;
    const bool early = step < tenth, late = step >= options.steps - tenth;
    for (int64_t index = 0; index < options.lessons_at_once; ++index) {
      const size_t chosen = random.below(lessons.size());
      const Lesson lesson = part_of(lessons[chosen], options.groups_at_once, random);
      const Estimate guess = estimate(scorer, lesson);
      if (early || late)
        (early ? result.first_loss : result.last_loss) +=
            loss_of(guess, lesson) / static_cast<double>(tenth * options.lessons_at_once);
      add_gradients(lesson, guess, 1.0 / static_cast<double>(options.lessons_at_once), gradients);
    }
    std::vector<Tensor> in_order;
    for (const auto& [name, tensor] : scorer.named()) in_order.push_back(gradients[name]);
    adam.step(in_order, rate_at(options.rate, step, options.steps, kRising));
  }
  return result;
}

}  // namespace saccade
