// Products make the few numbers, the kernels do the rest. In decoding the numbers of all keys lie ready in
// the cache.
#include "saccade/sparse/low_rank.h"

#include <algorithm>
#include <cmath>

#include "saccade/attention/raw_call.h"
#include "saccade/attention/shapes.h"
#include "saccade/attention/steady_product.h"
#include "saccade/base/error.h"
#include "saccade/kernels/far_weights.h"
#include "saccade/sparse/lists.h"

namespace saccade {

using at::Tensor;

namespace {

constexpr const char* kTrack = "selector";

double scale_of(const Tensor& query) { return 1 / std::sqrt(static_cast<double>(query.size(3))); }

kernels::Shape shape_of(const PairInputs& inputs) {
  const Tensor &query = inputs.queries[0], &key = inputs.keys[0];
  return {.batch = query.size(0),
          .heads = query.size(1),
          .key_heads = key.size(1),
          .queries = query.size(2),
          .keys = key.size(2),
          .offset = inputs.offset,
          .first_key = inputs.first_key};
}

// Up to so many tokens are multiplied as they come; for more, products pay that are called and laid out.
constexpr int64_t kFewTokens = 4;

bool few(const Tensor& vectors) { return vectors.size(0) * vectors.size(2) <= kFewTokens; }

static_assert(KvCache::kWholeTokens % kernels::kKeyBlock == 0, "keys are read in the cache block by block");

// out[batch, head, token] = (map v, bias . v + constant) of each head's vectors v, which heads may share.
// Nothing is laid out first: with a single token that would take longer than the work.
Tensor numbers_of_few(const Tensor& vectors, const Tensor& map, const Tensor& bias, const Tensor& constant,
                      double scale) {
  const int64_t batch = vectors.size(0), shared = vectors.size(1), tokens = vectors.size(2),
                depth = vectors.size(3), heads = map.size(0), rank = map.size(2);
  Tensor result = torch::empty({batch, heads, tokens, rank + 1});
  const Tensor rows = vectors.to(torch::kFloat).contiguous(), maps = map.contiguous(),
               biases = bias.contiguous(), added = constant.defined() ? constant.contiguous() : constant;
  const float* constants = constant.defined() ? added.const_data_ptr<float>() : nullptr;
  const auto* row = rows.const_data_ptr<float>();
  auto* out = result.data_ptr<float>();
  for (int64_t index = 0; index < batch * heads * tokens; ++index, out += rank + 1) {
    const int64_t token = index % tokens, head = index / tokens % heads, sequence = index / tokens / heads;
    const float* vector = row + ((sequence * shared + head * shared / heads) * tokens + token) * depth;
    const float* weights = maps.const_data_ptr<float>() + head * depth * rank;
    const float* of_bias = biases.const_data_ptr<float>() + head * depth;
    float last = constants ? constants[head] : 0;
    for (int64_t k = 0; k < depth; ++k) last += vector[k] * static_cast<float>(scale) * of_bias[k];
    out[rank] = last;
    // A few at a time, so that sums stay in registers.
    constexpr int64_t kTogether = 8;
    for (int64_t first = 0; first < rank; first += kTogether) {
      const int64_t count = std::min(kTogether, rank - first);
      float sums[kTogether] = {};
      for (int64_t k = 0; k < depth; ++k) {
        const float number = vector[k] * static_cast<float>(scale);
        const float* row_of_map = weights + k * rank + first;
        if (count == kTogether)  // a number that the compiler knows
          for (int64_t r = 0; r < kTogether; ++r) sums[r] += number * row_of_map[r];
        else
          for (int64_t r = 0; r < count; ++r) sums[r] += number * row_of_map[r];
      }
      std::copy_n(sums, count, out + first);
    }
  }
  return result;
}

}  // namespace

Tensor LowRankScorer::group_numbers(const Tensor& query) const {
  if (pool == 1 && few(query)) return numbers_of_few(query, query_map, query_bias, constant, scale_of(query));
  const int64_t groups = (query.size(2) + pool - 1) / pool;
  Tensor features =
      torch::empty({query.size(0), query.size(1), groups, LowRankScorer::features(pool, query.size(3))});
  const kernels::Shape shape{.batch = query.size(0), .heads = query.size(1), .queries = query.size(2)};
  kernels::pool_queries(shape, array_of(query), pool, scale_of(query), features.data_ptr<float>());
  Tensor numbers = torch::matmul(features, torch::cat({query_map, query_bias.unsqueeze(-1)}, -1));
  numbers.select(-1, rank()) += constant.view({-1, 1});
  return numbers;
}

// One product for all heads that share a key head. The results of a token stand side by side, where the
// product leaves them.
Tensor LowRankScorer::key_numbers(const Tensor& key) const {
  if (few(key)) return numbers_of_few(key, key_map, key_bias, Tensor(), 1);
  const int64_t batch = key.size(0), key_heads = key.size(1), tokens = key.size(2), width = rank() + 1,
                groups = heads() / key_heads;
  const Tensor maps = torch::cat({key_map, key_bias.unsqueeze(-1)}, -1)  // [heads, head_dim, rank + 1]
                          .view({key_heads, groups, key.size(3), width})
                          .transpose(1, 2)
                          .flatten(2);
  const Tensor vectors = key.to(torch::kFloat);
  const Tensor numbers = torch::empty({batch, tokens, heads(), width});
  for (int64_t sequence = 0; sequence < batch; ++sequence)
    for (int64_t head = 0; head < key_heads; ++head) {
      Tensor part = numbers[sequence].flatten(1).narrow(1, head * groups * width, groups * width);
      steady_product_into(part, vectors[sequence][head], maps[head], false);
    }
  return numbers.transpose(1, 2);
}

std::vector<std::pair<std::string, Tensor*>> LowRankScorer::named() {
  return {{"query_map", &query_map},  {"query_bias", &query_bias}, {"key_map", &key_map},
          {"key_bias", &key_bias},    {"constant", &constant},     {"log_factor", &log_factor},
          {"thresholds", &thresholds}};
}

void LowRankScorer::check(std::string_view where) const {
  require(pool >= 1 && samples >= 1 && pool % samples == 0,
          "{}: groups of {} queries with {} samples; expected samples that divide the group", where, pool,
          samples);
  require(key_map.dim() == 3, "{}: the key map has shape {}; expected [heads, head_dim, rank]", where,
          shape_text(key_map));
  const int64_t heads = key_map.size(0), width = key_map.size(1), rank = key_map.size(2);
  require(rank >= 1, "{}: keys have {} numbers; expected at least 1", where, rank);
  const auto expect = [&](const char* name, const Tensor& tensor, std::vector<int64_t> shape) {
    require(tensor.sizes() == shape && tensor.scalar_type() == torch::kFloat,
            "{}: {} has shape {} and dtype {}; expected {} of float", where, name, shape_text(tensor),
            c10::toString(tensor.scalar_type()), fmt::join(shape, " x "));
  };
  expect("query_map", query_map, {heads, features(pool, width), rank});
  expect("query_bias", query_bias, {heads, features(pool, width)});
  expect("key_bias", key_bias, {heads, width});
  expect("constant", constant, {heads});
  expect("log_factor", log_factor, {heads});
  require(thresholds.dim() == 2 && thresholds.size(0) == heads && thresholds.size(1) >= 1 &&
              thresholds.scalar_type() == torch::kFloat,
          "{}: thresholds of shape {}; expected [{}, ranges of positions] of float", where,
          shape_text(thresholds), heads);
}

LowRankSelector::LowRankSelector(SelectionOptions options, bool causal, LowRankScorer scorer,
                                 std::optional<LowRankScorer> single)
    : SparseSelector(options, causal), scorer_(std::move(scorer)), single_(std::move(single)) {
  scorer_.check("sparse");
  require(options.query_tile % scorer_.pool == 0,
          "sparse: tiles of {} queries are no whole number of groups of {}", options.query_tile,
          scorer_.pool);
  if (single_) {
    single_->check("sparse, single queries");
    require(single_->pool == 1, "sparse: single queries in groups of {}; expected 1", single_->pool);
  }
  require(scorer_.thresholds.size(1) == 1 || !single_ ||
              single_->thresholds.size(1) == scorer_.thresholds.size(1),
          "sparse: thresholds for {} ranges of positions, those of single queries for {}",
          scorer_.thresholds.size(1), single_ ? single_->thresholds.size(1) : 0);
}

std::vector<std::pair<std::string, Tensor>> LowRankSelector::tensors() const {
  std::vector<std::pair<std::string, Tensor>> result;
  auto* self = const_cast<LowRankSelector*>(this);
  for (const auto& [name, tensor] : self->scorer_.named()) result.emplace_back(name, *tensor);
  if (single_)
    for (const auto& [name, tensor] : self->single_->named()) result.emplace_back("single." + name, *tensor);
  return result;
}

std::vector<double> LowRankSelector::settings() const {
  // Thresholds of an estimate that is a share of the tile's weight, finely enough for each head to find its
  // own.
  std::vector<double> result{kernels::kKeepAll};
  for (double threshold = 0.0006; threshold < 0.3; threshold *= 1.7) result.push_back(threshold);
  result.push_back(kernels::kKeepNone);
  return result;
}

void LowRankSelector::set(int64_t head, int64_t range, double setting) {
  scorer_.thresholds[head][range] = setting;
}

void LowRankSelector::set_ranges(std::vector<int64_t> ranges) {
  require(!ranges.empty() && ranges[0] == 0 && std::ranges::is_sorted(ranges),
          "sparse: ranges of positions that begin at {}; expected rising numbers from 0",
          fmt::join(ranges, ", "));
  const auto count = std::ssize(ranges);
  for (LowRankScorer* part : {&scorer_, single_ ? &*single_ : nullptr})
    if (part && part->thresholds.size(1) != count)
      part->thresholds = part->thresholds.select(1, 0).unsqueeze(1).repeat({1, count});
  ranges_ = std::move(ranges);
}

int64_t LowRankSelector::cached_bytes(const KvCache& cache) const {
  return cache.has(kTrack) ? static_cast<int64_t>(cache.held(kTrack).nbytes()) : 0;
}

double LowRankSelector::operations(int64_t tokens) const {
  const auto n = static_cast<double>(tokens), heads = static_cast<double>(scorer_.heads());
  const auto width = static_cast<double>(scorer_.key_map.size(1)),
             rank = static_cast<double>(scorer_.rank() + 1);
  const auto pool = static_cast<double>(scorer_.pool), samples = static_cast<double>(scorer_.samples);
  const double pairs = causal() ? n * (n + 1) / 2 : n * n;
  const auto always = static_cast<double>(options().sinks + (causal() ? 1 : 2) * options().near) +
                      static_cast<double>(options().query_tile);
  const double features = static_cast<double>(LowRankScorer::features(scorer_.pool, scorer_.key_map.size(1)));
  return 2 * heads *
         (pairs / pool * rank + n * width * rank + n / pool * features * rank +
          n * samples / pool * std::min(always, n) * width);
}

std::optional<KeyLists> LowRankSelector::select(const PairInputs& inputs, KvCache* cache) {
  torch::NoGradGuard no_gradient;
  const Tensor query = inputs.queries[0].detach(), key = inputs.keys[0].detach();
  require(scorer_.heads() == query.size(1), "sparse: scores for {} heads, the model has {}", scorer_.heads(),
          query.size(1));
  require(scorer_.key_map.size(1) == key.size(3),
          "sparse: scores for vectors of {} numbers, the model's have {}", scorer_.key_map.size(1),
          key.size(3));
  for (const LowRankScorer* part : {&scorer_, single_ ? &*single_ : &scorer_})
    require(part->thresholds.size(1) == std::ssize(ranges_),
            "sparse: thresholds for {} ranges of positions, there are {}", part->thresholds.size(1),
            ranges_.size());
  Tensor remembered;
  if (cache && single_) {
    const int64_t fresh = query.size(2);
    remembered = cache->append(kTrack, single_->key_numbers(key.narrow(2, key.size(2) - fresh, fresh)),
                               KvCache::Order::features);
  }
  if (too_few(inputs, cache)) return std::nullopt;
  if (query.size(2) > 1 || !cache)
    return select_with(scorer_, options().query_tile, inputs, scorer_.key_numbers(key));
  if (!single_) return std::nullopt;
  return select_with(*single_, 1, inputs, remembered);
}

KeyLists LowRankSelector::select_with(const LowRankScorer& scorer, int64_t query_tile,
                                      const PairInputs& inputs, const Tensor& key_numbers) const {
  const Tensor query = inputs.queries[0].detach(), key = inputs.keys[0].detach();
  const Tensor groups = scorer.group_numbers(query).contiguous(), thresholds = scorer.thresholds.contiguous(),
               logarithms = scorer.log_factor.contiguous();
  std::vector<float> factors(static_cast<size_t>(scorer.heads()));
  for (size_t head = 0; head < factors.size(); ++head)
    factors[head] = std::exp(logarithms.const_data_ptr<float>()[head]);
  const Tensor real = inputs.key_mask.defined() ? inputs.key_mask.to(torch::kByte).contiguous() : Tensor();
  const kernels::SelectionTask task{.shape = shape_of(inputs),
                                    .query = array_of(query),
                                    .key = array_of(key),
                                    .scale = scale_of(query),
                                    .real = real.defined() ? real.const_data_ptr<uint8_t>() : nullptr,
                                    .causal = causal(),
                                    .query_tile = query_tile,
                                    .key_tile = options().key_tile,
                                    .pool = scorer.pool,
                                    .samples = scorer.samples,
                                    .sinks = options().sinks,
                                    .near = options().near,
                                    .rank = scorer.rank(),
                                    .groups = groups.const_data_ptr<float>(),
                                    .keys = array_of(key_numbers),
                                    .factors = factors.data(),
                                    .thresholds = thresholds.const_data_ptr<float>(),
                                    .ranges = ranges_,
                                    .length_power = length_power,
                                    .counts = counts.empty() ? nullptr : counts.data()};
  return lists_of(task, kernels::select_keys(task));
}

}  // namespace saccade
