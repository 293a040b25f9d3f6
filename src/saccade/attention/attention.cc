// The flow of a call: check, compute what is per token, bring in the cache, run the pairs.
#include "saccade/attention/attention.h"

#include <algorithm>

#include "saccade/attention/fused.h"
#include "saccade/attention/shapes.h"
#include "saccade/attention/tuner.h"
#include "saccade/base/error.h"
#include "saccade/base/text.h"

namespace saccade {

using torch::Tensor;

namespace {

bool reads_table(const HostNode& node, int table) {
  if (node.op == HostOp::param && node.table == table) return true;
  return std::ranges::any_of(node.args, [&](const HostPtr& arg) { return reads_table(*arg, table); });
}

}  // namespace

AttentionImpl::AttentionImpl(Formula formula, AttentionOptions options)
    : formula_(std::move(formula)), options_(options) {
  check_options();
  create_parameters(nullptr);
  create_host_expressions(nullptr);
}

AttentionImpl::AttentionImpl(Formula formula, AttentionOptions options, const Learned& learned)
    : formula_(std::move(formula)), options_(options) {
  check_options();
  create_parameters(&learned);
  create_host_expressions(&learned);
  std::vector<std::string> names;
  for (const auto& item : named_parameters()) names.push_back(item.key());
  for (const auto& [name, tensor] : learned)
    require(std::ranges::find(names, name) != names.end(), "attention: the formula '{}' has no param '{}'{}",
            formula_.name(), name, did_you_mean(name, names));
}

void AttentionImpl::check_options() {
  if (options_.kv_heads == 0) options_.kv_heads = options_.heads;
  require(options_.heads > 0 && options_.kv_heads > 0,
          "attention: it has {} heads and {} key heads; expected at least 1", options_.heads,
          options_.kv_heads);
  require(options_.heads % options_.kv_heads == 0, "attention: {} heads are not a multiple of {} key heads",
          options_.heads, options_.kv_heads);
  require(options_.head_dim > 0, "attention: head_dim is {}; expected at least 1", options_.head_dim);
  require(options_.epsilon >= 0 && options_.epsilon < 1,
          "attention: epsilon is {}; expected 0 or more and less than 1", options_.epsilon);
}

AttentionImpl::AttentionImpl(Formula formula, const AttentionImpl& owner)
    : formula_(std::move(formula)), options_(owner.options_), hosts_(owner.hosts_) {
  const auto learned = owner.named_parameters(false);
  for (const TableInfo& table : formula_.plan().tables) {
    if (!table.learned()) continue;
    // Host expressions refer to params by their place in the plan.
    invariant(owner.formula_.plan().table_index(table.name) == formula_.plan().table_index(table.name),
              "attention: a formula that shares its params has others than their owner");
    register_parameter(table.name, learned[table.name], learned[table.name].requires_grad());
  }
  for (const auto& [name, host] : hosts_) register_module(name, host);
}

void AttentionImpl::create_parameters(const Learned* learned) {
  for (const TableInfo& table : formula_.plan().tables) {
    if (table.source != TableInfo::Source::param) continue;
    if (learned && learned->contains(table.name)) {
      // As it is: it may be the result of other tensors, which register_parameter would not leave alone.
      parameters_.insert(table.name, learned->at(table.name));
      continue;
    }
    std::vector<int64_t> shape;
    int64_t head_place = -1;
    for (const Dimension& dimension : table.dimensions) {
      if (dimension.kind == Dimension::Kind::head) {
        head_place = static_cast<int64_t>(shape.size());
        shape.push_back(options_.heads);
      } else if (dimension.kind == Dimension::Kind::fixed) {
        shape.push_back(dimension.size);
      }
    }
    Tensor start = torch::zeros(shape);
    for (int64_t head = 0; head < (head_place < 0 ? 1 : options_.heads); ++head) {
      const double value = formula_.plan().start_value(table, head, options_.heads);
      require(table.low <= value && value <= table.high,
              "attention: the start value {} of '{}' for head {} lies outside [{}, {}]", value, table.name,
              head, table.low, table.high);
      // It may differ between heads; it is the same along the other dimensions.
      (head_place < 0 ? start : start.select(head_place, head)).fill_(value);
    }
    register_parameter(table.name, start);
  }
}

void AttentionImpl::create_host_expressions(const Learned* learned) {
  const auto create = [&](const std::string& name, const HostPtr& host, int64_t heads) {
    hosts_.emplace(
        name, register_module(
                  name, HostExpression(name, host, HostShape{heads, options_.head_dim, options_.model_dim},
                                       learned)));
  };
  for (const VectorInfo& vector : formula_.plan().vectors) {
    if (!vector.used) continue;
    const int64_t heads = vector.for_keys ? options_.kv_heads : options_.heads;
    for (size_t index = 0; index < formula_.plan().tables.size(); ++index) {
      const TableInfo& table = formula_.plan().tables[index];
      const bool by_head =
          table.has(Dimension::Kind::head) && reads_table(*vector.host, static_cast<int>(index));
      require(!by_head || heads == options_.heads,
              "attention: '{}' is a key vector, of {} heads, but its param '{}' has {}", vector.name, heads,
              table.name, options_.heads);
    }
    create(vector.name, vector.host, heads);
  }
  for (const TableInfo& table : formula_.plan().tables)
    if (table.source == TableInfo::Source::token) create(table.name, table.host, options_.heads);
}

KvCache AttentionImpl::make_cache() const { return KvCache(formula_.plan().decoding.ring); }

void AttentionImpl::clamp_parameters() {
  torch::NoGradGuard no_gradient;
  for (const TableInfo& table : formula_.plan().tables)
    if (table.source == TableInfo::Source::param)
      named_parameters(false)[table.name].clamp_(table.low, table.high);
}

std::string_view name_of(Path path) {
  switch (path) {
    case Path::automatic:
      return "automatic";
    case Path::reference:
      return "reference";
    case Path::fused:
      return "fused";
  }
  return "";
}

PathChoice choose_path(const Formula&, Path wanted) {
  if (wanted == Path::reference)
    return {Path::reference, "asked for: plain tensor operations that hold the n x n map"};
  return {Path::fused, wanted == Path::fused
                           ? "asked for"
                           : "every formula runs on the fused kernels; calls that ask for the "
                             "weights or for dropout, or tensors not on the CPU, take the reference"};
}

Tensor AttentionImpl::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                              const AttentionCall& call) {
  return run(query, key, value, call).output;
}

