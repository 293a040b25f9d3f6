// The KV cache of one layer: what decoding needs of earlier tokens. Besides keys and values it keeps
// everything the formula reads at [j] (token inputs, computed key vectors, running sums), so that a step sees
// exactly what the full forward would see. It holds values only: no gradient flows through it.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>

namespace saccade {

/// What decoding needs of earlier tokens, in one layer. `Attention::make_cache` makes one that fits.
class KvCache {
 public:
  /// `ring`: only so many last keys are ever looked at, and older ones may be dropped.
  explicit KvCache(std::optional<int64_t> ring = {}) : ring_(ring) {}
  /// A copy goes its own way: it shares no buffer.
  KvCache(const KvCache& other);
  KvCache& operator=(const KvCache& other) { return *this = KvCache(other); }
  KvCache(KvCache&&) = default;
  KvCache& operator=(KvCache&&) = default;

  /// Tokens seen so far: the position of the next one.
  int64_t length() const { return length_; }
  /// The position of the oldest token that is still held; after an eviction, length() less the slots that are
  /// held.
  int64_t first() const { return first_; }
  std::optional<int64_t> ring() const { return ring_; }
  /// Sequences in the batch; 0 before the first token.
  int64_t batch() const { return length_ == 0 ? 0 : tracks_.begin()->second.size(0); }
  /// The bytes of all tokens that are held, and of the buffers that hold them.
  int64_t bytes_held() const;
  int64_t bytes_allocated() const;

  /// Forgets everything: the next sequence may have another batch size and dtype.
  void reset();
  /// Forgets the tokens from position `length` on, for example after rejected guesses. Throws Error where a
  /// token that is gone would count again.
  void crop(int64_t length);
  /// Throws what crop() would throw, and changes nothing.
  void check_crop(int64_t length) const;
  /// Makes sequence b of the batch a copy of sequence indices[b]: beams that survive. The batch may grow or
  /// shrink.
  void reorder(const at::Tensor& indices);

  // --- for Attention: one step makes room, appends to every track, then advances. What a step has appended
  // counts only once it advances: a step that fails leaves nothing behind.

  /// Makes room for `count` new tokens, dropping what the ring allows.
  void make_room(int64_t count);
  /// Begins a track late, with values for the tokens that are held already.
  void begin(const std::string& track, const at::Tensor& held);
  /// How a new track lies in memory: a token's values side by side, or each feature's values of all tokens.
  /// Then up to the next multiple of kWholeTokens can be read behind the last token.
  enum class Order : uint8_t { tokens, features };
  static constexpr int64_t kWholeTokens = 64;
  /// Puts the new tokens' values, [batch, heads or 1, count, width], behind the held ones and returns all of
  /// them.
  at::Tensor append(const std::string& track, const at::Tensor& values, Order order = Order::tokens);
  /// All held values of a track, [batch, heads or 1, held, width].
  at::Tensor held(const std::string& track) const;
  /// Drops slots for good, for each sequence and key head others: those that stay, `keep` [batch, key heads,
  /// held] of bool, move together and end where they ended, so that the last tokens stay in their places and
  /// older ones lose theirs. A head that keeps fewer than another has slots in front that hold nothing:
  /// there, the track `marks` becomes -infinity. Padding counts as nothing, too. Afterwards the cache cannot
  /// be cropped to fewer than `shortest` tokens.
  void evict(const at::Tensor& keep, const std::string& marks, int64_t shortest);
  /// The fewest tokens that it can be cropped to, as far as eviction goes; 0: nothing was evicted.
  int64_t shortest() const { return shortest_; }
  /// The last held value of a track, [batch, heads or 1, 1, width]; undefined before the first token.
  at::Tensor last(const std::string& track) const;
  bool has(const std::string& track) const { return tracks_.contains(track); }
  /// Counts the appended tokens as seen.
  void advance(int64_t count) { length_ += count; }

 private:
  int64_t oldest_needed(int64_t length) const;

  std::optional<int64_t> ring_;
  int64_t length_ = 0;
  int64_t first_ = 0;
  int64_t shortest_ = 0;
  std::map<std::string, at::Tensor> tracks_;  // [batch, heads, capacity, width]
};

}  // namespace saccade
