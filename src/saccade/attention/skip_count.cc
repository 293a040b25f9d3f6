// The innermost counter of each thread.
#include "saccade/attention/skip_count.h"

namespace saccade {
namespace {
thread_local SkipCount* innermost = nullptr;
}

SkipCount::SkipCount() : outer_(innermost) { innermost = this; }
SkipCount::~SkipCount() { innermost = outer_; }

void SkipCount::add(const kernels::ForwardReport& report) {
  if (!innermost) return;
  innermost->report_.tiles += report.tiles;
  innermost->report_.empty += report.empty;
  innermost->report_.negligible += report.negligible;
}

}  // namespace saccade