Tensor AttentionImpl::forward(const Tensor& query, const Tensor& key, const Tensor& value, KvCache& cache,
                              const AttentionCall& call) {
  return run(query, key, value, call, &cache).output;
}

AttentionResult AttentionImpl::run(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionCall& call, KvCache* cache) {
  const PairInputs inputs = checked_pairs(query, key, value, call, cache);
  AttentionResult result = attend(inputs, call.need_weights);
  if (selector_) selector_->finished(inputs, result);
  return result;
}

PairInputs AttentionImpl::checked_pairs(const Tensor& query, const Tensor& key, const Tensor& value,
                                        const AttentionCall& call, KvCache* cache) {
  check_call(query, key, value, call, cache);
  return prepare(query, key, value, call, cache);
}

void AttentionImpl::check_call(const Tensor& query, const Tensor& key, const Tensor& value,
                               const AttentionCall& call, const KvCache* cache) const {
  check_query_key_value(query, key, value);
  require(query.size(1) == options_.heads, "attention: query has {} heads; expected {}", query.size(1),
          options_.heads);
  require(key.size(1) == options_.kv_heads, "attention: key has {} heads; expected {}", key.size(1),
          options_.kv_heads);
  require(query.size(3) == options_.head_dim, "attention: query has width {}; expected head_dim {}",
          query.size(3), options_.head_dim);
  require(call.offset >= 0, "attention: the offset is {}; expected 0 or more", call.offset);
  require(call.dropout >= 0 && call.dropout < 1,
          "attention: dropout is {}; expected 0 or more and less than 1", call.dropout);
  const Plan& plan = formula_.plan();
  require(
      0 <= call.first_key && call.first_key <= call.offset,
      "attention: the first key is at {}, the first query at {}; expected 0 or more, and no later than it",
      call.first_key, call.offset);
  require(call.first_key == 0 || !plan.keeps_running_sums(),
          "attention: the formula '{}' sums along the tokens, but those before position {} are gone",
          formula_.name(), call.first_key);
  std::vector<std::string> names;
  for (const TableInfo& table : plan.tables)
    if (table.source == TableInfo::Source::input) names.push_back(table.name);
  for (const std::string& name : names)
    require(call.inputs.contains(name) && call.inputs.at(name).defined(),
            "attention: the formula '{}' needs the input '{}'", formula_.name(), name);
  for (const auto& [name, tensor] : call.inputs)
    require(std::ranges::find(names, name) != names.end(), "attention: the formula '{}' has no input '{}'{}",
            formula_.name(), name, did_you_mean(name, names));
  require(!plan.needs_layer_input() || call.x.defined(),
          "attention: the formula '{}' is computed from the layer's input x, which this call does not give",
          formula_.name());
  for (const Tensor* x : {&call.x, &call.memory})
    require(!x->defined() || (x->dim() == 3 && x->size(0) == query.size(0)),
            "attention: the layer's input has shape {}; expected [{}, tokens, model_dim]", shape_text(*x),
            query.size(0));
  if (call.key_mask.defined()) {
    require(call.key_mask.dim() == 2 && call.key_mask.size(0) == key.size(0) &&
                call.key_mask.size(1) == key.size(2),
            "attention: the key mask has shape {}; expected [{}, {}]", shape_text(call.key_mask), key.size(0),
            key.size(2));
    require(call.key_mask.scalar_type() == torch::kBool,
            "attention: the key mask has dtype {}; expected bool, true for real keys",
            c10::toString(call.key_mask.scalar_type()));
  }
  if (!cache) return;
  require(plan.decoding.possible, "attention: the formula '{}' cannot decode with a cache: {}",
          formula_.name(), plan.decoding.reason);
  const int64_t kept = cache->ring().value_or(0), looked_at = plan.decoding.ring.value_or(0);
  require(kept == 0 || (looked_at > 0 && looked_at <= kept),
          "attention: the cache keeps {} keys; the formula '{}' looks at {}", kept, formula_.name(),
          looked_at > 0 ? fmt::format("the last {}", looked_at) : "all");
  require(cache->length() == 0 || cache->batch() == query.size(0),
          "attention: the cache holds {} sequences, the new tokens have {}", cache->batch(), query.size(0));
  require(query.size(2) == key.size(2),
          "attention: decoding got {} new queries and {} new keys; expected the same number", query.size(2),
          key.size(2));
  require(call.offset == 0,
          "attention: with a cache the position is the cache's; an offset of {} cannot be given too",
          call.offset);
  require(!call.memory.defined(), "attention: a cache cannot be used with another input for the keys");
}

