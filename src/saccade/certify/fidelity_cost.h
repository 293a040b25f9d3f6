// What a candidate costs beside its baseline: memory of the attention of one layer, time to read a window,
// bytes in the KV cache.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "saccade/evaluate/questions.h"
#include "saccade/models/transformer.h"

namespace saccade {

struct MemoryPeak {
  int64_t attention = 0;  // bytes that torch's allocator and the kernels' workspace held at once
  int64_t process = 0;    // bytes of the whole process meanwhile, with both models in it
};

// The attention of one layer with its projections: forward, and in training backward too.
struct MemoryPoint {
  int64_t tokens = 0;
  bool training = false;
  MemoryPeak candidate, dense;      // dense: the baseline as it is
  std::optional<MemoryPeak> naive;  // the baseline by its definition, which holds n x n maps
  double saving() const;            // of the candidate against naive, as a share; NaN without one
  double saving_against_dense() const;
};

struct MemoryFidelity {
  int64_t layer = 0;
  std::vector<MemoryPoint> points;
  std::vector<std::string> remarks;  // what was left out, and why

  double least_saving(bool training) const;  // against naive; NaN if that was never measured
};

// Both models read as many tokens of `ids`, repeated where they do not suffice, and the layer gets what
// reaches it. The layer is the middle one of those that have another formula than the baseline, or of all.
MemoryFidelity compare_memory(Transformer baseline, Transformer candidate, std::span<const int32_t> ids,
                              std::span<const int64_t> lengths, const OnProgress& on_progress = {});

struct SpeedFidelity {
  int64_t tokens = 0, rounds = 0;
  double baseline_seconds = 0, candidate_seconds = 0;  // medians
  // Bytes per token after reading the window; none: the formula cannot decode.
  std::optional<double> baseline_cache, candidate_cache;
};

// The models take turns, so that a machine that is busy for a while slows down both.
SpeedFidelity compare_speed(Transformer baseline, Transformer candidate, std::span<const int32_t> ids,
                            int64_t rounds = 5);

}  // namespace saccade
