// Tracks are buffers that double when full. With a ring, the held tokens slide to the front of the buffer now
// and then instead of wrapping around: keys stay in order and contiguous, at an amortised cost of one copy
// per token, because a slide frees at least as many places as it copies.
#include "saccade/attention/cache.h"

#include <algorithm>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"

namespace saccade {
namespace {

at::Tensor new_buffer(int64_t batch, int64_t heads, int64_t capacity, int64_t width,
                      const at::TensorOptions& options, KvCache::Order order) {
  if (order == KvCache::Order::tokens) return at::empty({batch, heads, capacity, width}, options);
  const int64_t whole =
      (capacity + KvCache::kWholeTokens - 1) / KvCache::kWholeTokens * KvCache::kWholeTokens;
  return at::zeros({batch, heads, width, whole}, options).transpose(2, 3);
}

// One for `capacity` tokens that lies like another.
at::Tensor buffer_like(const at::Tensor& buffer, int64_t batch, int64_t capacity) {
  return new_buffer(batch, buffer.size(1), capacity, buffer.size(3), buffer.options(),
                    buffer.is_contiguous() ? KvCache::Order::tokens : KvCache::Order::features);
}

// A buffer like this one for `capacity` tokens, which begins with `count` of its tokens from `first` on.
at::Tensor moved(const at::Tensor& buffer, int64_t capacity, int64_t first, int64_t count) {
  const at::Tensor result = buffer_like(buffer, buffer.size(0), capacity);
  result.narrow(2, 0, count).copy_(buffer.narrow(2, first, count));
  return result;
}

// Room for tokens that come between two evictions.
int64_t spare(int64_t held) { return std::max<int64_t>(64, held / 4); }

}  // namespace

KvCache::KvCache(const KvCache& other)
    : ring_(other.ring_), length_(other.length_), first_(other.first_), shortest_(other.shortest_) {
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
  length_ = first_ = shortest_ = 0;
  tracks_.clear();
}

// The oldest position that a cache of this length must hold: what the next token may see, and always the last
// token, from which running sums go on.
int64_t KvCache::oldest_needed(int64_t length) const {
  return ring_ ? std::max<int64_t>(0, length - std::max<int64_t>(1, *ring_ - 1)) : 0;
}

void KvCache::check_crop(int64_t length) const {
  require(length >= 0 && length <= length_, "cache: cannot crop to {} tokens; it has {}", length, length_);
  if (length == 0) return;
  const int64_t needed = oldest_needed(length);
  require(!ring_ || first_ <= needed,
          "cache: cannot crop to {} tokens; its ring buffer holds positions {} to {} and the next token "
          "needs {} on",
          length, first_, length_ - 1, needed);
  require(length >= shortest_,
          "cache: cannot crop to {} tokens; with fewer than {}, tokens that were evicted would count again",
          length, shortest_);
}

void KvCache::crop(int64_t length) {
  check_crop(length);
  if (length == 0) return reset();
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
    at::Tensor chosen = track.index_select(0, index);
    if (!track.is_contiguous()) {  // those by feature are made as they were
      const at::Tensor buffer = buffer_like(track, index.numel(), track.size(2));
      chosen = buffer.copy_(chosen);
    }
    track = chosen;
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

at::Tensor KvCache::append(const std::string& track, const at::Tensor& values, Order order) {
  const int64_t held = length_ - first_, count = values.size(2);
  const auto found = tracks_.find(track);
  require(found != tracks_.end() || held == 0, "cache: '{}' was not given for the first {} tokens", track,
          length_);
  const at::Tensor fresh = values.detach();
  if (found == tracks_.end() || length_ == 0) {
    const int64_t capacity = std::max<int64_t>(count, ring_ ? std::min<int64_t>(2 * *ring_, 256) : 16);
    tracks_[track] =
        new_buffer(fresh.size(0), fresh.size(1), capacity, fresh.size(3), fresh.options(), order);
  }
  at::Tensor& buffer = tracks_[track];
  require(buffer.size(0) == fresh.size(0), "cache: it holds {} sequences, the new tokens have {}",
          buffer.size(0), fresh.size(0));
  require(buffer.size(1) == fresh.size(1) && buffer.size(3) == fresh.size(3) &&
              buffer.scalar_type() == fresh.scalar_type(),
          "cache: '{}' was {} with {} heads of width {}; the new tokens are {} with {} heads of width {}",
          track, c10::toString(buffer.scalar_type()), buffer.size(1), buffer.size(3),
          c10::toString(fresh.scalar_type()), fresh.size(1), fresh.size(3));
  if (held + count > buffer.size(2)) {
    // Where tokens are evicted, not much more room is needed until the next ones go.
    const int64_t more = shortest_ > 0 ? spare(buffer.size(2)) : buffer.size(2);
    buffer = moved(buffer, std::max(held + count, buffer.size(2) + more), 0, held);
  }
  buffer.narrow(2, held, count).copy_(fresh);
  return buffer.narrow(2, 0, held + count);
}

at::Tensor KvCache::held(const std::string& track) const {
  const auto found = tracks_.find(track);
  require(found != tracks_.end(), "cache: it has no '{}'", track);
  return found->second.narrow(2, 0, length_ - first_);
}

void KvCache::evict(const at::Tensor& keep, const std::string& marks, int64_t shortest) {
  const int64_t held = length_ - first_;
  require(!ring_, "cache: a ring buffer of {} keys drops tokens by itself; none can be evicted", *ring_);
  require(
      keep.dim() == 3 && keep.scalar_type() == at::kBool && keep.size(0) == batch() && keep.size(2) == held,
      "cache: what to keep has shape {} and dtype {}; expected [{}, key heads, {}] of bool", shape_text(keep),
      c10::toString(keep.scalar_type()), batch(), held);
  require(shortest <= length_, "cache: it cannot be cropped to {} tokens; it has {}", shortest, length_);
  const int64_t key_heads = keep.size(1);
  for (const auto& [name, track] : tracks_)
    require(track.size(1) % key_heads == 0 || track.scalar_type() == at::kBool,
            "cache: '{}' has {} heads, the keys {}; no token of it can be evicted for one head alone", name,
            track.size(1), key_heads);
  const int64_t left = held == 0 ? 0 : keep.sum(-1).max().item<int64_t>();
  // What goes comes first, in order; of that, just enough stays to fill the heads that keep less.
  const at::Tensor slots = keep.to(at::kByte).argsort(/*stable=*/true, -1).narrow(2, held - left, left);
  const at::Tensor empty = keep.gather(2, slots).logical_not();
  const int64_t capacity = left + spare(left);
  for (auto& [name, track] : tracks_) {
    const at::Tensor buffer = buffer_like(track, track.size(0), capacity);
    at::Tensor kept = buffer.narrow(2, 0, left);
    if (track.scalar_type() == at::kBool) {  // the mask, which has no heads: `marks` knows padding by now
      kept.fill_(true);
    } else {
      const int64_t shared = track.size(1) / key_heads;
      const at::Tensor index = (shared == 1 ? slots : slots.repeat_interleave(shared, 1)).unsqueeze(-1);
      kept.copy_(track.narrow(2, 0, held).gather(2, index.expand({-1, -1, -1, track.size(3)})));
      if (name == marks)
        kept.masked_fill_(empty.repeat_interleave(shared, 1).unsqueeze(-1),
                          -std::numeric_limits<double>::infinity());
    }
    track = buffer;
  }
  first_ = length_ - left;
  shortest_ = std::max(shortest_, shortest);
}

at::Tensor KvCache::last(const std::string& track) const {
  const auto found = tracks_.find(track);
  if (found == tracks_.end() || length_ == first_) return {};
  return found->second.narrow(2, length_ - first_ - 1, 1);
}

}  // namespace saccade
