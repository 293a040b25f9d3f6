#include "saccade/models/cross_attention.h"

namespace saccade {

using at::Tensor;

void CrossMemory::reorder(const Tensor& indices) {
  for (Tensor* part : {&key, &value, &states, &mask})
    if (part->defined()) *part = part->index_select(0, indices);
}

CrossAttentionImpl::CrossAttentionImpl(const Architecture& architecture) : architecture_(architecture) {
  const Architecture& a = architecture_;
  const int64_t query_width = a.heads * a.head_dim, key_width = a.kv_heads * a.head_dim;
  const auto new_norm = [&](const char* name, int64_t width) {
    return register_module(name, Norm(a.norm, width, a.norm_epsilon));
  };
  norm = new_norm("norm", a.width);
  query = register_module("query", Projection(a.width, query_width, a.projection_bias));
  key_value = register_module("key_value", Projection(a.width, 2 * key_width, a.projection_bias));
  output = register_module("output", Projection(query_width, a.width, a.output_bias));
  if (a.query_key_norm) {
    query_norm = new_norm("query_norm", a.head_dim);
    key_norm = new_norm("key_norm", a.head_dim);
  }
  set_formula(Formula::load("full"), Path::automatic);
}

void CrossAttentionImpl::set_formula(const Formula& formula, Path path) {
  // No rotary embedding: places in two different texts have no distance that would mean the same everywhere.
  Attention fresh(formula, AttentionOptions{.heads = architecture_.heads,
                                            .kv_heads = architecture_.kv_heads,
                                            .head_dim = architecture_.head_dim,
                                            .model_dim = architecture_.width,
                                            .path = path});
  fresh->to(output->weight.device(), output->weight.scalar_type());
  attention = attention.is_empty() ? register_module("attention", fresh) : replace_module("attention", fresh);
}

CrossMemory CrossAttentionImpl::remember(const Tensor& states, const Tensor& mask) {
  const Architecture& a = architecture_;
  const std::vector<Tensor> parts = key_value->forward(states)
                                        .view({states.size(0), states.size(1), 2 * a.kv_heads, a.head_dim})
                                        .split(a.kv_heads, 2);
  const Tensor key = a.query_key_norm ? key_norm->forward(parts[0].contiguous()) : parts[0];
  CrossMemory memory{.key = key.transpose(1, 2), .value = parts[1].transpose(1, 2), .mask = mask};
  if (attention->formula().plan().needs_layer_input()) memory.states = states;
  return memory;
}

Tensor CrossAttentionImpl::forward(const Tensor& x, const CrossMemory& memory, int64_t position) {
  const Architecture& a = architecture_;
  const int64_t batch = x.size(0), tokens = x.size(1);
  const Tensor normed = norm->forward(x);
  Tensor asking = query->forward(normed).view({batch, tokens, a.heads, a.head_dim});
  if (a.query_key_norm) asking = query_norm->forward(asking);
  if (a.query_scale > 0) asking = asking * (a.query_scale * std::sqrt(static_cast<double>(a.head_dim)));
  AttentionCall call{.key_mask = memory.mask, .offset = position};
  if (attention->formula().plan().needs_layer_input()) {
    call.x = normed;
    call.memory = memory.states;
  }
  const Tensor attended =
      attention->forward(asking.transpose(1, 2), memory.key, memory.value, call).transpose(1, 2);
  return output->forward(attended.reshape({batch, tokens, a.heads * a.head_dim}));
}

}  // namespace saccade
