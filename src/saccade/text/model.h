// What turns a piece of text, cut out by the pre-tokenizer, into ids.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "saccade/text/vocabulary.h"

namespace saccade {

/// Results for short words, most of which come again and again. A table of fixed size in which a new word
/// takes the place of an old one, so that it never grows. One thread uses it at a time.
class WordCache {
 public:
  WordCache();

  static bool accepts(std::string_view word) { return word.size() < sizeof(Key); }

  /// The ids of a word that is accepted, or a null span. They hold until the next put().
  std::span<const int32_t> get(std::string_view word);

  /// Remembers the ids of the word that get() has just not found.
  void put(std::span<const int32_t> ids);

 private:
  using Key = std::array<uint64_t, 2>;  // the bytes of a word, and its length in the last of them
  static constexpr size_t kEntries = 1 << 14;

  struct Entry {
    Key key;  // at first that of the empty word, which no model asks for
    uint32_t count;
    std::array<int32_t, 7> ids;
  };

  struct Free {
    void operator()(Entry* entries) const;
  };

  std::unique_ptr<Entry[], Free> entries_;
  Key wanted_{};
  Entry* place_ = nullptr;
};

class Model {
 public:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Adds the ids of a piece that is not empty.
  virtual void encode(std::string_view piece, WordCache& cache, std::vector<int32_t>& ids) const = 0;

  /// The merges of a BPE model in their order; others have none.
  virtual std::vector<std::pair<std::string_view, std::string_view>> merges() const { return {}; }

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
};

}  // namespace saccade
