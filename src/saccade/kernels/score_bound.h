// Which tiles carry no weight that matters: by the Cauchy-Schwarz inequality a score is at most |q| |k| times
// the scale, the formula's interval rules carry that bound to the argument of each softmax, and what lies far
// enough below a row's largest argument is dropped. The dropped weight of a row is at most epsilon of it.
#pragma once

#include "saccade/kernels/forward_tile.h"

namespace saccade::kernels {

template <class Real>
class ScoreBound {
 public:
  // Finds the norms of all vectors, in parallel. Without an epsilon, or for weights that are not softmax
  // alone, nothing is ever negligible.
  ScoreBound(const CallContext<Real>& context, double epsilon);

  bool enabled() const { return enabled_; }
  // Whether the tile can be left out, when the rows have arguments of at least `floors[term]` elsewhere.
  bool negligible(int64_t batch, int64_t head, Range queries, Range keys,
                  const std::vector<Real>& floors) const;

 private:
  void find_norms(const std::vector<Array>& arrays, int64_t heads, int64_t tokens,
                  std::vector<std::vector<Real>>& norms);

  const CallContext<Real>& context_;
  bool enabled_ = false;
  double depth_ = 0;                                        // how far below counts as nothing
  std::vector<std::vector<Real>> query_norms_, key_norms_;  // by vector, [batch][head][token]
};

}  // namespace saccade::kernels
