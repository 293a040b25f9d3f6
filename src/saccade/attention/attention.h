// Attention as a torch module: one class for any formula. It owns what the formula learns, computes what is
// per token, keeps the KV cache in step, and says which path runs the pairs.
#pragma once

#include <torch/nn/module.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "saccade/attention/cache.h"
#include "saccade/attention/host.h"
#include "saccade/attention/reference.h"
#include "saccade/attention/rotary.h"
#include "saccade/attention/selector.h"
#include "saccade/formula/formula.h"

namespace saccade {

/// Which implementation runs the pairs. Automatic: the fused kernels wherever they can run.
enum class Path { automatic, reference, fused };
/// "automatic", "reference" or "fused".
std::string_view name_of(Path path);

/// The shape of a layer's attention, and how it runs.
struct AttentionOptions {
  int64_t heads = 1;
  int64_t kv_heads = 0;   ///< 0: as many as heads
  int64_t head_dim = 64;  ///< width of a query and a key
  int64_t model_dim = 0;  ///< width of the layer's input; needed by formulas that use x
  std::optional<RotaryOptions> rotary;
  Path path = Path::automatic;
  /// Leave out tiles whose whole weight is provably below this share of their rows; fused path only.
  double epsilon = 0;
};

/// What a call may give besides query, key and value.
struct AttentionCall {
  at::Tensor x;       ///< the layer's input for the queries, [batch, queries, model_dim]
  at::Tensor memory;  ///< the input that the keys come from, when it is another one (cross-attention)
  std::map<std::string, at::Tensor> inputs;  ///< the formula's inputs by name
  at::Tensor key_mask;                       ///< [batch, keys], true for real keys, false for padding
  int64_t offset = 0;                        ///< position of the first query, when there is no cache
  int64_t first_key = 0;  ///< position of the first key, when there is no cache and earlier keys are gone
  bool need_weights = false;
  double dropout = 0;             ///< of the weights
  std::optional<KeyLists> lists;  ///< look at these keys only
};

/// The path that was taken or would be, and why.
struct PathChoice {
  Path path;
  std::string reason;
};
/// For ordinary calls of a formula; a call that asks for more may take another.
PathChoice choose_path(const Formula& formula, Path wanted = Path::automatic);

/// Attention by a formula, as a torch module; `Attention` is its holder. What the formula learns are its
/// parameters, by their names in the formula.
///
///     saccade::Attention attention(formula, saccade::AttentionOptions{.heads = 8, .head_dim = 64});
///     auto out = attention->forward(q, k, v);
class AttentionImpl : public torch::nn::Module {
 public:
  /// Throws Error for heads that are not a multiple of the key heads, and other sizes that cannot be.
  AttentionImpl(Formula formula, AttentionOptions options);
  /// For one call with values that someone else owns. A param that is not among them has its start value.
  AttentionImpl(Formula formula, AttentionOptions options, const Learned& learned);
  /// Another formula over the learned values of `owner`, which both then share. It must learn the same
  /// things, as a formula does that was made from the owner's by adding a mask.
  AttentionImpl(Formula formula, const AttentionImpl& owner);

  /// query [batch, heads, queries, head_dim], key [batch, kv_heads, keys, head_dim], value [batch, kv_heads,
  /// keys, any width].
  at::Tensor forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionCall& call = {});
  /// The same for new tokens only; the cache remembers the earlier ones. Inputs by token or key are given for
  /// the new tokens.
  at::Tensor forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, KvCache& cache,
                     const AttentionCall& call = {});
  /// With log-sum-exps and, on request, weights. `cache` may be null.
  AttentionResult run(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                      const AttentionCall& call, KvCache* cache = nullptr);

  /// A cache that fits the formula, with a ring buffer where the mask allows one.
  KvCache make_cache() const;
  /// Brings every learned parameter back into its bounds; call it after each optimiser step.
  void clamp_parameters();

  const Formula& formula() const { return formula_; }
  const AttentionOptions& options() const { return options_; }
  /// The path of ordinary calls, and why.
  PathChoice path() const { return choose_path(formula_, options_.path); }
  void set_path(Path path) { options_.path = path; }
  /// Lets a selector choose the keys of every call that brings no lists; null: all keys are looked at.
  void set_selector(std::shared_ptr<Selector> selector) { selector_ = std::move(selector); }
  const std::shared_ptr<Selector>& selector() const { return selector_; }

  // --- the two halves of a call, for whoever looks inside ---

  /// The checks of a call and its first half.
  PairInputs checked_pairs(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const AttentionCall& call, KvCache* cache = nullptr);

  /// Everything per token: host expressions, rotary embedding, cache. Virtual, like the next one, so that
  /// tests can plant faults.
  virtual PairInputs prepare(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                             const AttentionCall& call, KvCache* cache);
  /// The pairs.
  virtual AttentionResult attend(const PairInputs& inputs, bool need_weights);

 private:
  void check_options();
  void create_parameters(const Learned* learned);
  void create_host_expressions(const Learned* learned);
  void check_call(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const AttentionCall& call, const KvCache* cache) const;
  at::Tensor layer_input(const AttentionCall& call, const VectorInfo& vector, int64_t first,
                         int64_t tokens) const;
  std::vector<at::Tensor> tables_of_call(const at::Tensor& query, const at::Tensor& key,
                                         const AttentionCall& call, KvCache* cache);

  Formula formula_;
  AttentionOptions options_;
  std::map<std::string, HostExpression> hosts_;
  std::shared_ptr<Selector> selector_;
};
TORCH_MODULE(Attention);

}  // namespace saccade
