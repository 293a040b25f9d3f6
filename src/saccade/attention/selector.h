// What chooses the keys of sparse attention. A selector sits between the two halves of a call: it sees the
// finished queries and keys, and says which keys each tile of queries may look at.
#pragma once

#include <optional>

#include "saccade/attention/cache.h"
#include "saccade/attention/reference.h"
#include "saccade/formula/formula.h"

namespace saccade {

class Selector {
 public:
  virtual ~Selector() = default;

  // Called at the start of a step, before the new tokens enter the cache: a selector that looks at some of
  // the held ones never again may evict them.
  virtual void make_room(KvCache&, const Formula&) {}

  // The keys to look at; nothing: all of them. In decoding, `cache` already holds the new tokens' keys, which
  // do not count as seen yet, and a selector may keep tracks of its own in it; otherwise it is null.
  virtual std::optional<KeyLists> select(const PairInputs& inputs, KvCache* cache) = 0;

  // Called before select, for selectors that change a call in another way, such as by an input of the formula
  // that is computed from queries and keys.
  virtual void adjust(PairInputs&) {}

  // Called with what came out, for selectors that only watch.
  virtual void finished(const PairInputs&, const AttentionResult&) {}
};

}  // namespace saccade
