// The merges are a hash table from a pair of ids to a rank and an id. Short words look for the smallest rank
// by going through all pairs, long ones keep a queue; both join the leftmost of equal pairs first.
#include "saccade/text/bpe.h"

#include <algorithm>
#include <bit>
#include <queue>

#include "saccade/base/error.h"
#include "saccade/text/byte_level.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

constexpr size_t kShortWord = 32;
constexpr size_t kCharacterTable = 0x10000;
constexpr std::string_view kMarker = "\u2581";  // what SentencePiece writes for a space

}  // namespace

BpeModel::BpeModel(Vocabulary vocabulary, const std::vector<Merge>& merges, BpeOptions options,
                   std::string_view where)
    : Model(std::move(vocabulary)), options_(std::move(options)) {
  invariant(
      !options_.bytes || (options_.continuing_subword_prefix.empty() && options_.end_of_word_suffix.empty()),
      "bytes have no prefix and no suffix");
  if (options_.unk_token) {
    unk_ = this->vocabulary().find(*options_.unk_token);
    require(unk_.has_value(), "{}: the unk_token '{}' is not in the vocabulary", where, *options_.unk_token);
  }
  add_merges(merges, where);
  prepare_characters(where);
  prepare_cuts();
}

BpeModel::Slot& BpeModel::slot_of(uint64_t pair) {
  size_t index = (pair * 0x9E3779B97F4A7C15 >> 32) & slot_mask_;
  while (slots_[index].pair != kFree && slots_[index].pair != pair) index = (index + 1) & slot_mask_;
  return slots_[index];
}

BpeModel::Result BpeModel::find_merge(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  size_t index = (pair * 0x9E3779B97F4A7C15 >> 32) & slot_mask_;
  while (true) {
    const Slot& slot = slots_[index];
    if (slot.pair == pair) return slot.result;
    if (slot.pair == kFree) return {kNever, -1};
    index = (index + 1) & slot_mask_;
  }
}

void BpeModel::add_merges(const std::vector<Merge>& merges, std::string_view where) {
  const size_t size = std::bit_ceil(std::max<size_t>(16, merges.size() * 2));
  slot_mask_ = size - 1;
  slots_.assign(size, {kFree, {kNever, -1}});
  order_.reserve(merges.size());
  std::string merged;
  for (const Merge& merge : merges) {
    const std::string &left = merge.first, &right = merge.second;
    const auto rank = static_cast<uint32_t>(order_.size());
    const auto id_of = [&](std::string_view token) {
      const auto id = vocabulary().find(token);
      require(id.has_value(), "{}: merge {} joins '{}' and '{}', but '{}' is not in the vocabulary", where,
              rank, left, right, token);
      return *id;
    };
    const int32_t left_id = id_of(left), right_id = id_of(right);
    require(right.size() >= options_.continuing_subword_prefix.size(),
            "{}: merge {} has '{}', which is shorter than the continuing_subword_prefix", where, rank, right);
    merged = left;
    merged += std::string_view(right).substr(options_.continuing_subword_prefix.size());
    Slot& slot = slot_of(pair_of(left_id, right_id));
    slot = {pair_of(left_id, right_id), {rank, id_of(merged)}};
    order_.emplace_back(left_id, right_id);
  }
}

void BpeModel::prepare_characters(std::string_view where) {
  const auto id_of = [&](std::string_view token) { return vocabulary().find(token).value_or(-1); };
  for (int byte = 0; byte < 256; ++byte) {
    const auto index = static_cast<size_t>(byte);
    fallback_ids_[index] = options_.byte_fallback ? id_of(fmt::format("<0x{:02X}>", byte)) : -1;
    byte_ids_[index] =
        options_.bytes ? id_of(to_utf8(character_of_byte(static_cast<unsigned char>(byte)))) : -1;
  }
  if (options_.bytes || !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty())
    return;
  character_ids_.assign(kCharacterTable, -1);
  for (int32_t id = 0; id < vocabulary().end(); ++id) {
    const std::string_view token = vocabulary().token(id);
    if (token.empty()) continue;
    const Character first = first_character(token);
    require(first.valid(), "{}: the token with id {} is not UTF-8", where, id);
    if (first.length == token.size() && first.value < kCharacterTable) character_ids_[first.value] = id;
  }
}

