// A token's number is +infinity for the first tokens of a text, which are always kept, and -infinity where
// there is no token: padding, and slots of a cache that an eviction has left empty for a head. Both are set
// when a token is first seen, and stay in the cache with it.
#include "saccade/sparse/token_gate.h"

#include <algorithm>
#include <cmath>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"
#include "saccade/sparse/lists.h"

namespace saccade {

using at::Tensor;

namespace {

constexpr const char* kGateTrack = "gate";
constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr double kAlways = std::numeric_limits<double>::infinity();
constexpr double kLargest = 80;          // logarithms are cut here, so that no estimate is taken for these
constexpr int64_t kTokensAtOnce = 2048;  // whose features are held at a time

// An eviction copies what stays: it must free enough to be worth it.
constexpr int64_t kFewest = 64, kShare = 8;

// Where a group's heads lie side by side, one product serves them all: [key heads, features, group * width].
Tensor joined(const Tensor& map, int64_t key_heads) {
  return map.view({key_heads, -1, map.size(1), map.size(2)}).transpose(1, 2).flatten(2);
}

// [batch, heads, tokens] of bool: what each head keeps however old it is.
Tensor passes(const Tensor& numbers, const Tensor& thresholds) {
  return numbers.ge(thresholds.log().view({1, -1, 1})).logical_and_(numbers.gt(kNothing));
}

}  // namespace

Tensor TokenGate::features_of(const Tensor& key, const Tensor& value) {
  const Tensor both = torch::cat({key.to(torch::kFloat), value.to(torch::kFloat)}, -1);
  return torch::cat({both, both.square()}, -1);
}

Tensor TokenGate::estimate(const Tensor& key, const Tensor& value) const {
  const int64_t batch = key.size(0), key_heads = key.size(1), tokens = key.size(2),
                group = heads() / key_heads;
  const Tensor first = joined(input_map, key_heads), last = joined(direct.unsqueeze(-1), key_heads);
  const Tensor bias = input_bias.view({key_heads, 1, -1}),
               weights = output_map.view({key_heads, 1, group, -1});
  std::vector<Tensor> parts;
  for (int64_t begin = 0; begin < tokens; begin += kTokensAtOnce) {
    const int64_t count = std::min(kTokensAtOnce, tokens - begin);
    const Tensor features = features_of(key.narrow(2, begin, count), value.narrow(2, begin, count));
    const Tensor inner = at::silu(torch::matmul(features, first) + bias);
    const Tensor outer = (inner.view({batch, key_heads, count, group, -1}) * weights).sum(-1);
    parts.push_back((outer + torch::matmul(features, last)).transpose(2, 3).flatten(1, 2));
  }
  if (parts.empty()) return torch::empty({batch, heads(), 0});
  return (torch::cat(parts, 2) + constant.view({-1, 1})).nan_to_num(-kLargest).clamp(-kLargest, kLargest);
}

std::vector<std::pair<std::string, Tensor*>> TokenGate::named() {
  return {{"input_map", &input_map}, {"input_bias", &input_bias}, {"output_map", &output_map},
          {"direct", &direct},       {"constant", &constant},     {"thresholds", &thresholds}};
}

void TokenGate::check(std::string_view where) const {
  require(input_map.dim() == 3 && input_map.numel() > 0,
          "{}: the gate's input map has shape {}; expected [heads, features, hidden]", where,
          shape_text(input_map));
  const int64_t heads = input_map.size(0), features = input_map.size(1), hidden = input_map.size(2);
  const auto expect = [&](const char* name, const Tensor& tensor, std::vector<int64_t> shape) {
    require(tensor.sizes() == shape && tensor.scalar_type() == torch::kFloat,
            "{}: {} has shape {} and dtype {}; expected {} of float", where, name, shape_text(tensor),
            c10::toString(tensor.scalar_type()), fmt::join(shape, " x "));
  };
  expect("input_map", input_map, {heads, features, hidden});
  expect("input_bias", input_bias, {heads, hidden});
  expect("output_map", output_map, {heads, hidden});
  expect("direct", direct, {heads, features});
  expect("constant", constant, {heads});
  expect("thresholds", thresholds, {heads});
  require(thresholds.ge(0).all().item<bool>(), "{}: thresholds below 0; expected weights", where);
}

std::string eviction_obstacle(const Formula& formula) {
  const Plan& plan = formula.plan();
  const Graph& graph = plan.graph;
  if (!plan.decoding.possible) return fmt::format("it cannot decode with a cache: {}", plan.decoding.reason);
  for (const TableInfo& table : plan.tables)
    if (std::ranges::any_of(table.dimensions, runs_along_tokens, &Dimension::kind))
      return fmt::format("it reads '{}' by token", table.name);
  if (plan.keeps_running_sums()) return "it sums along the tokens";
  const auto is_variable = [&](NodeId id, Variable variable) {
    return graph[id].op == Op::variable && graph[id].symbol == static_cast<int32_t>(variable);
  };
  const Node& mask = graph[plan.mask];
  if (mask.op != Op::greater_equal || !is_variable(mask.args[0], Variable::d) ||
      !graph.is_number(mask.args[1], 0))
    return fmt::format("its mask '{}' looks at positions", graph.print(plan.mask, {}));
  for (const NodeId root : plan.outputs())
    if (root != plan.mask)
      for (const NodeId id : graph.reachable({root}))
        for (const Variable variable : {Variable::j, Variable::d})
          if (is_variable(id, variable))
            return fmt::format("it reads {}, which the keys' positions change", name_of(variable));
  return "";
}

void require_evictable(const Formula& formula) {
  const std::string obstacle = eviction_obstacle(formula);
  require(obstacle.empty(), "sparse: a token gate cannot evict keys of the formula '{}': {}", formula.name(),
          obstacle);
}

TokenGateSelector::TokenGateSelector(SelectionOptions options, bool causal, TokenGate gate)
    : SparseSelector(options, causal), gate_(std::move(gate)) {
  require(causal, "sparse: a token gate for a formula that looks ahead; expected one that looks back only");
  require(options.key_tile == 1, "sparse: a token gate with tiles of {} keys; expected 1", options.key_tile);
  gate_.check("sparse");
}

std::vector<std::pair<std::string, Tensor>> TokenGateSelector::tensors() const {
  std::vector<std::pair<std::string, Tensor>> result;
  for (const auto& [name, tensor] : const_cast<TokenGateSelector*>(this)->gate_.named())
    result.emplace_back(name, *tensor);
  return result;
}

std::vector<double> TokenGateSelector::settings() const {
  // The largest of many weights is larger than one.
  std::vector<double> result{kernels::kKeepAll};
  for (double threshold = 0.0006; threshold < 2; threshold *= 1.7) result.push_back(threshold);
  result.push_back(kernels::kKeepNone);
  return result;
}

int64_t TokenGateSelector::cached_bytes(const KvCache& cache) const {
  return cache.has(kGateTrack) ? static_cast<int64_t>(cache.held(kGateTrack).nbytes()) : 0;
}

double TokenGateSelector::operations(int64_t tokens) const {
  const auto features = static_cast<double>(gate_.input_map.size(1)),
             hidden = static_cast<double>(gate_.hidden());
  return 2 * static_cast<double>(gate_.heads() * tokens) * (features * (hidden + 1) + hidden);
}

// The first position that is near a query. Tiles begin at the same positions in decoding as they do when a
// text is read at once, so that both keep the same keys.
int64_t TokenGateSelector::first_near(int64_t position) const {
  return std::max<int64_t>(0, position / options().query_tile * options().query_tile - options().near);
}

void TokenGateSelector::make_room(KvCache& cache, const Formula& formula) {
  const int64_t held = cache.length() - cache.first(), old = first_near(cache.length()) - cache.first();
  const int64_t least = std::max(kFewest, held / kShare);
  if (cache.length() < options().min_keys || old < least || !cache.has(kGateTrack)) return;
  torch::NoGradGuard no_gradient;
  const Tensor numbers = cache.held(kGateTrack).squeeze(-1);  // [batch, heads, held]
  const int64_t key_heads = cache.held("k").size(1);
  Tensor keep = passes(numbers, gate_.thresholds).view({numbers.size(0), key_heads, -1, held}).any(2);
  keep.narrow(2, old, held - old).fill_(true);
  if (held - keep.sum(-1).max().item<int64_t>() < least) return;
  require_evictable(formula);
  // Nothing that goes may ever be near again. Slots that have been moved stand later than their tokens did.
  const int64_t last = cache.first() + keep.logical_not().any(0).any(0).nonzero().max().item<int64_t>();
  const int64_t tile = options().query_tile;
  cache.evict(keep, kGateTrack, std::max(options().min_keys, (last + options().near + tile) / tile * tile));
}

// The numbers of all tokens that are held, the new ones among them.
Tensor TokenGateSelector::estimate(const PairInputs& inputs, KvCache* cache) const {
  const Tensor key = inputs.keys[0].detach(), value = inputs.value.detach();
  const int64_t all = key.size(2), fresh = cache ? inputs.queries[0].size(2) : all, batch = key.size(0);
  Tensor numbers = gate_.estimate(key.narrow(2, all - fresh, fresh), value.narrow(2, all - fresh, fresh));
  if (inputs.key_mask.defined())
    numbers.masked_fill_(inputs.key_mask.narrow(1, all - fresh, fresh).logical_not().unsqueeze(1), kNothing);
  // The first of a text are its first real tokens. One head has them all.
  Tensor before = torch::full({batch, 1}, std::min(inputs.first_key, options().sinks), torch::kLong);
  if (cache && cache->length() > 0)
    before = cache->held(kGateTrack).select(1, 0).squeeze(-1).eq(kAlways).sum(-1, true);
  const Tensor real = numbers.select(1, 0).gt(kNothing);
  const Tensor sinks = real.logical_and((real.cumsum(1) + before).le(options().sinks));
  numbers.masked_fill_(sinks.unsqueeze(1), kAlways);
  return cache ? cache->append(kGateTrack, numbers.unsqueeze(-1)).squeeze(-1) : numbers;
}

std::optional<KeyLists> TokenGateSelector::select(const PairInputs& inputs, KvCache* cache) {
  torch::NoGradGuard no_gradient;
  const Tensor& query = inputs.queries[0];
  const int64_t batch = query.size(0), heads = query.size(1), queries = query.size(2),
                keys = inputs.value.size(2);
  require(gate_.heads() == heads, "sparse: gates for {} heads, the model has {}", gate_.heads(), heads);
  const int64_t features = TokenGate::features(inputs.keys[0].size(3), inputs.value.size(3));
  require(gate_.input_map.size(1) == features, "sparse: gates of {} features, the model's tokens have {}",
          gate_.input_map.size(1), features);
  const Tensor numbers = estimate(inputs, cache).contiguous();
  const bool complete = !cache || cache->shortest() == 0;
  if (inputs.first_key + keys < options().min_keys && complete) return std::nullopt;
  // A few new queries have lists of their own: a tile would be mostly empty.
  const int64_t query_tile = std::max<int64_t>(1, std::min(options().query_tile, queries));
  const int64_t tiles = (queries + query_tile - 1) / query_tile;
  const Tensor passing = passes(numbers, gate_.thresholds).contiguous();
  std::vector<int32_t> starts, entries, old;
  for (int64_t row = 0; row < batch * heads; ++row) {
    const float* number = numbers.const_data_ptr<float>() + row * keys;
    const bool* passed = passing.const_data_ptr<bool>() + row * keys;
    old.clear();
    int64_t looked_at = 0;
    starts.push_back(static_cast<int32_t>(entries.size()));
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const auto slot = [&](int64_t position) {
        return std::clamp<int64_t>(position - inputs.first_key, 0, keys);
      };
      const int64_t first = inputs.offset + tile * query_tile,
                    end = slot(inputs.offset + std::min((tile + 1) * query_tile, queries)),
                    near = slot(first_near(first));
      for (; looked_at < near; ++looked_at)
        if (passed[looked_at]) old.push_back(static_cast<int32_t>(looked_at));
      entries.insert(entries.end(), old.begin(), old.end());
      for (int64_t key = near; key < end; ++key)
        if (number[key] > kNothing) entries.push_back(static_cast<int32_t>(key));
      starts.push_back(static_cast<int32_t>(entries.size()));
    }
  }
  return KeyLists{.query_tile = query_tile,
                  .key_tile = 1,
                  .starts = int_tensor(starts, {batch, heads, tiles + 1}),
                  .keys = int_tensor(entries, {std::ssize(entries)})};
}

}  // namespace saccade
