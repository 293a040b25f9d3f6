// The word cache: words of up to 15 bytes are two machine words, and comparing them is two instructions.
#include "saccade/text/model.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace saccade {

// Memory from calloc is not touched before it is used: a short text pays for little of the table.
WordCache::WordCache() : entries_(static_cast<Entry*>(std::calloc(kEntries, sizeof(Entry)))) {
  if (!entries_) throw std::bad_alloc();
}

void WordCache::Free::operator()(Entry* entries) const { std::free(entries); }

std::span<const int32_t> WordCache::get(std::string_view word) {
  char bytes[sizeof(Key)] = {};
  std::memcpy(bytes, word.data(), word.size());
  bytes[sizeof bytes - 1] = static_cast<char>(word.size());
  std::memcpy(wanted_.data(), bytes, sizeof bytes);
  const uint64_t mixed = (wanted_[0] ^ (wanted_[1] * 0x9E3779B97F4A7C15)) * 0xD6E8FEB86659FD93;
  place_ = &entries_[(mixed >> 32 ^ mixed >> 47) % kEntries];
  if (place_->key != wanted_) return {};
  return {place_->ids.data(), place_->count};
}

void WordCache::put(std::span<const int32_t> ids) {
  if (ids.size() > place_->ids.size()) return;
  place_->key = wanted_;
  place_->count = static_cast<uint32_t>(ids.size());
  std::copy(ids.begin(), ids.end(), place_->ids.begin());
}

}  // namespace saccade
