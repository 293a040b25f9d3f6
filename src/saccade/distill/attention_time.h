// How long the attention of a model takes on a real text, dense and sparse, layer after layer, and from which
// length on choosing keys pays.
#pragma once

#include "saccade/base/json.h"
#include "saccade/distill/layer_stream.h"
#include "saccade/sparse/sparse_model.h"

namespace saccade {

struct AttentionTime {
  int64_t tokens = 0;
  // Seconds of all layers together, the shortest of a few rounds for each layer: `sparse` with the choosing
  // in it.
  double dense = 0, sparse = 0, choosing = 0;
  double density = 0;
  // The same for one new token, with all others in the cache.
  double next_dense = 0, next_sparse = 0, next_density = 0;
  // The bytes of keys and values that this token reads, and with chosen keys also those of the numbers by
  // which they are chosen.
  double next_dense_bytes = 0, next_sparse_bytes = 0;
};

// The two take turns.
AttentionTime measure_attention_time(Transformer model, const Selectors& selectors, const TokenIds& text,
                                     int64_t rounds);

inline constexpr int64_t kShortestTimed = 512;  // tokens; below, choosing does not pay

// Times at doubling lengths of the text, and sets min_keys and min_cached of the selectors to the first
// length from which on sparse attention is faster at all measured ones; beyond all measured lengths if it
// never is.
std::vector<AttentionTime> set_crossover(Transformer model, const Selectors& selectors, const TokenIds& text,
                                         int64_t longest);

Json to_json(const AttentionTime& time);

}  // namespace saccade
