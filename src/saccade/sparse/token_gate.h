// Keys that are worth keeping, whoever will ask: a gate looks at a token's key and value alone and foresees
// the largest weight that a later query will give it. What no head of a key head's group wants leaves the KV
// cache for good, as soon as it is no longer near. A text that is written token by token keeps what it would
// keep if it were read at once.
#pragma once

#include "saccade/kernels/key_selection.h"
#include "saccade/sparse/selection.h"

namespace saccade {

// A small network for each query head. With the features f of a token, which are the numbers of its key and
// its value and their squares, the logarithm of its largest later weight is
//     output_map . silu(input_map f + input_bias) + direct . f + constant
struct TokenGate {
  at::Tensor input_map, input_bias;  // [heads, features, hidden], [heads, hidden]
  at::Tensor output_map;             // [heads, hidden]
  at::Tensor direct;                 // [heads, features]
  at::Tensor constant;               // [heads]
  at::Tensor thresholds;             // [heads], of the weight itself; see kernels::kKeepAll and kKeepNone

  int64_t heads() const { return input_map.size(0); }
  int64_t hidden() const { return input_map.size(2); }
  static int64_t features(int64_t key_width, int64_t value_width) { return 2 * (key_width + value_width); }
  // [..., tokens, features] from [..., tokens, width] each.
  static at::Tensor features_of(const at::Tensor& key, const at::Tensor& value);

  // The logarithms, [batch, heads, tokens] of float, from [batch, key heads, tokens, width]. All are finite.
  at::Tensor estimate(const at::Tensor& key, const at::Tensor& value) const;
  // Throws Error, naming `where`, unless all sizes fit together.
  void check(std::string_view where) const;
  // The tensors by name, for files and for training.
  std::vector<std::pair<std::string, at::Tensor*>> named();
};

// What keeps tokens from being evicted with this formula, or "": the kernels see tokens that were moved
// together at other positions than their own, so it must not look at those of keys.
std::string eviction_obstacle(const Formula& formula);
// Throws Error where there is one.
void require_evictable(const Formula& formula);

class TokenGateSelector : public SparseSelector {
 public:
  // Throws Error unless `causal`: to evict a key makes sense only when looking back.
  TokenGateSelector(SelectionOptions options, bool causal, TokenGate gate);

  std::string kind() const override { return "token_gate"; }
  std::vector<std::pair<std::string, at::Tensor>> tensors() const override;
  std::vector<double> settings() const override;  // thresholds
  void set(int64_t head, int64_t, double setting) override { gate_.thresholds[head] = setting; }
  const std::vector<int64_t>& ranges() const override { return ranges_; }
  // What reading has evicted, decoding cannot look at.
  bool decodes_apart() const override { return false; }
  int64_t cached_bytes(const KvCache& cache) const override;
  double operations(int64_t tokens) const override;
  void check_formula(const Formula& formula) const override { require_evictable(formula); }
  void make_room(KvCache& cache, const Formula& formula) override;
  std::optional<KeyLists> select(const PairInputs& inputs, KvCache* cache) override;

  TokenGate& gate() { return gate_; }

 private:
  at::Tensor estimate(const PairInputs& inputs, KvCache* cache) const;
  int64_t first_near(int64_t position) const;

  TokenGate gate_;
  std::vector<int64_t> ranges_ = {0};
};

}  // namespace saccade
