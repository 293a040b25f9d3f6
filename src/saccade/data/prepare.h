// Files of text or JSONL to a directory of tokens, document by document, in memory that does not grow with
// the files.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "saccade/data/document_files.h"
#include "saccade/text/tokenizer.h"

namespace saccade {

struct PrepareOptions {
  std::vector<std::string> train, validation;  // files and patterns
  DocumentFormat format;
  std::string tokenizer = "bpe:8192";  // or "bytes", unless prepare_tokens is given one
  std::string directory;               // new or empty
  int64_t shard_tokens = 50'000'000;
  int threads = 0;  // 0: as many as there are processors
  std::function<void(int64_t bytes, int64_t all_bytes)> on_progress;
};

struct PreparedPart {
  int64_t documents = 0, tokens = 0, files = 0, bytes = 0;
};
struct Prepared {
  PreparedPart train, validation;
  int64_t vocabulary = 0;
};

/// The tokenizer.json is written last: a directory without it is not finished. Throws Error, with nothing
/// written, when the directory has something in it or the files cannot be read.
Prepared prepare_tokens(const PrepareOptions& options, std::optional<Tokenizer> tokenizer = {});

}  // namespace saccade