namespace {

// Of a table of pairs, the part for the tokens that the cache still holds.
Tensor held_part(const TableInfo& table, Tensor result, const KvCache& cache) {
  const std::vector<Dimension> dimensions = table.subscripted();
  for (size_t index = 0; index < dimensions.size(); ++index)
    if (runs_along_tokens(dimensions[index].kind) && dimensions[index].kind != Dimension::Kind::query) {
      const auto place = static_cast<int64_t>(index) + 2;
      result = result.narrow(place, cache.first(), result.size(place) - cache.first());
    }
  return result;
}

// The new tokens' part of a table behind the part that the cache holds. Its tokens become the track's, its
// other subscripted dimensions the track's width.
Tensor remembered(const TableInfo& table, const Tensor& fresh, int64_t batch, KvCache& cache) {
  const std::vector<Dimension> dimensions = table.subscripted();
  const auto along = std::ranges::find_if(dimensions, runs_along_tokens, &Dimension::kind);
  const int64_t place = along - dimensions.begin() + 2;
  const Tensor moved = fresh.movedim(place, 2).unsqueeze(-1);
  std::vector<int64_t> shape = moved.sizes().vec();
  const Tensor flat = moved.flatten(3);
  const Tensor all = cache.append("table " + table.name, flat.expand({batch, -1, -1, -1}));
  shape[0] = batch;
  shape[2] = all.size(2);
  return all.reshape(shape).squeeze(-1).movedim(2, place);
}

}  // namespace

