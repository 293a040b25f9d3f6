// Keys by distance alone: a window of its own for each head, and the first tokens. A fixed window, sinks with
// a window, a learned span per head, and heads that are either full or local are all this.
#pragma once

#include <limits>

#include "saccade/sparse/selection.h"

namespace saccade {

// A span that reaches everything.
inline constexpr int64_t kWholeSpan = std::numeric_limits<int64_t>::max() / 4;

class SpanSelector : public SparseSelector {
 public:
  // `spans` [heads] of 64-bit integers: how many tokens before a tile each head keeps, in place of
  // options.near. Those of kWholeSpan keep all.
  SpanSelector(SelectionOptions options, bool causal, at::Tensor spans);

  std::string kind() const override { return "span"; }
  std::vector<std::pair<std::string, at::Tensor>> tensors() const override { return {{"spans", spans_}}; }
  std::vector<double> settings() const override;  // spans
  void set(int64_t head, int64_t, double setting) override { spans_[head] = static_cast<int64_t>(setting); }
  const std::vector<int64_t>& ranges() const override { return ranges_; }
  double operations(int64_t) const override { return 0; }
  std::optional<KeyLists> select(const PairInputs& inputs, KvCache* cache) override;

  const at::Tensor& spans() const { return spans_; }
  // Lets each head be set to all keys or the shortest span only.
  void full_or_local(bool wanted) { full_or_local_ = wanted; }

 private:
  at::Tensor spans_;
  std::vector<int64_t> ranges_ = {0};
  bool full_or_local_ = false;
};

}  // namespace saccade
