// Counts the tiles that fused forward passes leave out, for whoever wants to know: those that the mask
// empties, and those that `epsilon` finds negligible.
#pragma once

#include "saccade/kernels/kernels.h"

namespace saccade {

// Counts the calls of this thread while it lives. Counters may be nested; the innermost counts.
class SkipCount {
 public:
  SkipCount();
  ~SkipCount();
  SkipCount(const SkipCount&) = delete;
  SkipCount& operator=(const SkipCount&) = delete;

  const kernels::ForwardReport& report() const { return report_; }

  // Called by the operator.
  static void add(const kernels::ForwardReport& report);

 private:
  SkipCount* outer_;
  kernels::ForwardReport report_;
};

}  // namespace saccade