std::vector<Tensor> AttentionImpl::tables_of_call(const Tensor& query, const Tensor& key,
                                                  const AttentionCall& call, KvCache* cache) {
  const Plan& plan = formula_.plan();
  const auto dtype = compute_dtype(query);
  // Without a cache a token input covers queries and keys alike; with one it is given for the new tokens and
  // remembered.
  const int64_t tokens =
      cache ? key.size(2) : std::max(key.size(2), call.offset - call.first_key + query.size(2));
  const KnownSizes sizes{query.size(0), options_.heads, tokens, query.size(2), key.size(2)};
  // A table of pairs is not remembered: it covers all tokens, and of the queries the new ones.
  const int64_t all = cache ? cache->length() + key.size(2) : tokens;
  const KnownSizes all_sizes{query.size(0), options_.heads, all, query.size(2), all};
  std::vector<Tensor> tables(plan.tables.size());
  if (plan.tables.empty()) return tables;
  const auto parameters = named_parameters(false);
  for (size_t index = 0; index < plan.tables.size(); ++index) {
    const TableInfo& table = plan.tables[index];
    if (table.source == TableInfo::Source::param)
      tables[index] = canonical_table(table, parameters[table.name], sizes, dtype);
  }
  for (size_t index = 0; index < plan.tables.size(); ++index) {
    const TableInfo& table = plan.tables[index];
    Tensor& result = tables[index];
    if (table.source == TableInfo::Source::param) continue;
    if (table.source == TableInfo::Source::input) {
      const bool whole = cache && !table.rides_in_cache();
      result = canonical_table(table, call.inputs.at(table.name), whole ? all_sizes : sizes, dtype);
      if (whole) result = held_part(table, result, *cache);
    }
    if (table.source == TableInfo::Source::token) {
      // Token numbers are needed for queries and keys. When these come from two inputs, there is no one list
      // of tokens.
      require(!call.memory.defined(),
              "attention: '{}' is read for queries and keys alike, which have different inputs here",
              table.name);
      require(call.x.size(1) == tokens,
              "attention: the layer's input x has {} tokens; '{}' needs it for all {}", call.x.size(1),
              table.name, tokens);
      result = hosts_.at(table.name)->forward({call.x, query, tables, cache}).squeeze(-1).to(dtype);
    }
    if (cache && table.rides_in_cache()) result = remembered(table, result, query.size(0), *cache);
  }
  return tables;
}

// The layer's input for the tokens of a vector. x may cover the queries alone or the whole sequence; keys may
// have their own.
Tensor AttentionImpl::layer_input(const AttentionCall& call, const VectorInfo& vector, int64_t first,
                                  int64_t tokens) const {
  if (!reads(*vector.host, HostOp::project)) return {};
  const Tensor& x = vector.for_keys && call.memory.defined() ? call.memory : call.x;
  if (x.size(1) == tokens) return x;
  require(x.size(1) >= first + tokens,
          "attention: the layer's input x has {} tokens; '{}' needs those from {} to {}", x.size(1),
          vector.name, first, first + tokens - 1);
  return x.narrow(1, first, tokens);
}

