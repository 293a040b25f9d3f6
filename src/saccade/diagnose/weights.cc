// One sequence at a time, all its heads at once: the map is copied to double precision, and a batch of such
// copies would be large.
#include "saccade/diagnose/weights.h"

#include <torch/types.h>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"

namespace saccade {

using at::Tensor;

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Sums over rows and sequences, [heads] each.
struct Sums {
  explicit Sums(int64_t heads, int64_t bins) {
    for (Tensor* sum : {&rows, &finite, &empty, &entropy, &share, &sharable, &peak, &distance, &first, &mass,
                        &negative_mass, &row_sum, &pairs, &zeros})
      *sum = torch::zeros({heads}, torch::kDouble);
    lowest = torch::full({heads}, std::numeric_limits<double>::infinity(), torch::kDouble);
    highest = -lowest;
    positive = torch::zeros({heads, bins}, torch::kLong);
    negative = torch::zeros({heads, bins}, torch::kLong);
  }

  Tensor rows, finite, empty, entropy, share, sharable, peak, distance, first, mass, negative_mass, row_sum,
      pairs, zeros, lowest, highest, positive, negative;
};

// How many of the chosen weights fall into each bin, [heads, 2, bins]: positive ones, then negative ones.
Tensor counts_of(const Tensor& map, const Tensor& size, const Tensor& chosen, const Tensor& edges) {
  const int64_t heads = map.size(0), bins = edges.size(0) + 1;
  const Tensor head = torch::arange(heads).view({heads, 1, 1});
  const Tensor places = at::bucketize(size, edges, false, true) + (map < 0) * bins + head * (2 * bins);
  return at::bincount(places.masked_select(chosen), {}, heads * 2 * bins).view({heads, 2, bins});
}

// `map` is [heads, rows, keys] in double, of the queries from `first_row` on.
void add(Sums& sums, const Tensor& map, int64_t first_row, bool causal, const Tensor& edges) {
  const int64_t rows = map.size(1), keys = map.size(2);
  const Tensor i = torch::arange(first_row, first_row + rows, torch::kDouble).unsqueeze(1);
  const Tensor j = torch::arange(keys, torch::kDouble).unsqueeze(0);
  const Tensor available = causal ? (i + 1).squeeze(1) : torch::full({rows}, keys, torch::kDouble);
  const Tensor size = map.abs(), mass = size.sum(-1);  // [heads, rows]
  const Tensor finite = mass.isfinite(), full = finite & (mass > 0);
  const auto total = [](const Tensor& values, const Tensor& of) {
    return torch::where(of, values, torch::zeros_like(values)).sum(-1);
  };
  const Tensor shares = size / mass.unsqueeze(-1);
  const Tensor entropy = at::special_entr(shares).sum(-1), sum = map.sum(-1);
  const Tensor sharable = full & (available > 1);
  sums.rows += full.sum(-1);
  sums.finite += finite.sum(-1);
  sums.empty += (mass == 0).sum(-1);
  sums.entropy += total(entropy, full);
  sums.share += total(entropy / available.log(), sharable);
  sums.sharable += sharable.sum(-1);
  sums.peak += total(shares.amax(-1), full);
  sums.distance += total((shares * (i - j).abs()).sum(-1), full);
  sums.first += total(shares.select(-1, 0), full);
  sums.mass += total(mass, finite);
  sums.negative_mass += total(map.clamp_max(0).abs().sum(-1), finite);
  sums.row_sum += total(sum, finite);
  const Tensor infinite = torch::full_like(sum, std::numeric_limits<double>::infinity());
  sums.lowest = at::minimum(sums.lowest, torch::where(finite, sum, infinite).amin(-1));
  sums.highest = at::maximum(sums.highest, torch::where(finite, sum, -infinite).amax(-1));
  const Tensor reachable = (j < available.unsqueeze(1)).unsqueeze(0) & finite.unsqueeze(-1);
  sums.pairs += reachable.sum({1, 2});
  const Tensor counts = counts_of(map, size, reachable & (size > 0), edges);
  sums.zeros += reachable.sum({1, 2}) - counts.sum({1, 2});
  sums.positive += counts.select(1, 0);
  sums.negative += counts.select(1, 1);
}

std::vector<int64_t> list_of(const Tensor& counts) {
  return {counts.data_ptr<int64_t>(), counts.data_ptr<int64_t>() + counts.numel()};
}

HeadWeights head_of(const Sums& sums, int64_t head) {
  const auto at = [&](const Tensor& of) { return of[head].item<double>(); };
  const auto ratio = [&](const Tensor& above, const Tensor& below) {
    return at(below) > 0 ? at(above) / at(below) : kNone;
  };
  const bool any = at(sums.finite) > 0;
  return {.entropy = ratio(sums.entropy, sums.rows),
          .entropy_share = ratio(sums.share, sums.sharable),
          .peak = ratio(sums.peak, sums.rows),
          .distance = ratio(sums.distance, sums.rows),
          .first_token = ratio(sums.first, sums.rows),
          .negative_mass = ratio(sums.negative_mass, sums.mass),
          .row_sum = ratio(sums.row_sum, sums.finite),
          .lowest_row_sum = any ? at(sums.lowest) : kNone,
          .highest_row_sum = any ? at(sums.highest) : kNone,
          .empty_rows = ratio(sums.empty, sums.finite),
          .zeros = ratio(sums.zeros, sums.pairs),
          .positive = list_of(sums.positive[head].contiguous()),
          .negative = list_of(sums.negative[head].contiguous())};
}

}  // namespace

std::vector<double> histogram_edges() {
  std::vector<double> edges;
  for (int half = -12; half < 0; ++half) edges.push_back(std::pow(10.0, half / 2.0));
  // A weight of 1 belongs below the last edge, with what rounding adds to it.
  edges.push_back(1 + 1e-6);
  return edges;
}

WeightMeasures measure_weights(const Tensor& weights, int64_t fewest_keys) {
  require(weights.defined() && weights.dim() == 4 && weights.size(2) == weights.size(3),
          "diagnose: the weights have shape {}; expected [batch, heads, tokens, tokens]",
          shape_text(weights));
  require(fewest_keys >= 1, "diagnose: rows of at least {} keys; expected at least 1", fewest_keys);
  const torch::NoGradGuard no_gradient;
  const int64_t heads = weights.size(1), tokens = weights.size(2);
  const int64_t first_row = std::min(fewest_keys - 1, tokens);
  const Tensor edges = torch::tensor(histogram_edges(), torch::kDouble);
  Sums sums(heads, edges.size(0) + 1);
  WeightMeasures result{.rows = weights.size(0) * (tokens - first_row), .causal = true};
  for (int64_t sequence = 0; sequence < weights.size(0); ++sequence)
    result.causal &= !weights[sequence].triu(1).any().item<bool>();
  if (result.rows > 0)
    for (int64_t sequence = 0; sequence < weights.size(0); ++sequence)
      add(sums, weights[sequence].detach().narrow(1, first_row, tokens - first_row).to(torch::kDouble),
          first_row, result.causal, edges);
  for (int64_t head = 0; head < heads; ++head) result.heads.push_back(head_of(sums, head));
  return result;
}

}  // namespace saccade
