// What the mask does to a whole tile, decided without looking at single pairs: from the band of distances
// that it allows, and from the smallest and largest values it reads in the tile's rows, columns and
// diagonals. A tile that is called empty or full is so for every pair.
#pragma once

#include "saccade/kernels/interval_machine.h"
#include "saccade/kernels/kernel_plan.h"

namespace saccade::kernels {

template <class Real>
class TileMap {
 public:
  TileMap(const KernelPlan& plan, const Shape& shape)
      : plan_(plan), shape_(shape), machine_(plan.plan.graph, plan.mask) {}

  // Keys that queries [begin, end) may look at at all.
  Range keys_of(Range queries) const;
  Range queries_of(Range keys) const;
  // Keys that one query may look at, when the band says everything.
  Range allowed_keys(int64_t query) const { return keys_of({query, query + 1}); }

  TileState state(const Slots<Real>& slots, Range queries, Range keys);
  // Whether it is worth asking for the state of picked keys: they span many others, whose values would all be
  // looked at. A band answers from both ends alone.
  bool decides(const int32_t* picked) const { return !picked || plan_.band.exact; }

 private:
  const KernelPlan& plan_;
  Shape shape_;
  IntervalMachine<Real> machine_;
};

}  // namespace saccade::kernels
