// Brings a call into the shape of random_features.h: one set per key head, and the mask as a number of keys
// that all queries see.
#include "saccade/attention/performer.h"

#include <algorithm>
#include <cmath>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"

namespace saccade {

using torch::Tensor;

namespace {

// Whether the formula is causal; the only other one allowed is full. Formulas are compared by what they
// compute, not by their text.
bool is_causal(const Formula& formula) {
  const auto output = [](const Formula& of, NodeId Plan::*node) {
    return of.plan().graph.print(of.plan().*node, {});
  };
  const Formula causal = Formula::parse("mask = causal"), full = Formula::parse("mask = full");
  const auto refuse = [&](const std::string& why) {
    fail(
        "performer: it cannot run the formula '{}': {}; it estimates the softmax of plain scores, so it "
        "takes "
        "'causal' and 'full' alone",
        formula.name(), why);
  };
  if (formula.plan().scale != kNoNode) refuse(fmt::format("its scale is {}", output(formula, &Plan::scale)));
  if (const std::string weights = output(formula, &Plan::weights); weights != output(full, &Plan::weights))
    refuse(fmt::format("its weights are {}", weights));
  const std::string mask = output(formula, &Plan::mask);
  if (mask == output(causal, &Plan::mask)) return true;
  if (mask != output(full, &Plan::mask))
    refuse(fmt::format("its mask is {}, and sums over features cannot leave out single pairs", mask));
  return false;
}

// [batch, heads, tokens, width] with one set for each sequence and key head.
Tensor in_sets(const Tensor& tensor, at::ScalarType dtype) { return tensor.to(dtype).flatten(0, 1); }

}  // namespace

int64_t PerformerState::bytes() const {
  return length_ == 0 ? 0 : static_cast<int64_t>(sums_.sums.nbytes() + sums_.maximum.nbytes());
}

void PerformerState::reorder(const Tensor& indices) {
  require(indices.defined() && indices.dim() == 1 && at::isIntegralType(indices.scalar_type(), false),
          "performer: reorder needs a list of batch indices, not {}", shape_text(indices));
  if (length_ == 0) return;
  const Tensor index = indices.to(sums_.sums.device(), at::kLong);
  require(index.numel() > 0 && index.min().item<int64_t>() >= 0 && index.max().item<int64_t>() < batch(),
          "performer: reorder has an index outside 0..{}", batch() - 1);
  const auto chosen = [&](const Tensor& tensor) {
    return tensor.unflatten(0, {batch(), kv_heads_}).index_select(0, index).flatten(0, 1);
  };
  sums_ = {chosen(sums_.sums), chosen(sums_.maximum)};
}

PerformerImpl::PerformerImpl(Formula formula, AttentionOptions options, PerformerOptions performer)
    : AttentionImpl(std::move(formula), options), performer_(performer), causal_(is_causal(this->formula())) {
  require(performer_.features > 0, "performer: it has {} features; expected at least 1", performer_.features);
  require(performer_.chunk > 0, "performer: the chunk is {}; expected at least 1", performer_.chunk);
  directions_ = register_buffer("directions",
                                torch::empty({performer_.features, this->options().head_dim}, torch::kFloat));
  redraw();
}

void PerformerImpl::redraw() {
  torch::NoGradGuard no_gradient;
  RandomStream stream = RandomStream(performer_.seed, "performer").split(fmt::format("draw {}", draws_++));
  directions_.copy_(draw_directions(stream, performer_.features, options().head_dim));
}

FeatureCall PerformerImpl::feature_call(const Tensor& query, const Tensor& key, const Tensor& value,
                                        const Tensor& key_mask) const {
  const auto dtype = compute_dtype(query);
  const int64_t heads = key.size(1);
  FeatureCall call{.query = query.to(dtype).reshape(
                       {query.size(0) * heads, query.size(1) / heads, query.size(2), query.size(3)}),
                   .key = in_sets(key, dtype),
                   .value = in_sets(value, dtype),
                   .directions = directions_.detach().to(query.device(), dtype),
                   .scale = 1 / std::sqrt(static_cast<double>(query.size(3))),
                   .chunk = performer_.chunk};
  if (!key_mask.defined()) return call;
  call.hidden = key_mask.logical_not().unsqueeze(1).expand({-1, heads, -1}).flatten(0, 1);
  // Padding may hold anything, also NaN, which 0 times it would spread.
  call.key = call.key.masked_fill(call.hidden.unsqueeze(-1), 0);
  call.value = call.value.masked_fill(call.hidden.unsqueeze(-1), 0);
  return call;
}

AttentionResult PerformerImpl::attend(const PairInputs& inputs, bool need_weights) {
  require(inputs.dropout == 0, "performer: dropout is {}; it forms no weights that could be dropped",
          inputs.dropout);
  require(!inputs.lists,
          "performer: a call with lists of keys; sums over features cannot leave out single pairs");
  const Tensor &query = inputs.queries[0], &key = inputs.keys[0];
  FeatureCall call = feature_call(query, key, inputs.value, inputs.key_mask);
  invariant(inputs.offset >= inputs.first_key, "performer: a query before the first key");
  call.prefix = causal_ ? std::min(key.size(2), inputs.offset - inputs.first_key) : key.size(2);
  const FeatureResult result = random_feature_attention(call);
  const auto by_head = [&](const Tensor& tensor) {
    return tensor.unflatten(0, {query.size(0), key.size(1)}).flatten(1, 2);
  };
  AttentionResult attention{.output = by_head(result.output).to(query.scalar_type()),
                            .log_sums = {by_head(result.log_sum)},
                            .weights = {}};
  if (need_weights) attention.weights = by_head(random_feature_weights(call)).to(query.scalar_type());
  return attention;
}

Tensor PerformerImpl::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                              PerformerState& state, const AttentionCall& call) {
  check_query_key_value(query, key, value);
  const AttentionOptions& expected = options();
  require(query.size(1) == expected.heads && key.size(1) == expected.kv_heads &&
              query.size(3) == expected.head_dim,
          "performer: query is {} and key {}; expected {} heads, {} key heads and width {}",
          shape_text(query), shape_text(key), expected.heads, expected.kv_heads, expected.head_dim);
  require(causal_, "performer: the formula '{}' cannot decode with a state: {}", formula().name(),
          formula().plan().decoding.reason);
  require(query.size(2) == key.size(2),
          "performer: decoding got {} new queries and {} new keys; expected the same number", query.size(2),
          key.size(2));
  require(call.offset == 0 && call.dropout == 0 && !call.need_weights && !call.lists,
          "performer: decoding with a state takes no offset, dropout, weights or lists of keys");
  require(!call.key_mask.defined() || (call.key_mask.scalar_type() == torch::kBool &&
                                       call.key_mask.sizes() == at::IntArrayRef({key.size(0), key.size(2)})),
          "performer: the key mask is {} of shape {}; expected Bool of shape [{}, {}]",
          call.key_mask.defined() ? c10::toString(call.key_mask.scalar_type()) : "",
          shape_text(call.key_mask), key.size(0), key.size(2));
  const bool begun = state.length_ > 0;
  require(!begun || state.batch() == query.size(0),
          "performer: the state holds {} sequences, the new tokens have {}", state.batch(), query.size(0));
  require(!begun || state.draw_ == draws_, "performer: the state was computed before redraw(); reset it");
  require(!begun || (state.kv_heads_ == key.size(1) && state.sums_.sums.size(1) == performer_.features &&
                     state.sums_.sums.size(2) == value.size(3) + 1 &&
                     state.sums_.sums.scalar_type() == compute_dtype(query)),
          "performer: the state is {} of shape {} for {} key heads, which the new tokens do not fit",
          c10::toString(state.sums_.sums.scalar_type()), shape_text(state.sums_.sums), state.kv_heads_);
  const auto turned = [&](const Tensor& vectors) {
    if (!expected.rotary) return vectors;
    const auto in_long = torch::TensorOptions().dtype(torch::kLong).device(vectors.device());
    return rotate(vectors, torch::arange(state.length_, state.length_ + vectors.size(2), in_long),
                  *expected.rotary);
  };
  FeatureCall features = feature_call(turned(query), turned(key), value, call.key_mask);
  if (begun) features.before = state.sums_;
  const FeatureResult result = random_feature_attention(features);
  state.sums_ = {result.after.sums.detach(), result.after.maximum.detach()};
  state.kv_heads_ = key.size(1);
  state.length_ += key.size(2);
  state.draw_ = draws_;
  return result.output.unflatten(0, {query.size(0), key.size(1)}).flatten(1, 2).to(query.scalar_type());
}