// A tokenizer without a pre-tokenizer hands over its whole text as one word. No merge of the usual
// vocabularies joins anything with a space to its right but another space, so that the text may be cut before
// spaces without changing the result; which characters are exceptions, the merges tell.
void BpeModel::prepare_cuts() {
  const bool all_bytes = std::find(fallback_ids_.begin(), fallback_ids_.end(), -1) == fallback_ids_.end();
  const bool may_be_unknown = unk_ && !(options_.byte_fallback && all_bytes);
  cuts_ = !options_.bytes && !options_.ignore_merges && !character_ids_.empty() && !may_be_unknown &&
          vocabulary().find(kMarker);
  if (!cuts_) return;
  std::vector<bool> stands_for_bytes(static_cast<size_t>(vocabulary().end()));
  for (int32_t id : fallback_ids_)
    if (id >= 0) stands_for_bytes[static_cast<size_t>(id)] = true;
  if (unk_) stands_for_bytes[static_cast<size_t>(*unk_)] = true;
  for (const auto& [left, right] : order_) {
    const std::string_view left_token = vocabulary().token(left), right_token = vocabulary().token(right);
    const bool odd =
        stands_for_bytes[static_cast<size_t>(left)] || stands_for_bytes[static_cast<size_t>(right)];
    if (odd || left_token.empty() || right_token.empty()) cuts_ = false;
    if (cuts_ && right_token.starts_with(kMarker)) joins_marker_.push_back(last_character(left_token).value);
  }
  std::sort(joins_marker_.begin(), joins_marker_.end());
  joins_marker_.erase(std::unique(joins_marker_.begin(), joins_marker_.end()), joins_marker_.end());
}

bool BpeModel::may_cut(std::string_view piece, size_t at) const {
  const char32_t before = last_character(piece.substr(0, at)).value;
  return !std::binary_search(joins_marker_.begin(), joins_marker_.end(), before);
}

void BpeModel::encode(std::string_view piece, WordCache& cache, std::vector<int32_t>& ids) const {
  if (!cuts_) return encode_word(piece, cache, ids);
  size_t begin = 0;
  for (size_t at = piece.find(kMarker, 1); at != piece.npos; at = piece.find(kMarker, at + kMarker.size())) {
    if (!may_cut(piece, at)) continue;
    encode_word(piece.substr(begin, at - begin), cache, ids);
    begin = at;
  }
  encode_word(piece.substr(begin), cache, ids);
}

void BpeModel::encode_word(std::string_view word, WordCache& cache, std::vector<int32_t>& ids) const {
  if (!WordCache::accepts(word)) return encode_anew(word, ids);
  const auto known = cache.get(word);
  if (known.data()) {
    ids.insert(ids.end(), known.begin(), known.end());
    return;
  }
  const size_t first = ids.size();
  encode_anew(word, ids);
  cache.put(std::span(ids).subspan(first));
}

void BpeModel::encode_anew(std::string_view word, std::vector<int32_t>& ids) const {
  if (options_.ignore_merges) {
    const auto whole = options_.bytes ? vocabulary().find(to_byte_alphabet(word)) : vocabulary().find(word);
    if (whole) {
      ids.push_back(*whole);
      return;
    }
  }
  const size_t first = ids.size();
  characters_of(word, ids);
  if (ids.size() - first <= kShortWord) {
    merge_short(ids, first);
  } else {
    merge_long(ids, first);
  }
}

void BpeModel::characters_of(std::string_view word, std::vector<int32_t>& ids) const {
  int pending_unk = 0;
  if (options_.bytes) {
    for (char letter : word) {
      const auto byte = static_cast<unsigned char>(letter);
      if (byte_ids_[byte] >= 0 && pending_unk == 0) {
        ids.push_back(byte_ids_[byte]);
      } else {
        character(to_utf8(character_of_byte(byte)), ids, pending_unk);
      }
    }
  } else if (!character_ids_.empty()) {
    for_each_character(word, [&](char32_t value, size_t begin, size_t length) {
      const int32_t id = value < kCharacterTable ? character_ids_[value] : -1;
      if (id >= 0 && pending_unk == 0) {
        ids.push_back(id);
      } else {
        character(word.substr(begin, length), ids, pending_unk);
      }
    });
  } else {
    for_each_character(word, [&](char32_t, size_t begin, size_t length) {
      std::string text(word.substr(begin, length));
      if (begin > 0) text.insert(0, options_.continuing_subword_prefix);
      if (begin + length == word.size()) text += options_.end_of_word_suffix;
      character(text, ids, pending_unk);
    });
  }
  if (pending_unk > 0) ids.push_back(*unk_);
}