PairInputs AttentionImpl::prepare(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const AttentionCall& call, KvCache* cache) {
  const Plan& plan = formula_.plan();
  PairInputs inputs;
  inputs.offset = cache ? cache->length() : call.offset;
  if (cache && selector_) selector_->make_room(*cache, formula_);
  if (cache) cache->make_room(key.size(2));
  inputs.first_key = cache ? cache->first() : call.first_key;
  inputs.dropout = call.dropout;
  inputs.lists = call.lists;
  inputs.epsilon = options_.epsilon;
  inputs.tables = tables_of_call(query, key, call, cache);

  const auto in_long = torch::TensorOptions().dtype(torch::kLong).device(query.device());
  const bool neighbours = plan.position_table() < 0;
  const int64_t first_query = inputs.offset, first_key = cache ? inputs.offset : call.first_key;
  // Made only when something is turned by them.
  Tensor query_positions, key_positions;
  if (!neighbours) {
    const Tensor positions = inputs.tables[static_cast<size_t>(plan.position_table())].squeeze(1).to(
        torch::kLong);  // [batch or 1, all tokens]
    query_positions = positions.narrow(1, inputs.offset - inputs.first_key, query.size(2));
    key_positions = cache ? query_positions : positions.narrow(1, 0, key.size(2));
  }
  const auto finish = [&](const Tensor& vectors, const Tensor& positions, int64_t first) {
    if (!options_.rotary) return vectors;
    if (neighbours) return rotate_from(vectors, first, *options_.rotary);
    return rotate(vectors, positions, *options_.rotary);
  };
  const auto remember = [&](const std::string& track, const Tensor& values) {
    return cache ? cache->append(track, values) : values;
  };

  // What is computed from padding is not used, but a NaN there would make the gradient NaN.
  const Tensor real_key = call.key_mask.defined()
                              ? key.masked_fill(call.key_mask.logical_not().unsqueeze(1).unsqueeze(-1), 0)
                              : key;

  inputs.queries.resize(plan.vectors.size() + 1);
  inputs.keys.resize(plan.vectors.size() + 1);
  inputs.queries[0] = finish(query, query_positions, first_query);
  inputs.keys[0] = remember("k", finish(key, key_positions, first_key));
  inputs.value = remember("v", value);
  for (size_t index = 0; index < plan.vectors.size(); ++index) {
    const VectorInfo& vector = plan.vectors[index];
    if (!vector.used) continue;
    const Tensor& heads = vector.for_keys ? real_key : query;
    // A running sum over the queries has begun before the first of them.
    const bool from_start =
        !cache && !vector.for_keys && inputs.offset > 0 && reads(*vector.host, HostOp::cumsum);
    require(!from_start || !reads(*vector.host, HostOp::query),
            "attention: '{}' sums q along the tokens; queries that start at position {} need a cache",
            vector.name, inputs.offset);
    const Tensor x =
        from_start
            ? layer_input(call, vector, 0, inputs.offset + query.size(2))
            : layer_input(call, vector, vector.for_keys ? 0 : call.offset - call.first_key, heads.size(2));
    Tensor computed =
        hosts_.at(vector.name)->forward({x, heads, inputs.tables, cache}).to(query.scalar_type());
    if (from_start) computed = computed.narrow(2, inputs.offset, query.size(2));
    if (vector.for_keys)
      inputs.keys[index + 1] = remember("vector " + vector.name, finish(computed, key_positions, first_key));
    else
      inputs.queries[index + 1] = finish(computed, query_positions, first_query);
  }
  if (call.key_mask.defined() || (cache && cache->has("mask"))) {
    const auto all_real = [&](int64_t tokens) {
      return torch::ones({key.size(0), tokens}, in_long.dtype(torch::kBool));
    };
    const Tensor mask = call.key_mask.defined() ? call.key_mask : all_real(key.size(2));
    if (cache && !cache->has("mask"))
      cache->begin("mask", all_real(inputs.offset - inputs.first_key).unsqueeze(1).unsqueeze(-1));
    inputs.key_mask = remember("mask", mask.unsqueeze(1).unsqueeze(-1)).squeeze(1).squeeze(-1);
  }
  if (selector_) selector_->adjust(inputs);
  if (selector_ && !inputs.lists) inputs.lists = selector_->select(inputs, cache);
  if (cache) cache->advance(key.size(2));
  return inputs;
}

AttentionResult AttentionImpl::attend(const PairInputs& inputs, bool need_weights) {
  if (options_.path == Path::reference) return reference_attention(formula_.plan(), inputs, need_weights);
  const std::string obstacle = fused_obstacle(inputs, need_weights);
  require(options_.path != Path::fused || obstacle.empty(), "attention: the fused path was asked for, but {}",
          obstacle);
  if (!obstacle.empty()) return reference_attention(formula_.plan(), inputs, need_weights);
  if (!inputs.lists || inputs.gather || options_.path == Path::fused)
    return fused_attention(formula_, inputs);
  PairInputs tuned = inputs;
  tuned.gather = Tuner::global().choose(formula_, inputs).gather;
  return fused_attention(formula_, tuned);
}

}  // namespace saccade
