// A forward pass reads like the picture in a paper; what differs between families is decided by the
// architecture's flags.
#include "saccade/models/transformer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/embedding.h>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"
#include "saccade/base/random.h"
#include "saccade/formula/augment.h"
#include "saccade/models/recompute.h"

namespace saccade {

using at::Tensor;

void ModelCache::reset() {
  for (KvCache& layer : layers_) layer.reset();
  memory_.clear();
  real_tokens = Tensor();
}

void ModelCache::crop(int64_t length) {
  const int64_t dropped = this->length() - length;
  // Layers may differ in what they have evicted: all of them go back, or none does.
  for (const KvCache& layer : layers_) layer.check_crop(length);
  for (KvCache& layer : layers_) layer.crop(length);
  if (real_tokens.defined()) real_tokens = (real_tokens - dropped).clamp_min(0);
}

void ModelCache::reorder(const Tensor& indices) {
  for (KvCache& layer : layers_) layer.reorder(indices);
  if (real_tokens.defined()) real_tokens = real_tokens.index_select(0, indices);
  if (memory_.empty()) return;
  // Beams of one source look at the same memory: as long as they only change places among themselves, nothing
  // is copied.
  const Tensor sources = sources_.index_select(0, indices);
  if (torch::equal(sources, sources_)) return;
  for (CrossMemory& layer : memory_) layer.reorder(indices);
  sources_ = sources;
}

void ModelCache::set_memory(std::vector<CrossMemory> memory) {
  memory_ = std::move(memory);
  sources_ = torch::arange(memory_.front().key.size(0), torch::kLong);
}

BlockImpl::BlockImpl(const Architecture& architecture, int64_t layer)
    : architecture_(architecture), layer_(layer) {
  const Architecture& a = architecture_;
  const int64_t query_width = a.heads * a.head_dim, key_width = a.kv_heads * a.head_dim;
  const auto norm = [&](const char* name, int64_t width) {
    return register_module(name, Norm(a.norm, width, a.norm_epsilon));
  };
  if (a.embeds_qkv(layer))
    token_projection =
        register_parameter("token_projection", torch::empty({a.vocabulary, query_width + 2 * key_width}));
  else
    projection =
        register_module("projection", Projection(a.width, query_width + 2 * key_width, a.projection_bias));
  output = register_module("output", Projection(query_width, a.width, a.output_bias));
  if (a.query_key_norm) {
    query_norm = norm("query_norm", a.head_dim);
    key_norm = norm("key_norm", a.head_dim);
  }
  attention_norm = norm("attention_norm", a.width);
  mlp_norm = norm("mlp_norm", a.width);
  if (a.order == BlockOrder::norm_around) {
    attention_after_norm = norm("attention_after_norm", a.width);
    mlp_after_norm = norm("mlp_after_norm", a.width);
  }
  mlp = register_module("mlp", Mlp(a));
  if (a.encoder_layers > 0) cross = register_module("cross", CrossAttention(a));
  set_formula(a.formula(layer), Path::automatic);
}

void BlockImpl::set_formula(const Formula& formula, Path path) {
  const Architecture& a = architecture_;
  Attention fresh(formula, AttentionOptions{.heads = a.heads,
                                            .kv_heads = a.kv_heads,
                                            .head_dim = a.head_dim,
                                            .model_dim = a.width,
                                            .rotary = a.rotary_of(layer_),
                                            .path = path});
  fresh->to(output->weight.device(), output->weight.scalar_type());
  apart_.reset();
  attention = attention.is_empty() ? register_module("attention", fresh) : replace_module("attention", fresh);
}

const BlockImpl::Apart& BlockImpl::apart() {
  if (!apart_) {
    MaskedFormula masked = with_documents(attention->formula());
    apart_ = Apart{Attention(masked.formula, *attention), masked.input};
  }
  apart_->attention->set_path(attention->options().path);
  apart_->attention->set_selector(attention->selector());
  return *apart_;
}

Tensor BlockImpl::attend(const Tensor& entering, const ModelCall& call, KvCache* cache, bool last_only) {
  const Architecture& a = architecture_;
  Tensor x = entering;
  if (call.on_attention_input) {
    // A view, because the input itself may also go around the attention.
    x = entering.view_as(entering);
    call.on_attention_input(layer_, x);
  }
  const int64_t batch = x.size(0), tokens = x.size(1);
  const Tensor all =
      (token_projection.defined() ? at::embedding(token_projection, call.ids) : projection->forward(x))
          .view({batch, tokens, a.heads + 2 * a.kv_heads, a.head_dim});
  // Split rather than narrow: its gradient is put together in one pass.
  const std::vector<Tensor> parts = all.split_with_sizes({a.heads, a.kv_heads, a.kv_heads}, 2);
  Tensor query = parts[0], key = parts[1];
  const Tensor value = parts[2];
  if (a.query_key_norm) {
    query = query_norm->forward(query.contiguous());
    key = key_norm->forward(key.contiguous());
  }
  // The formula divides by the root of head_dim; what the model wants instead is a factor of the query.
  if (a.query_scale > 0) query = query * (a.query_scale * std::sqrt(static_cast<double>(a.head_dim)));
  AttentionCall attention_call{.inputs = call.inputs, .key_mask = call.key_mask};
  attention_call.need_weights = call.on_attention != nullptr;
  if (attention->formula().plan().needs_layer_input()) attention_call.x = x;
  Attention attending = attention;
  if (call.documents.defined()) {
    attending = apart().attention;
    attention_call.inputs[apart().input] = call.documents;
  }
  const AttentionResult result = attending->run(query.transpose(1, 2), key.transpose(1, 2),
                                                value.transpose(1, 2), attention_call, cache);
  if (call.on_attention) call.on_attention(layer_, result);
  Tensor attended = result.output.transpose(1, 2);
  if (last_only) attended = attended.narrow(1, tokens - 1, 1);
  return output->forward(attended.reshape({batch, attended.size(1), a.heads * a.head_dim}));
}

namespace {

// Zeroes a share of the numbers and stretches the others, by a seed of its own for each place in the model.
Tensor dropped(const Tensor& x, double share, const ModelCall& call, std::string_view place) {
  Tensor kept = torch::empty_like(x, at::MemoryFormat::Contiguous);
  const RandomStream numbers(call.dropout_seed, place);
  for (int64_t row = 0; row < x.size(0); ++row) {
    at::Generator random =
        at::detail::createCPUGenerator(numbers.split(std::to_string(call.first_sequence + row)).next());
    kept[row].bernoulli_(1 - share, random);
  }
  return x * kept.div_(1 - share);
}

}  // namespace

Tensor BlockImpl::drop(const Tensor& x, const ModelCall& call, int64_t place) const {
  if (architecture_.dropout == 0 || !is_training()) return x;
  return dropped(x, architecture_.dropout, call, fmt::format("{} {}", layer_, place));
}

Tensor BlockImpl::forward(const Tensor& all, const ModelCall& call, KvCache* cache, bool last_only,
                          const CrossMemory* memory) {
  const auto last = [&](const Tensor& x) { return last_only ? x.narrow(1, x.size(1) - 1, 1) : x; };
  switch (architecture_.order) {
    case BlockOrder::norm_before: {
      const Branch in = attention_norm->branch(all);
      Tensor stream = last(in.stream);
      Tensor change = drop(attend(in.normed, call, cache, last_only), call, 0);
      if (memory) {
        stream = add_to_stream(stream, change);
        const int64_t position = (cache ? cache->length() : all.size(1)) - stream.size(1);
        change = drop(cross->forward(stream, *memory, position), call, 2);
      }
      const Branch between = mlp_norm->branch(stream, change);
      return add_to_stream(between.stream, drop(mlp->forward(between.normed), call, 1));
    }
    case BlockOrder::norm_after: {
      const Tensor attended = attend(all, call, cache, last_only);
      const Tensor between = attention_norm->forward(add_to_stream(last(all), drop(attended, call, 0)));
      return mlp_norm->forward(add_to_stream(between, drop(mlp->forward(between), call, 1)));
    }
    case BlockOrder::norm_around: {
      const Branch in = attention_norm->branch(all);
      const Tensor attended = attention_after_norm->forward(attend(in.normed, call, cache, last_only));
      const Branch between = mlp_norm->branch(last(in.stream), drop(attended, call, 0));
      const Tensor changed = mlp_after_norm->forward(mlp->forward(between.normed));
      return add_to_stream(between.stream, drop(changed, call, 1));
    }
  }
  return all;
}

TransformerImpl::TransformerImpl(Architecture architecture) : architecture_(std::move(architecture)) {
  build({});
}

TransformerImpl::TransformerImpl(Architecture architecture, Tensor tokens)
    : architecture_(std::move(architecture)) {
  build(tokens);
}

void TransformerImpl::build(const Tensor& tokens) {
  const Architecture& a = architecture_;
  a.check("model");
  const auto norm = [&](const char* name) {
    return register_module(name, Norm(a.norm, a.width, a.norm_epsilon));
  };
  tokens_ = tokens.defined() ? tokens : register_parameter("tokens", torch::empty({a.vocabulary, a.width}));
  if (a.learned_positions) positions_ = register_parameter("positions", torch::empty({a.context, a.width}));
  if (a.token_types > 0) types_ = register_parameter("types", torch::empty({a.token_types, a.width}));
  if (a.order == BlockOrder::norm_after)
    embedding_norm_ = norm("embedding_norm");
  else
    norm_ = norm("norm");
  for (int64_t layer = 0; layer < a.layers; ++layer)
    blocks_.push_back(register_module("block_" + std::to_string(layer), Block(a, layer)));
  if (a.head == HeadKind::masked_model) {
    head_ = register_module("head", Projection(a.width, a.width, true));
    head_norm_ = norm("head_norm");
    output_bias_ = register_parameter("output_bias", torch::zeros({a.vocabulary}));
  }
  if (a.head == HeadKind::classifier) {
    pooler_ = register_module("pooler", Projection(a.width, a.width, true));
    classifier_ = register_module("classifier", Projection(a.width, a.labels, true));
  }
  if ((a.head == HeadKind::language_model || a.head == HeadKind::masked_model) && !a.tied)
    output_ = register_module("output", Projection(a.width, a.vocabulary, false));
  if (a.encoder_layers > 0)
    encoder_ = register_module(
        "encoder", std::make_shared<TransformerImpl>(a.encoder(), a.shared_embedding ? tokens_ : Tensor()));
}

std::vector<CrossMemory> TransformerImpl::read_source(const ModelCall& call) {
  if (!encoder_) {
    require(!call.source.defined(), "model: it has no encoder to read a source");
    return {};
  }
  if (call.cache && !call.cache->memory().empty()) {
    require(!call.source.defined(), "model: the cache holds a source already; a second one was given");
    return call.cache->memory();
  }
  require(call.source.defined(), "model: it translates, and needs a source to read");
  require(call.source.dim() == 2 && call.ids.dim() == 2 && call.source.size(0) == call.ids.size(0),
          "model: a source of shape {} for ids of shape {}; expected as many sequences",
          shape_text(call.source), shape_text(call.ids));
  require(!call.source_mask.defined() || call.source_mask.sizes() == call.source.sizes(),
          "model: a source mask of shape {} for a source of shape {}", shape_text(call.source_mask),
          shape_text(call.source));
  // Numbers of its own: the same would leave out the same places on both sides.
  const Tensor states = encoder_->forward({.ids = call.source,
                                           .key_mask = call.source_mask,
                                           .dropout_seed = RandomStream(call.dropout_seed, "encoder").next(),
                                           .first_sequence = call.first_sequence,
                                           .recompute = call.recompute});
  std::vector<CrossMemory> memory;
  for (const Block& block : blocks_) memory.push_back(block->cross.ptr()->remember(states, call.source_mask));
  if (call.cache) call.cache->set_memory(memory);
  return memory;
}

Tensor TransformerImpl::embed(const ModelCall& call) {
  const Architecture& a = architecture_;
  const int64_t tokens = call.ids.size(1), before = call.cache ? call.cache->length() : 0;
  Tensor x = at::embedding(tokens_, call.ids);
  if (a.embedding_scale != 1) x = x * a.embedding_scale;
  if (a.learned_positions) {
    require(before + tokens <= a.context, "model: {} tokens; its learned positions end at {}",
            before + tokens, a.context);
    // Padding on the left moves no token: positions count the real ones.
    Tensor places = torch::arange(before, before + tokens, torch::kLong).unsqueeze(0);
    if (call.key_mask.defined()) {
      const Tensor counted = call.key_mask.to(torch::kLong).cumsum(1) - 1;
      places =
          (call.cache && call.cache->real_tokens.defined() ? counted + call.cache->real_tokens.unsqueeze(1)
                                                           : counted)
              .clamp_min(0);
    } else if (call.cache && call.cache->real_tokens.defined()) {
      places = call.cache->real_tokens.unsqueeze(1) + torch::arange(tokens, torch::kLong);
    }
    x = x + at::embedding(positions_, places);
  }
  if (a.token_types > 0)
    x = x +
        at::embedding(types_, call.token_types.defined() ? call.token_types : torch::zeros_like(call.ids));
  if (!embedding_norm_.is_empty()) x = embedding_norm_->forward(x);
  return a.dropout > 0 && is_training() ? dropped(x, a.dropout, call, "embedding") : x;
}

Tensor TransformerImpl::forward(const ModelCall& call) {
  const Architecture& a = architecture_;
  require(call.ids.defined() && call.ids.dim() == 2 && call.ids.scalar_type() == torch::kLong,
          "model: the ids have shape {}; expected [batch, tokens] of 64-bit integers", shape_text(call.ids));
  if (call.ids.numel() > 0) {
    const int64_t lowest = call.ids.min().item<int64_t>(), highest = call.ids.max().item<int64_t>();
    require(lowest >= 0 && highest < a.vocabulary, "model: token {}; expected 0 to {}",
            lowest < 0 ? lowest : highest, a.vocabulary - 1);
  }
  const int64_t tokens = call.ids.size(1);
  require(!call.documents.defined() || (!call.cache && call.documents.sizes() == call.ids.sizes()),
          "model: documents of shape {} for ids of shape {}{}", shape_text(call.documents),
          shape_text(call.ids), call.cache ? ", with a cache" : "");
  require(!call.recompute || (!call.cache && !call.last_only && !call.hidden_states),
          "model: recompute is for training, without a cache, hidden states or last_only");
  require(!call.last_only || (tokens > 0 && !call.hidden_states),
          "model: the last token alone was asked for, of {} tokens{}", tokens,
          call.hidden_states ? " with all hidden states" : "");
  const std::vector<CrossMemory> memory = read_source(call);
  Tensor x = embed(call);
  if (call.hidden_states) call.hidden_states->assign(1, x);
  for (int64_t layer = 0; layer < a.layers; ++layer) {
    // A block that looks at an encoder's output is remembered: its second pass would go through the encoder.
    if (call.recompute && torch::GradMode::is_enabled() && memory.empty()) {
      const Block current = block(layer);
      x = recomputed(
          [current, call](const Tensor& input) { return current.ptr()->forward(input, call, nullptr); }, x);
    } else {
      x = block(layer)->forward(x, call, call.cache ? &call.cache->layer(layer) : nullptr,
                                call.last_only && layer + 1 == a.layers && tokens > 1,
                                memory.empty() ? nullptr : &memory[static_cast<size_t>(layer)]);
    }
    if (call.on_block) call.on_block(layer, x);
    if (call.hidden_states && layer + 1 < a.layers) call.hidden_states->push_back(x);
  }
  if (call.cache && (call.key_mask.defined() || call.cache->real_tokens.defined())) {
    const Tensor fresh = call.key_mask.defined()
                             ? call.key_mask.sum(1)
                             : torch::full({call.ids.size(0)}, call.ids.size(1), torch::kLong);
    call.cache->real_tokens =
        call.cache->real_tokens.defined() ? call.cache->real_tokens + fresh : fresh.to(torch::kLong);
  }
  x = finish(x);
  if (call.hidden_states) call.hidden_states->push_back(x);
  return x;
}

Tensor TransformerImpl::logits(const Tensor& hidden) {
  const Architecture& a = architecture_;
  require(a.head == HeadKind::language_model || a.head == HeadKind::masked_model,
          "model: it has no head for tokens");
  Tensor x = hidden;
  if (a.head == HeadKind::masked_model) x = head_norm_->forward(activate(a.activation, head_->forward(x)));
  Tensor logits = a.tied ? project(x.contiguous(), tokens_, output_bias_, compact_tokens_.get())
                         : project(x.contiguous(), output_->weight, output_bias_, output_->compact.get());
  if (a.logit_cap > 0) logits = (logits / a.logit_cap).tanh() * a.logit_cap;
  return logits;
}

Tensor TransformerImpl::classify(const Tensor& hidden) {
  require(architecture_.head == HeadKind::classifier, "model: it has no head for labels");
  return classifier_->forward(pooler_->forward(hidden.select(1, 0).contiguous()).tanh());
}

Tensor TransformerImpl::sentence_embeddings(const Tensor& hidden, const Tensor& key_mask) {
  Tensor mean;
  if (key_mask.defined()) {
    const Tensor real = key_mask.to(hidden.scalar_type()).unsqueeze(-1);
    mean = (hidden * real).sum(1) / real.sum(1).clamp_min(1e-9);
  } else {
    mean = hidden.mean(1);
  }
  return mean / mean.norm(2, -1, true).clamp_min(1e-12);
}

std::shared_ptr<TransformerImpl> TransformerImpl::twin() const {
  // Modules hold their parts by pointers, which is what a copy copies.
  auto twin = std::make_shared<TransformerImpl>(*this);
  for (size_t layer = 0; layer < blocks_.size(); ++layer) {
    const Block block(std::make_shared<BlockImpl>(*blocks_[layer]));
    twin->blocks_[layer] = twin->replace_module("block_" + std::to_string(layer), block);
  }
  return twin;
}

void TransformerImpl::set_attention(const Formula& formula) {
  set_attention(std::vector<Formula>(blocks_.size(), formula));
}

void TransformerImpl::set_attention(const std::vector<Formula>& formulas) {
  require(formulas.size() == blocks_.size(), "model: {} formulas for {} layers", formulas.size(),
          blocks_.size());
  for (size_t layer = 0; layer < blocks_.size(); ++layer) blocks_[layer]->set_formula(formulas[layer], path_);
}

void TransformerImpl::restore_attention() {
  for (int64_t layer = 0; layer < architecture_.layers; ++layer)
    block(layer)->set_formula(architecture_.formula(layer), path_);
}

void TransformerImpl::set_path(Path path) {
  path_ = path;
  for (Block& block : blocks_) {
    block->attention->set_path(path);
    if (!block->cross.is_empty()) block->cross->attention->set_path(path);
  }
  if (encoder_) encoder_->set_path(path);
}

void TransformerImpl::set_cross_attention(const std::vector<Formula>& formulas) {
  require(encoder_ != nullptr, "model: it has no encoder to look at");
  require(formulas.size() == blocks_.size(), "model: {} formulas for {} layers", formulas.size(),
          blocks_.size());
  for (size_t layer = 0; layer < blocks_.size(); ++layer)
    blocks_[layer]->cross->set_formula(formulas[layer], path_);
}

void TransformerImpl::clamp_formulas() {
  for (const auto& module : modules(false))
    if (const auto attention = std::dynamic_pointer_cast<AttentionImpl>(module))
      attention->clamp_parameters();
}

ModelCache TransformerImpl::make_cache() const {
  std::vector<KvCache> layers;
  for (const Block& block : blocks_) {
    const Plan& plan = block->attention->formula().plan();
    require(plan.decoding.possible, "model: the formula '{}' cannot decode with a cache: {}",
            block->attention->formula().name(), plan.decoding.reason);
    layers.push_back(block->attention->make_cache());
  }
  return ModelCache(std::move(layers));
}

void TransformerImpl::keep_compact(const std::string& name, std::shared_ptr<CompactWeight> weight) {
  const auto parameters = named_parameters();
  weight->stand_for(parameters[name]);
  if (name == "tokens") {
    compact_tokens_ = std::move(weight);
    return;
  }
  const std::string_view end = ".weight";
  if (!name.ends_with(end)) return;
  const auto modules = named_modules();
  const auto* module = modules.find(name.substr(0, name.size() - end.size()));
  if (!module) return;
  if (const auto projection = std::dynamic_pointer_cast<ProjectionImpl>(*module))
    projection->compact = std::move(weight);
}

int64_t TransformerImpl::parameter_count() const {
  int64_t count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

}  // namespace saccade
