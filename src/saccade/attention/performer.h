// Attention whose softmax is estimated by random features (Performer, FAVOR+): the same module as Attention,
// with time and memory linear in the number of tokens, for an error that random_features.h and
// docs/performer.md speak of. It runs the formulas `causal` and `full`.
#pragma once

#include "saccade/attention/attention.h"
#include "saccade/attention/random_features.h"

namespace saccade {

struct PerformerOptions {
  int64_t features = 256;
  uint64_t seed = 0;    // give each layer another one, so that their errors are independent
  int64_t chunk = 128;  // tokens that are handled at once; it changes the speed and the rounding alone
};

// What decoding needs of earlier tokens. Its size does not depend on their number: [features, d_v + 1] for
// each key head. It holds values only, and cannot forget a token.
class PerformerState {
 public:
  // Tokens seen so far: the position of the next one.
  int64_t length() const { return length_; }
  int64_t batch() const { return length_ == 0 ? 0 : sums_.sums.size(0) / kv_heads_; }
  int64_t bytes() const;
  void reset() { *this = {}; }
  // Makes sequence b of the batch a copy of sequence indices[b]: beams that survive.
  void reorder(const at::Tensor& indices);

 private:
  friend class PerformerImpl;
  FeatureSums sums_;  // replaced by each step, never written to: copies are independent
  int64_t kv_heads_ = 1, length_ = 0;
  int64_t draw_ = 0;  // of the directions that it was computed with
};

class PerformerImpl : public AttentionImpl {
 public:
  PerformerImpl(Formula formula, AttentionOptions options, PerformerOptions performer = {});

  // With a KvCache, which any Attention takes, a step computes the features of all cached keys again. With a
  // PerformerState its cost does not depend on their number.
  using AttentionImpl::forward;
  at::Tensor forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     PerformerState& state, const AttentionCall& call = {});

  // Draws other directions, as is usual now and then in training: errors then average out over steps. Not
  // between a forward and its backward, and not while decoding.
  void redraw();

  // log_sums hold the estimate; weights, on request, the n x n map.
  AttentionResult attend(const PairInputs& inputs, bool need_weights) override;

  const PerformerOptions& performer_options() const { return performer_; }
  // [features, head_dim], a buffer: checkpoints hold it.
  const at::Tensor& directions() const { return directions_; }

 private:
  FeatureCall feature_call(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const at::Tensor& key_mask) const;

  PerformerOptions performer_;
  bool causal_;
  int64_t draws_ = 0;
  at::Tensor directions_;
};
TORCH_MODULE(Performer);

// --- how good it is

struct PerformerErrorOptions {
  std::vector<int64_t> lengths = {256, 1024, 4096};
  std::vector<int64_t> features = {16, 32, 64, 128, 256, 512, 1024};
  std::vector<double> logit_scales = {0.1, 0.25, 0.5, 1, 2};
  int64_t heads = 2, head_dim = 64;
  int64_t draws = 4;
  uint64_t seed = 1;
};

// The distance between Performer and exact attention, |performer - exact| / |exact| of the outputs, over all
// heads and tokens and several draws (root mean square). Queries, keys and values are independent normal
// numbers, scaled so that the scaled dot products have the standard deviation `logit_scale`. The rows
// with 0 features are for comparison: the plain mean of the values that a query may see.
struct PerformerError {
  int64_t length;
  double logit_scale;
  int64_t features;
  double error;
};
std::vector<PerformerError> performer_error_table(const Formula& formula,
                                                  const PerformerErrorOptions& options = {});

}  // namespace saccade