// An unknown token waits for what comes next, because more of them may be fused with it. That tokens of bytes
// overtake it is the package's way.
void BpeModel::character(std::string_view text, std::vector<int32_t>& ids, int& pending_unk) const {
  if (const auto id = vocabulary().find(text)) {
    if (pending_unk > 0) ids.push_back(*unk_);
    pending_unk = 0;
    ids.push_back(*id);
    return;
  }
  if (options_.byte_fallback) {
    const auto has_token = [&](char byte) { return fallback_ids_[static_cast<unsigned char>(byte)] >= 0; };
    if (std::all_of(text.begin(), text.end(), has_token)) {
      for (char byte : text) ids.push_back(fallback_ids_[static_cast<unsigned char>(byte)]);
      return;
    }
  }
  if (!unk_) return;
  if (pending_unk > 0 && !options_.fuse_unk) ids.push_back(*unk_);
  pending_unk = 1;
}

void BpeModel::merge_short(std::vector<int32_t>& ids, size_t first) const {
  size_t count = ids.size() - first;
  if (count < 2) return;
  int32_t* const word = ids.data() + first;
  Result merges[kShortWord];  // of each symbol with the next one
  for (size_t at = 0; at + 1 < count; ++at) merges[at] = find_merge(word[at], word[at + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t at = 1; at + 1 < count; ++at)
      if (merges[at].rank < merges[best].rank) best = at;
    if (merges[best].rank == kNever) break;
    word[best] = merges[best].id;
    for (size_t at = best + 1; at + 1 < count; ++at) {
      word[at] = word[at + 1];
      merges[at - 1] = merges[at];
    }
    --count;
    if (best > 0) merges[best - 1] = find_merge(word[best - 1], word[best]);
    if (best + 1 < count) merges[best] = find_merge(word[best], word[best + 1]);
  }
  ids.resize(first + count);
}

void BpeModel::merge_long(std::vector<int32_t>& ids, size_t first) const {
  constexpr int32_t kGone = -1;
  const size_t count = ids.size() - first;
  int32_t* const word = ids.data() + first;
  std::vector<size_t> next(count), previous(count);
  struct Candidate {
    uint32_t rank;
    int32_t id;
    size_t left;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  std::vector<Candidate> heap;
  const auto consider = [&](size_t left) {
    if (next[left] >= count) return;
    const Result found = find_merge(word[left], word[next[left]]);
    if (found.rank == kNever) return;
    heap.push_back({found.rank, found.id, left});
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (size_t at = 0; at < count; ++at) {
    next[at] = at + 1;
    previous[at] = at - 1;  // of the first one: beyond the end
  }
  for (size_t at = 0; at + 1 < count; ++at) consider(at);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const Candidate best = heap.back();
    heap.pop_back();
    const size_t right = word[best.left] == kGone ? count : next[best.left];
    if (right >= count || find_merge(word[best.left], word[right]).id != best.id) continue;  // it has changed
    word[best.left] = best.id;
    word[right] = kGone;
    next[best.left] = next[right];
    if (next[right] < count) previous[next[right]] = best.left;
    if (previous[best.left] < count) consider(previous[best.left]);
    consider(best.left);
  }
  ids.erase(std::remove(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end(), kGone), ids.end());
}

std::vector<std::pair<std::string_view, std::string_view>> BpeModel::merges() const {
  std::vector<std::pair<std::string_view, std::string_view>> result;
  result.reserve(order_.size());
  for (const auto& [left, right] : order_)
    result.emplace_back(vocabulary().token(left), vocabulary().token(right));
  return result;
}

}  // namespace saccade
