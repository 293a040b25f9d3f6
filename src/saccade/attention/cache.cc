// Tracks are buffers that double when full. With a ring, the held tokens slide to the front of the buffer now
// and then instead of wrapping around: keys stay in order and contiguous, at an amortised cost of one copy
// per token, because a slide frees at least as many places as it copies.
#include "saccade/attention/cache.h"

#include <algorithm>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"

namespace saccade {
namespace {

// A buffer like this one for `capacity` tokens, which begins with `count` of its tokens from `first` on.
at::Tensor moved(const at::Tensor& buffer, int64_t capacity, int64_t first, int64_t count) {
  const at::Tensor result =
      at::empty({buffer.size(0), buffer.size(1), capacity, buffer.size(3)}, buffer.options());
  result.narrow(2, 0, count).copy_(buffer.narrow(2, first, count));
  return result;
}

}  // namespace

KvCache::KvCache(const KvCache& other) : ring_(other.ring_), length_(other.length_), first_(other.first_) {
  for (const auto& [name, track] : other.tracks_) tracks_[name] = track.clone();
}

int64_t KvCache::bytes_held() const {
  int64_t bytes = 0;
  for (const auto& [name, track] : tracks_)
    bytes += track.size(0) * track.size(1) * (length_ - first_) * track.size(3) *
             static_cast<int64_t>(track.element_size());
  return bytes;
}

int64_t KvCache::bytes_allocated() const {
  int64_t bytes = 0;
  for (const auto& [name, track] : tracks_) bytes += static_cast<int64_t>(track.nbytes());
  return bytes;
}

void KvCache::reset() {
  length_ = first_ = 0;
  tracks_.clear();
}

// The oldest position that a cache of this length must hold: what the next token may see, and always the last
// token, from which running sums go on.
int64_t KvCache::oldest_needed(int64_t length) const {
  return ring_ ? std::max<int64_t>(0, length - std::max<int64_t>(1, *ring_ - 1)) : 0;
}

void KvCache::crop(int64_t length) {
  require(length >= 0 && length <= length_, "cache: cannot crop to {} tokens; it has {}", length, length_);
  if (length == 0) return reset();
  const int64_t needed = oldest_needed(length);
  require(first_ <= needed,
          "cache: cannot crop to {} tokens; its ring buffer holds positions {} to {} and the next token "
          "needs {} on",
          length, first_, length_ - 1, needed);
  length_ = length;
}

void KvCache::reorder(const at::Tensor& indices) {
  require(indices.defined() && indices.dim() == 1 && !indices.is_floating_point() &&
              indices.scalar_type() != at::kBool,
          "cache: reorder needs a list of batch indices, not {}",
          indices.defined()
              ? fmt::format("{} of shape {}", c10::toString(indices.scalar_type()), shape_text(indices))
              : "nothing");
  for (auto& [name, track] : tracks_) {
    const at::Tensor index = indices.to(track.device(), at::kLong);
    const bool valid =
        index.numel() > 0 && index.min().item<int64_t>() >= 0 && index.max().item<int64_t>() < track.size(0);
    require(valid, "cache: reorder has an index outside 0..{}", track.size(0) - 1);
    track = track.index_select(0, index);
  }
}

void KvCache::make_room(int64_t count) {
  if (!ring_ || tracks_.empty()) return;
  int64_t capacity = std::numeric_limits<int64_t>::max();
  for (const auto& [name, track] : tracks_) capacity = std::min(capacity, track.size(2));
  if (length_ - first_ + count <= capacity) return;
  const int64_t keep_from = std::max(first_, oldest_needed(length_)), held = length_ - keep_from;
  if (keep_from - first_ < held) return;  // too little to gain: the buffers grow instead
  const int64_t room = std::max(held + count, 2 * *ring_);
  for (auto& [name, track] : tracks_) {
    if (track.size(2) > 2 * room)  // what a long prompt has left
      track = moved(track, room, keep_from - first_, held);
    else  // clone: source and target overlap
      track.narrow(2, 0, held).copy_(track.narrow(2, keep_from - first_, held).clone());
  }
  first_ = keep_from;
}

void KvCache::begin(const std::string& track, const at::Tensor& held) {
  require(held.size(2) == length_ - first_, "cache: '{}' begins with {} tokens; it holds {}", track,
          held.size(2), length_ - first_);
  tracks_[track] = held.detach().clone();
}

at::Tensor KvCache::append(const std::string& track, const at::Tensor& values) {
  const int64_t held = length_ - first_, count = values.size(2);
  const auto found = tracks_.find(track);
  require(found != tracks_.end() || held == 0, "cache: '{}' was not given for the first {} tokens", track,
          length_);
  const at::Tensor fresh = values.detach();
  if (found == tracks_.end() || length_ == 0) {
    const int64_t capacity = std::max<int64_t>(count, ring_ ? std::min<int64_t>(2 * *ring_, 256) : 16);
    tracks_[track] = at::empty({fresh.size(0), fresh.size(1), capacity, fresh.size(3)}, fresh.options());
  }
  at::Tensor& buffer = tracks_[track];
  require(buffer.size(0) == fresh.size(0), "cache: it holds {} sequences, the new tokens have {}",
          buffer.size(0), fresh.size(0));
  require(buffer.size(1) == fresh.size(1) && buffer.size(3) == fresh.size(3) &&
              buffer.scalar_type() == fresh.scalar_type(),
          "cache: '{}' was {} with {} heads of width {}; the new tokens are {} with {} heads of width {}",
          track, c10::toString(buffer.scalar_type()), buffer.size(1), buffer.size(3),
          c10::toString(fresh.scalar_type()), fresh.size(1), fresh.size(3));
  if (held + count > buffer.size(2))
    buffer = moved(buffer, std::max(held + count, 2 * buffer.size(2)), 0, held);
  buffer.narrow(2, held, count).copy_(fresh);
  return buffer.narrow(2, 0, held + count);
}

at::Tensor KvCache::last(const std::string& track) const {
  const auto found = tracks_.find(track);
  if (found == tracks_.end() || length_ == first_) return {};
  return found->second.narrow(2, length_ - first_ - 1, 1);
}

}  // namespace saccade
