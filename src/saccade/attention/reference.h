// The definition of attention for a formula: the plan evaluated node by node in plain tensor operations,
// holding the whole n x n map. Slow and large on purpose; every faster path is measured against it.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "saccade/attention/key_lists.h"
#include "saccade/formula/plan.h"

namespace saccade {

// A call with everything that is per token already computed: vectors are finished (rotated, with the cache's
// keys), tables are in the canonical layout [batch or 1, head or 1, subscripted dimensions ...] in the order
// of the plan's tables.
struct PairInputs {
  std::vector<at::Tensor>
      queries;  // [batch, heads, queries, d]: q, then the plan's vectors (undefined where not a query)
  std::vector<at::Tensor>
      keys;          // [batch, kv heads, keys, d]: k, then the plan's vectors (undefined where not a key)
  at::Tensor value;  // [batch, kv heads, keys, d_v]
  std::vector<at::Tensor> tables;
  at::Tensor key_mask;            // [batch, keys], true for real keys; undefined: all are real
  int64_t offset = 0;             // position of the first query
  int64_t first_key = 0;          // position of the first key
  double dropout = 0;             // of the weights, for training
  std::optional<KeyLists> lists;  // the only keys to look at
  double epsilon = 0;             // fused path: leave out tiles of less than this share of their rows' weight
  bool skip = true;               // fused path: leave out tiles that the mask empties
  // Fused path: pick listed keys, or walk over all and hide the others. Not said: as the machine likes it.
  std::optional<bool> gather;
};

struct AttentionResult {
  at::Tensor output;  // [batch, heads, queries, d_v]
  // For each norm of the formula the logarithm of what it divides by, [batch, heads, queries]; -inf for a row
  // with no key.
  std::vector<at::Tensor> log_sums;
  at::Tensor weights;  // [batch, heads, queries, keys]; only on request
};

AttentionResult reference_attention(const Plan& plan, const PairInputs& inputs, bool need_weights);

// A table's tensor brought to the canonical layout. Its dimensions must be the declared ones in order; an
// input may have a batch dimension in front that its declaration does not mention. `sizes` gives what is
// known: an expected size, or -1 for any.
struct KnownSizes {
  int64_t batch, heads, tokens, queries, keys;
};
at::Tensor canonical_table(const TableInfo& table, const at::Tensor& tensor, const KnownSizes& sizes,
                           at::ScalarType dtype);

}  // namespace saccade