std::vector<PerformerError> performer_error_table(const Formula& formula,
                                                  const PerformerErrorOptions& options) {
  torch::NoGradGuard no_gradient;
  const AttentionOptions shape{.heads = options.heads, .head_dim = options.head_dim};
  Attention exact_attention(formula, shape);
  std::vector<PerformerError> table;
  for (const int64_t length : options.lengths) {
    RandomStream stream =
        RandomStream(options.seed, "performer error").split(fmt::format("length {}", length));
    const auto normal = [&] {
      Tensor tensor = torch::empty({1, options.heads, length, options.head_dim}, torch::kFloat);
      for (int64_t index = 0; index < tensor.numel(); ++index)
        tensor.data_ptr<float>()[index] = static_cast<float>(stream.normal());
      return tensor;
    };
    const Tensor query = normal(), key = normal(), value = normal();
    for (const double logit_scale : options.logit_scales) {
      const Tensor q = query * std::sqrt(logit_scale), k = key * std::sqrt(logit_scale);
      const Tensor exact = exact_attention->forward(q, k, value);
      const auto distance = [&](const Tensor& estimate) {
        return ((estimate - exact).square().sum() / exact.square().sum()).item<double>();
      };
      const Tensor mean = exact_attention->forward(torch::zeros_like(q), k, value);
      table.push_back({length, logit_scale, 0, std::sqrt(distance(mean))});
      for (const int64_t features : options.features) {
        Performer performer(formula, shape, PerformerOptions{.features = features, .seed = options.seed});
        double sum = 0;
        for (int64_t draw = 0; draw < options.draws; ++draw) {
          if (draw > 0) performer->redraw();
          sum += distance(performer->forward(q, k, value));
        }
        table.push_back({length, logit_scale, features, std::sqrt(sum / static_cast<double>(options.draws))});
      }
    }
  }
  return table;
}

}  // namespace saccade
