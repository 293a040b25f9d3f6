// Reads, encodes and writes as a stream; only the vocabulary needs a pass of its own.
#include "saccade/data/prepare.h"

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/text.h"
#include "saccade/data/shard_files.h"
#include "saccade/data/tokenise.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

void require_empty(const fs::path& directory) {
  std::error_code error;
  if (!fs::exists(directory, error)) return;
  require(fs::is_directory(directory, error), "prepare: '{}' is a file; expected a directory",
          directory.string());
  const auto first = fs::directory_iterator(directory, error);
  require(!error, "prepare: '{}' cannot be read: {}", directory.string(), error.message());
  require(first == fs::directory_iterator(),
          "prepare: '{}' has something in it, such as '{}'; expected a new or "
          "empty directory",
          directory.string(), first->path().filename().string());
}

}  // namespace

Prepared prepare_tokens(const PrepareOptions& options, std::optional<Tokenizer> tokenizer) {
  require(!options.train.empty(), "prepare: no files to read");
  require(!options.directory.empty(), "prepare: no directory to write to");
  require(options.shard_tokens >= 1, "prepare: files of {} tokens; expected at least 1",
          options.shard_tokens);
  const fs::path directory = options.directory;
  require_empty(directory);
  const DocumentFiles train(options.train, options.format), validation(options.validation, options.format);
  train.require_apart(validation);
  if (!tokenizer)
    tokenizer =
        learn_tokenizer(options.tokenizer, [&](const OnDocument& on_document) { train.each(on_document); });
  require(tokenizer.has_value(), "prepare: the tokenizer '{}'; expected bytes or bpe:<size>",
          printable(options.tokenizer));
  const DocumentEncoder encoder(*tokenizer);
  std::error_code ignored;
  const bool is_new = !fs::exists(directory, ignored);
  make_directories(directory);

  Prepared result{.vocabulary = tokenizer->size()};
  int64_t done = 0;
  const int64_t all = train.bytes() + validation.bytes();
  const auto write = [&](const DocumentFiles& files, const std::string& part) -> PreparedPart {
    ShardWriter writer(directory, part, *tokenizer, options.shard_tokens);
    Tokeniser tokeniser(
        encoder,
        [&](const DocumentText& document, std::span<const int32_t> ids) {
          writer.add(ids);
          done += static_cast<int64_t>(document.text().size());
          if (options.on_progress) options.on_progress(done, all);
        },
        options.threads);
    files.each([&](DocumentText document) {
      tokeniser.add(std::move(document));
      return true;
    });
    tokeniser.finish();
    writer.finish();
    return {writer.documents(), writer.tokens(), writer.files(), files.bytes()};
  };
  try {
    result.train = write(train, "train");
    if (!options.validation.empty()) result.validation = write(validation, "validation");
  } catch (...) {
    // Half of the files would be in the way of the next attempt.
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored))
      if (entry.path().extension() == ".tokens") fs::remove(entry.path(), ignored);
    if (is_new) fs::remove(directory, ignored);
    throw;
  }
  write_atomic(directory / "tokenizer_config.json", tokenizer->config_json());
  write_atomic(directory / "tokenizer.json", tokenizer->to_json());
  return result;
}

}  // namespace saccade
