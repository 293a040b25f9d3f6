// Byte-pair encoding: a word starts as its characters (or bytes), and the neighbours whose merge was learned
// first are joined until no merge applies.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "saccade/text/model.h"

namespace saccade {

struct BpeOptions {
  std::optional<std::string> unk_token;   // for a character that has no token; without it, it is left out
  std::string continuing_subword_prefix;  // before every character of a word but the first
  std::string end_of_word_suffix;         // after the last one
  bool fuse_unk = false;                  // unknown characters in a row give one unk_token
  bool byte_fallback = false;             // a character without a token becomes tokens <0xHH>
  bool ignore_merges = false;             // a word that is a token needs no merges
  bool bytes = false;  // pieces are plain bytes, and the vocabulary is written in the alphabet for bytes
};

class BpeModel final : public Model {
 public:
  using Merge = std::pair<std::string, std::string>;

  BpeModel(Vocabulary vocabulary, const std::vector<Merge>& merges, BpeOptions options,
           std::string_view where);

  void encode(std::string_view piece, WordCache& cache, std::vector<int32_t>& ids) const override;
  std::vector<std::pair<std::string_view, std::string_view>> merges() const override;

 private:
  struct Result {
    uint32_t rank;
    int32_t id;
  };
  struct Slot {
    uint64_t pair;
    Result result;
  };

  static constexpr uint32_t kNever = 0xFFFFFFFF;
  static constexpr uint64_t kFree = ~uint64_t{0};

  static uint64_t pair_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  Slot& slot_of(uint64_t pair);
  Result find_merge(int32_t left, int32_t right) const;

  void add_merges(const std::vector<Merge>& merges, std::string_view where);
  void prepare_characters(std::string_view where);
  void prepare_cuts();
  bool may_cut(std::string_view piece, size_t at) const;

  void encode_word(std::string_view word, WordCache& cache, std::vector<int32_t>& ids) const;
  void encode_anew(std::string_view word, std::vector<int32_t>& ids) const;
  void characters_of(std::string_view word, std::vector<int32_t>& ids) const;
  void character(std::string_view text, std::vector<int32_t>& ids, int& pending_unk) const;
  void merge_short(std::vector<int32_t>& ids, size_t first) const;
  void merge_long(std::vector<int32_t>& ids, size_t first) const;

  BpeOptions options_;
  std::optional<int32_t> unk_;
  std::vector<std::pair<int32_t, int32_t>> order_;  // the merges, first learned first
  std::vector<Slot> slots_;                         // the same as a hash table
  size_t slot_mask_ = 0;
  std::array<int32_t, 256> byte_ids_{};      // -1 where a byte has no token of its own
  std::vector<int32_t> character_ids_;       // the same for the first characters of Unicode
  std::array<int32_t, 256> fallback_ids_{};  // of <0x00> to <0xFF>
  bool cuts_ = false;                        // whether a word may be cut before U+2581
  std::vector<char32_t> joins_marker_;       // after these it may not
};

}  // namespace saccade
