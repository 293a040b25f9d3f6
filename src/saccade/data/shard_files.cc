// Files of a series are numbered, and the last one says that it is: a missing file does not go unnoticed.
#include "saccade/data/shard_files.h"

#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/data/document_files.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".tokens";
constexpr int64_t kLastNumber = 99'999;  // beyond it, the order of names would not be that of numbers

std::vector<fs::path> files_of_part(const fs::path& directory, const std::string& part) {
  std::vector<fs::path> result;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(part + "-") && name.ends_with(kExtension)) result.push_back(entry.path());
  }
  require(!error, "{}: cannot read the directory: {}", directory.string(), error.message());
  std::ranges::sort(result, {}, &fs::path::native);
  return result;
}

// Opens a whole series, which may have no gap.
void open_series(const std::vector<fs::path>& paths, ShardFiles& files) {
  const size_t before = files.shards.size();
  for (const fs::path& path : paths) {
    TokenShard shard = open_shard(path);
    const auto expected = static_cast<int64_t>(files.shards.size() - before);
    require(shard.number == expected, "{}: this is file {} of its series, and file {} is missing",
            path.string(), shard.number, expected);
    files.paths.push_back(path);
    files.shards.push_back(std::move(shard));
    require(files.shards.back().last == (path == paths.back()), "{}: {}", path.string(),
            path == paths.back() ? "the files that come after it are missing"
                                 : "this was the last file of its series, but there are more");
  }
}

}  // namespace

ShardFiles open_shard_files(const std::vector<std::string>& patterns, const std::string& part) {
  ShardFiles files;
  for (const fs::path& path : find_data_files(patterns)) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      const std::vector<fs::path> paths = files_of_part(path, part);
      require(!paths.empty(), "{}: there is no {}-00000{} in it; `saccade prepare` makes such directories",
              path.string(), part, kExtension);
      open_series(paths, files);
    } else {
      files.shards.push_back(open_shard(path));
      files.paths.push_back(path);
    }
  }
  return files;
}

ShardFiles open_validation_beside(const std::vector<std::string>& patterns) {
  ShardFiles files;
  for (const fs::path& path : find_data_files(patterns)) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) open_series(files_of_part(path, "validation"), files);
  }
  return files;
}

Tokenizer tokenizer_beside(const ShardFiles& files) {
  const fs::path path = files.paths.front().parent_path() / "tokenizer.json";
  std::error_code ignored;
  require(
      fs::exists(path, ignored),
      "{}: there is no such file: the directory was not finished, or the tokens need a tokenizer to be named",
      path.string());
  return Tokenizer::from_file(path);
}

void require_vocabulary(const ShardFiles& files, const Tokenizer& tokenizer) {
  const uint64_t fingerprint = vocabulary_fingerprint(tokenizer);
  for (const TokenShard& shard : files.shards)
    require(shard.fingerprint == fingerprint && shard.vocabulary == tokenizer.size(),
            "{}: its tokens are of another vocabulary (of {} tokens) than the tokenizer's (of {})",
            shard.name, shard.vocabulary, tokenizer.size());
}

ShardWriter::ShardWriter(fs::path directory, std::string part, const Tokenizer& tokenizer,
                         int64_t shard_tokens)
    : directory_(std::move(directory)),
      part_(std::move(part)),
      shard_tokens_(shard_tokens),
      buffer_(tokenizer.size(), vocabulary_fingerprint(tokenizer)) {}

void ShardWriter::add(std::span<const int32_t> document) {
  if (buffer_.count() >= shard_tokens_) write(false);
  buffer_.add(document);
  tokens_ += static_cast<int64_t>(document.size());
  ++documents_;
}

void ShardWriter::finish() {
  require(documents_ > 0, "prepare: there are no tokens for {}", part_);
  write(true);
}

void ShardWriter::write(bool last) {
  require(number_ <= kLastNumber, "prepare: more than {} files; let each have more than {} tokens",
          kLastNumber, shard_tokens_);
  const fs::path path = directory_ / fmt::format("{}-{:05}{}", part_, number_, kExtension);
  TokenShard shard = buffer_.take(path.string());
  shard.number = number_++;
  shard.last = last;
  write_shard(shard, path);
}

}  // namespace saccade
