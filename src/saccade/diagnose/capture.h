// The attention weights themselves, of the layers, heads and rows that someone wants to see. Rows are
// computed a few at a time, so a capture holds what was asked for and one tile beside it, never a whole n x n
// map.
#pragma once

#include <optional>
#include <vector>

#include "saccade/models/transformer.h"

namespace saccade {

struct CaptureOptions {
  std::vector<int64_t> layers, heads;  // empty: all
  int64_t first_row = 0, rows = 0;     // rows 0: up to the last
  // Side of a cell: so many rows and keys become one value, that of the largest size. 1: every weight.
  int64_t cell = 1;
  int64_t most_bytes = int64_t{1} << 28;  // a capture that would hold more is refused
};

// Of one head.
struct CapturedHead {
  int64_t layer = 0, head = 0;
  at::Tensor weights;  // [rows, keys] in cells, float
  // Which pairs a selector kept, a share of each cell; undefined: the layer has none, or it chose to look at
  // everything.
  at::Tensor kept;
};

struct Capture {
  int64_t tokens = 0, first_row = 0, rows = 0, cell = 1;
  bool has_negative = false;
  std::vector<CapturedHead> heads;  // by layer, then by head
};

// Bytes of the weights; what a selector kept takes as many again.
int64_t bytes_of_capture(const Architecture& architecture, int64_t tokens, const CaptureOptions& options);

// `ids` is [tokens]: one text. The model is left as it was. Throws Error for layers, heads and rows that are
// not there, and for more bytes than allowed.
Capture capture_attention(Transformer model, const at::Tensor& ids, const CaptureOptions& options = {});

}  // namespace saccade
