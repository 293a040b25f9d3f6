// A directory of tokens: train-00000.tokens, train-00001.tokens, ..., perhaps validation-00000.tokens, ...,
// and the tokenizer.json that they were made with.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "saccade/data/document_encoder.h"
#include "saccade/data/token_shard.h"

namespace saccade {

struct ShardFiles {
  std::vector<std::filesystem::path> paths;
  std::vector<TokenShard> shards;
};

/// The files that patterns name. A directory stands for all its files of a part ("train"), which must be
/// there from the first to the last.
ShardFiles open_shard_files(const std::vector<std::string>& patterns, const std::string& part);

/// The files for validation in the directories among `patterns`; none if there are none.
ShardFiles open_validation_beside(const std::vector<std::string>& patterns);

/// The tokenizer in the directory of the first file.
Tokenizer tokenizer_beside(const ShardFiles& files);

/// Throws Error when the files were made with another vocabulary.
void require_vocabulary(const ShardFiles& files, const Tokenizer& tokenizer);

/// Writes the files of one part of a directory, each when it is full.
class ShardWriter {
 public:
  /// A file ends with the document that brings it to `shard_tokens`.
  ShardWriter(std::filesystem::path directory, std::string part, const Tokenizer& tokenizer,
              int64_t shard_tokens);

  void add(std::span<const int32_t> document);

  /// Once, after the last document. Throws Error when there was none.
  void finish();

  int64_t tokens() const { return tokens_; }
  int64_t documents() const { return documents_; }
  int64_t files() const { return number_; }

 private:
  void write(bool last);

  std::filesystem::path directory_;
  std::string part_;
  int64_t shard_tokens_;
  TokenBuffer buffer_;
  int64_t number_ = 0, tokens_ = 0, documents_ = 0;
};

}  // namespace saccade
