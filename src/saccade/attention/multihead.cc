// Projects, splits into heads, hands masks to the formula as an input, and lets Attention do the rest.
#include "saccade/attention/multihead.h"

#include <torch/nn/init.h>

#include <limits>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"

namespace saccade {

using torch::Tensor;

namespace {

Tensor append(const Tensor& heads, const Tensor& one_more) {
  return torch::cat({heads, one_more.expand({heads.size(0), -1, -1, -1})}, 2);
}

bool is_mask(const Tensor& tensor) {
  return tensor.scalar_type() == torch::kBool || tensor.is_floating_point();
}

// A Boolean mask as numbers to add.
Tensor as_added(const Tensor& hidden, const Tensor& like) {
  return torch::zeros_like(hidden, like.options().requires_grad(false))
      .masked_fill(hidden, -std::numeric_limits<double>::infinity());
}

}  // namespace

// --- construction

MultiheadAttentionImpl::MultiheadAttentionImpl(MultiheadAttentionOptions chosen)
    : options(std::move(chosen)) {
  reset();
}

void MultiheadAttentionImpl::check_options() const {
  require(options.embed_dim > 0, "multihead: embed_dim is {}; expected at least 1", options.embed_dim);
  require(options.num_heads > 0, "multihead: num_heads is {}; expected at least 1", options.num_heads);
  require(options.embed_dim % options.num_heads == 0,
          "multihead: embed_dim {} is not a multiple of num_heads {}", options.embed_dim, options.num_heads);
  require(options.kdim > 0, "multihead: kdim is {}; expected at least 1, or 0 for embed_dim", options.kdim);
  require(options.vdim > 0, "multihead: vdim is {}; expected at least 1, or 0 for embed_dim", options.vdim);
  require(options.dropout >= 0 && options.dropout < 1,
          "multihead: dropout is {}; expected 0 or more and less than 1", options.dropout);
}

void MultiheadAttentionImpl::check_formula() const {
  const Plan& plan = options.formula.plan();
  const std::string& name = options.formula.name();
  for (const VectorInfo& vector : plan.vectors) {
    if (!vector.used || !vector.for_keys) continue;
    const bool from_input = reads(*vector.host, HostOp::project);
    require(
        !from_input || options.kdim == options.embed_dim,
        "multihead: the formula '{}' computes '{}' from the input of the keys, whose kdim is {}; expected "
        "embed_dim {}",
        name, vector.name, options.kdim, options.embed_dim);
    require(
        appended_keys() == 0 || !(from_input || reads(*vector.host, HostOp::cumsum)),
        "multihead: a key that {} appends is no token, but the formula '{}' computes '{}' from each key's "
        "token",
        options.add_bias_kv ? "add_bias_kv" : "add_zero_attn", name, vector.name);
  }
  if (appended_keys() == 0) return;
  const char* option = options.add_bias_kv ? "add_bias_kv" : "add_zero_attn";
  require(!plan.uses_positions(),
          "multihead: a key that {} appends has no position, but the formula '{}' uses positions", option,
          name);
  require(!plan.uses_length(),
          "multihead: a key that {} appends is no token, but the formula '{}' uses n, their number", option,
          name);
}

void MultiheadAttentionImpl::reset() {
  if (options.kdim == 0) options.kdim = options.embed_dim;
  if (options.vdim == 0) options.vdim = options.embed_dim;
  check_options();
  check_formula();
  const int64_t width = options.embed_dim;
  const auto create = [&](const std::string& name, std::vector<int64_t> shape) {
    return register_parameter(name, torch::empty(shape));
  };
  if (options.kdim == width && options.vdim == width) {
    in_proj_weight = create("in_proj_weight", {3 * width, width});
  } else {
    q_proj_weight = create("q_proj_weight", {width, width});
    k_proj_weight = create("k_proj_weight", {width, options.kdim});
    v_proj_weight = create("v_proj_weight", {width, options.vdim});
  }
  if (options.bias) in_proj_bias = create("in_proj_bias", {3 * width});
  out_proj = register_module("out_proj",
                             torch::nn::Linear(torch::nn::LinearOptions(width, width).bias(options.bias)));
  if (options.add_bias_kv) {
    bias_k = create("bias_k", {1, 1, width});
    bias_v = create("bias_v", {1, 1, width});
  }
  reset_parameters();

  attention = Attention(options.formula, AttentionOptions{.heads = options.num_heads,
                                                          .head_dim = width / options.num_heads,
                                                          .model_dim = width});
  // A module without parameters would still be asked for by torch::load, and torch's class has none there.
  if (!attention->parameters().empty()) register_module("attention", attention);
  const auto masked = [&](PairMask kind) {
    MaskedFormula with_mask = with_pair_mask(options.formula, kind);
    return Masked{with_mask.input, Attention(with_mask.formula, *attention)};
  };
  allowed_ = masked(PairMask::allowed);
  added_ = masked(PairMask::added);
}

// In torch's order, so that a seed gives the same start. out_proj.weight starts as a Linear's does.
void MultiheadAttentionImpl::reset_parameters() {
  for (const Tensor& weight : {in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight})
    if (weight.defined()) torch::nn::init::xavier_uniform_(weight);
  if (options.bias) {
    torch::nn::init::zeros_(in_proj_bias);
    torch::nn::init::zeros_(out_proj->bias);
  }
  for (const Tensor& bias : {bias_k, bias_v})
    if (bias.defined()) torch::nn::init::xavier_normal_(bias);
}

std::shared_ptr<torch::nn::Module> MultiheadAttentionImpl::clone(
    const std::optional<torch::Device>& device) const {
  auto copy = Cloneable::clone(device);
  // Attention is not Cloneable, so that its values are still those of a fresh start.
  const auto values = dynamic_cast<MultiheadAttentionImpl&>(*copy).attention->named_parameters();
  for (const auto& learned : attention->named_parameters()) {
    const Tensor value = learned->detach();
    values[learned.key()].set_data(value.to(device.value_or(value.device()), value.scalar_type(),
                                            /*non_blocking=*/false, /*copy=*/true));
  }
  return copy;
}

// --- a call

void MultiheadAttentionImpl::check_inputs(const Tensor& query, const Tensor& key, const Tensor& value) const {
  const struct {
    const char *name, *width_name;
    const Tensor& tensor;
    int64_t width;
  } all[] = {{"query", "embed_dim", query, options.embed_dim},
             {"key", "kdim", key, options.kdim},
             {"value", "vdim", value, options.vdim}};
  const int64_t batch_place = options.batch_first ? 0 : 1;
  for (const auto& [name, width_name, tensor, width] : all) {
    require(tensor.defined(), "multihead: {} is missing", name);
    require(tensor.dim() == 3, "multihead: {} has shape {}; expected [{}, {}], or without batch", name,
            shape_text(tensor), options.batch_first ? "batch, tokens" : "tokens, batch", width);
    require(tensor.size(2) == width, "multihead: {} has width {}; expected {} {}", name, tensor.size(2),
            width_name, width);
    require(tensor.size(batch_place) == query.size(batch_place),
            "multihead: {} has batch size {}, query has {}", name, tensor.size(batch_place),
            query.size(batch_place));
    const Tensor& weight = out_proj->weight;
    require(tensor.scalar_type() == weight.scalar_type(), "multihead: {} has dtype {}, the weights have {}",
            name, c10::toString(tensor.scalar_type()), c10::toString(weight.scalar_type()));
  }
  require(value.size(1 - batch_place) == key.size(1 - batch_place),
          "multihead: value has {} tokens, key has {}; expected the same", value.size(1 - batch_place),
          key.size(1 - batch_place));
}

std::array<Tensor, 3> MultiheadAttentionImpl::project(const Tensor& query, const Tensor& key,
                                                      const Tensor& value) const {
  const bool packed = in_proj_weight.defined();
  if (packed && query.is_same(key) && key.is_same(value)) {
    const auto all = at::linear(query, in_proj_weight, in_proj_bias).chunk(3, -1);
    return {all[0], all[1], all[2]};
  }
  const std::vector<Tensor> weights =
      packed ? in_proj_weight.chunk(3) : std::vector{q_proj_weight, k_proj_weight, v_proj_weight};
  const std::vector<Tensor> biases = options.bias ? in_proj_bias.chunk(3) : std::vector<Tensor>(3);
  return {at::linear(query, weights[0], biases[0]), at::linear(key, weights[1], biases[1]),
          at::linear(value, weights[2], biases[2])};
}

// To [batch, heads, tokens, head_dim] and back, whichever of tokens and batch comes first outside.
Tensor MultiheadAttentionImpl::split_heads(const Tensor& projected) const {
  const Tensor split = projected.unflatten(2, {options.num_heads, options.embed_dim / options.num_heads});
  return options.batch_first ? split.permute({0, 2, 1, 3}) : split.permute({1, 2, 0, 3});
}

Tensor MultiheadAttentionImpl::merge_heads(const Tensor& heads) const {
  return (options.batch_first ? heads.permute({0, 2, 1, 3}) : heads.permute({2, 0, 1, 3})).flatten(2);
}

MultiheadAttentionImpl::Masks MultiheadAttentionImpl::read_masks(const Tensor& key_padding_mask,
                                                                 const Tensor& attn_mask, int64_t batch,
                                                                 int64_t queries, int64_t keys) const {
  Masks masks;
  Tensor pairs;  // still true for what is hidden
  const int64_t heads = options.num_heads;
  if (attn_mask.defined()) {
    const std::vector<int64_t> flat{queries, keys}, deep{batch * heads, queries, keys};
    require(attn_mask.sizes() == flat || attn_mask.sizes() == deep,
            "multihead: attn_mask has shape {}; expected [{}, {}] or [{}, {}, {}]", shape_text(attn_mask),
            queries, keys, batch * heads, queries, keys);
    require(is_mask(attn_mask), "multihead: attn_mask has dtype {}; expected bool or a floating type",
            c10::toString(attn_mask.scalar_type()));
    pairs =
        attn_mask.dim() == 2 ? attn_mask.unsqueeze(0).unsqueeze(0) : attn_mask.unflatten(0, {batch, heads});
  }
  if (key_padding_mask.defined()) {
    require(key_padding_mask.sizes() == std::vector<int64_t>{batch, keys},
            "multihead: key_padding_mask has shape {}; expected [{}, {}]", shape_text(key_padding_mask),
            batch, keys);
    require(is_mask(key_padding_mask),
            "multihead: key_padding_mask has dtype {}; expected bool or a floating type",
            c10::toString(key_padding_mask.scalar_type()));
    if (key_padding_mask.scalar_type() == torch::kBool) {
      masks.keys = key_padding_mask.logical_not();
    } else {
      const Tensor padding = key_padding_mask.unsqueeze(1).unsqueeze(1).expand({batch, 1, queries, keys});
      if (!pairs.defined())
        pairs = padding;
      else
        pairs = (pairs.is_floating_point() ? pairs : as_added(pairs, padding)) + padding;
    }
  }
  if (pairs.defined() && pairs.scalar_type() == torch::kBool) pairs = pairs.logical_not();
  // Everyone sees the appended keys.
  const int64_t appended = appended_keys();
  if (masks.keys.defined() && appended > 0) masks.keys = at::constant_pad_nd(masks.keys, {0, appended}, 1);
  if (pairs.defined() && appended > 0)
    pairs = at::constant_pad_nd(pairs, {0, appended}, pairs.is_floating_point() ? 0 : 1);
  // Without pairs there is nothing to hide.
  if (pairs.defined() && pairs.numel() > 0) masks.pairs = pairs;
  return masks;
}

std::tuple<Tensor, Tensor> MultiheadAttentionImpl::forward(const Tensor& query, const Tensor& key,
                                                           const Tensor& value,
                                                           const Tensor& key_padding_mask, bool need_weights,
                                                           const Tensor& attn_mask, bool average_attn_weights,
                                                           const Inputs& inputs) {
  if (query.defined() && key.defined() && value.defined() && query.dim() == 2 && key.dim() == 2 &&
      value.dim() == 2) {
    const int64_t place = options.batch_first ? 0 : 1;
    // One tensor stays one tensor: that is how self-attention is known.
    const Tensor q = query.unsqueeze(place), k = key.is_same(query) ? q : key.unsqueeze(place),
                 v = value.is_same(key) ? k : value.unsqueeze(place);
    const auto [output, weights] =
        forward(q, k, v, key_padding_mask.defined() ? key_padding_mask.unsqueeze(0) : key_padding_mask,
                need_weights, attn_mask, average_attn_weights, inputs);
    return {output.squeeze(place), weights.defined() ? weights.squeeze(0) : weights};
  }
  check_inputs(query, key, value);
  const auto projected = project(query, key, value);
  const Tensor q = split_heads(projected[0]);
  Tensor k = split_heads(projected[1]), v = split_heads(projected[2]);
  const Masks masks = read_masks(key_padding_mask, attn_mask, q.size(0), q.size(2), k.size(2));
  if (options.add_bias_kv) {
    const std::vector<int64_t> one_key{1, options.num_heads, 1, q.size(3)};
    k = append(k, bias_k.view(one_key));
    v = append(v, bias_v.view(one_key));
  }
  if (options.add_zero_attn) {
    const Tensor zero = torch::zeros({1, options.num_heads, 1, q.size(3)}, q.options().requires_grad(false));
    k = append(k, zero);
    v = append(v, zero);
  }

  AttentionCall call{.inputs = inputs, .key_mask = masks.keys, .need_weights = need_weights};
  if (is_training()) call.dropout = options.dropout;
  if (options.formula.plan().needs_layer_input()) {
    call.x = options.batch_first ? query : query.transpose(0, 1);
    if (!key.is_same(query)) call.memory = options.batch_first ? key : key.transpose(0, 1);
  }
  Attention mechanism = attention;
  if (masks.pairs.defined()) {
    const Masked& masked = masks.pairs.is_floating_point() ? added_ : allowed_;
    require(call.inputs.emplace(masked.input, masks.pairs).second,
            "multihead: the formula '{}' has no input '{}'", options.formula.name(), masked.input);
    mechanism = masked.attention;
  }
  const AttentionResult result = mechanism->run(q, k, v, call);
  const Tensor output = out_proj->forward(merge_heads(result.output));
  if (!need_weights) return {output, Tensor()};
  return {output, average_attn_weights ? result.weights.sum(1) / options.num_heads : result.weights};
}

}  // namespace saccade
