// Tokens of documents laid one after another, in memory or in a file that is mapped: what packing reads. The
// format of the file is in docs/data.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace saccade {

struct TokenShard {
  std::string name;  // what messages call it
  int width = 2;     // bytes of a token: 2 or 4
  int64_t vocabulary = 0;
  uint64_t fingerprint = 0;  // of the vocabulary
  int64_t number = 0;        // of a series, from 0
  bool last = true;          // of a series
  std::span<const std::byte> tokens;
  std::span<const uint64_t> ends;  // of the documents, counted in tokens; the last is the number of tokens
  std::shared_ptr<const void> memory;  // that the spans lie in

  int64_t count() const { return static_cast<int64_t>(tokens.size()) / width; }
  int64_t begin_of(int64_t document) const { return document == 0 ? 0 : end_of(document - 1); }
  int64_t end_of(int64_t document) const { return static_cast<int64_t>(ends[static_cast<size_t>(document)]); }
  int64_t documents() const { return static_cast<int64_t>(ends.size()); }

  /// The tokens from `first` on. Throws Error when one is not in the vocabulary: this is looked at only here,
  /// so that opening a file does not read it.
  void copy(int64_t first, std::span<int32_t> result) const;
};

/// Reads a file's content, which begins at a multiple of 8 and must outlive the result. Throws Error unless
/// every number in it fits the others and the size. `name` is what messages call it.
TokenShard parse_shard(std::span<const std::byte> file, std::string name);

/// Maps a file.
TokenShard open_shard(const std::filesystem::path& path);

/// Writes a file, completely or not at all.
void write_shard(const TokenShard& shard, const std::filesystem::path& path);

/// Collects documents in memory.
class TokenBuffer {
 public:
  /// Tokens take two bytes when the vocabulary allows.
  TokenBuffer(int64_t vocabulary, uint64_t fingerprint);

  /// Not for no tokens. Throws Error for one that is not in the vocabulary.
  void add(std::span<const int32_t> document);

  int64_t count() const { return static_cast<int64_t>(bytes_.size()) / width_; }
  bool empty() const { return ends_.empty(); }

  /// All of it; the buffer is empty afterwards.
  TokenShard take(std::string name);

 private:
  int64_t vocabulary_;
  uint64_t fingerprint_;
  int width_;
  std::vector<std::byte> bytes_;
  std::vector<uint64_t> ends_;
};

}  // namespace saccade
