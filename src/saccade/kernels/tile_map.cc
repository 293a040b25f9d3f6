// The band answers most questions; interval arithmetic over the mask's few instructions the rest.
#include "saccade/kernels/tile_map.h"

#include <algorithm>

namespace saccade::kernels {

template <class Real>
Range TileMap<Real>::keys_of(Range queries) const {
  Range keys{0, shape_.keys};
  const int64_t shift = shape_.offset - shape_.first_key;
  if (plan_.band.high)
    keys.begin = std::clamp<int64_t>(queries.begin + shift - *plan_.band.high, 0, shape_.keys);
  if (plan_.band.low) keys.end = std::clamp<int64_t>(queries.end + shift - *plan_.band.low, 0, shape_.keys);
  return keys;
}

template <class Real>
Range TileMap<Real>::queries_of(Range keys) const {
  Range queries{0, shape_.queries};
  const int64_t shift = shape_.offset - shape_.first_key;
  if (plan_.band.low)
    queries.begin = std::clamp<int64_t>(keys.begin - shift + *plan_.band.low, 0, shape_.queries);
  if (plan_.band.high)
    queries.end = std::clamp<int64_t>(keys.end - shift + *plan_.band.high, 0, shape_.queries);
  return queries;
}

template <class Real>
TileState TileMap<Real>::state(const Slots<Real>& slots, Range queries, Range keys) {
  if (!plan_.masked) return TileState::full;
  if (queries.empty() || keys.empty()) return TileState::empty;
  if (plan_.band.exact) {
    const Range first = allowed_keys(queries.begin), last = allowed_keys(queries.end - 1);
    if (last.end <= keys.begin || first.begin >= keys.end) return TileState::empty;
    return first.end >= keys.end && last.begin <= keys.begin ? TileState::full : TileState::mixed;
  }
  machine_.run(slots, queries, keys);
  const Interval mask = machine_.value(plan_.mask.outputs[0]);
  return mask.always_false() ? TileState::empty : mask.always_true() ? TileState::full : TileState::mixed;
}

template class TileMap<float>;
template class TileMap<double>;

}  // namespace saccade::kernels
