// Whether one translation is better than another by more than the choice of test sentences explains: paired
// bootstrap resampling (Koehn 2004).
#pragma once

#include <span>

#include "saccade/evaluate/bleu.h"

namespace saccade {

struct BootstrapOptions {
  int64_t samples = 1000;
  uint64_t seed = 12345;
};

struct PairedBootstrap {
  double difference = 0;  // of the second translation from the first, on the whole test set
  // The chance of a difference at least as large, in size, if there were none: by how often samples differ
  // from their mean by more. Two-sided.
  double p = 1;
  double lower = 0, upper = 0;  // of the difference: 95 % of all samples are between
};

// `first` and `second` are the counts of the same lines.
PairedBootstrap paired_bootstrap(std::span<const BleuCounts> first, std::span<const BleuCounts> second,
                                 const BleuOptions& bleu, const BootstrapOptions& options = {});

}  // namespace saccade
