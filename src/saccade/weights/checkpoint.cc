// Finding the files behind a path, and one table of names over all of them.
#include "saccade/weights/checkpoint.h"

#include <algorithm>
#include <system_error>
#include <unordered_set>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/text.h"
#include "saccade/weights/safetensors.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kIndexLimit = 64 << 20;

// The file of a directory that its weights start at.
fs::path find_weights(const fs::path& directory) {
  std::error_code error;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
    if (fs::exists(directory / name, error)) return directory / name;

  std::vector<fs::path> candidates;
  std::vector<std::string> pickled;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path extension = entry->path().extension();
    if (extension == ".safetensors" || extension == ".gguf") candidates.push_back(entry->path());
    if (extension == ".bin" || extension == ".pt") pickled.push_back(entry->path().filename().string());
  }
  require(!error, "{}: cannot read: {}", directory.string(), error.message());
  if (candidates.size() == 1) return candidates.front();
  std::vector<std::string> names;
  for (const fs::path& candidate : candidates) names.push_back(candidate.filename().string());
  std::sort(names.begin(), names.end());
  require(candidates.empty(), "{}: holds {}; expected model.safetensors, its index, or one file of weights",
          directory.string(), join(names, ", "));
  require(pickled.empty(),
          "{}: has its weights in {}; expected model.safetensors (transformers can save it so)",
          directory.string(), join(pickled, ", "));
  fail("{}: holds no weights; expected model.safetensors, model.safetensors.index.json or a .gguf file",
       directory.string());
}

}  // namespace

Checkpoint Checkpoint::open(const fs::path& path) {
  std::error_code error;
  return Checkpoint(fs::is_directory(path, error) ? find_weights(path) : path);
}

Checkpoint::Checkpoint(const fs::path& path) : path_(path) {
  if (path.extension() == ".gguf") {
    gguf_ = Gguf::open(path);
    add(gguf_->tensors(), path);
  } else if (path.extension() == ".json") {
    add_shards(path);
  } else {
    add_safetensors(path);
  }
}

void Checkpoint::add_safetensors(const fs::path& file) {
  auto mapped = std::make_shared<const MappedFile>(file);
  add(parse_safetensors(mapped->bytes(), file.string()).tensors, file);
  files_.push_back(std::move(mapped));
}

void Checkpoint::add_shards(const fs::path& index) {
  const auto entries = parse_safetensors_index(read_file(index, kIndexLimit), index.string());
  std::vector<std::string> shards;
  for (const ShardEntry& entry : entries) shards.push_back(entry.file);
  std::sort(shards.begin(), shards.end());
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());

  std::unordered_map<std::string, std::string> homes;  // of the tensors
  for (const std::string& shard : shards) {
    const std::size_t first = tensors_.size();
    with_context(index.string(), [&] { add_safetensors(index.parent_path() / shard); });
    for (std::size_t position = first; position < tensors_.size(); ++position)
      homes.emplace(tensors_[position].name, shard);
  }
  for (const auto& [tensor, file] : entries) {
    const auto home = homes.find(tensor);
    require(home != homes.end() && home->second == file,
            "{}: lists the tensor '{}' in {}, which does not hold it", index.string(), printable(tensor),
            printable(file));
  }
  // A tensor that is in a shard but not in the index is harmless, and found like the others.
}

void Checkpoint::add(std::vector<TensorView> tensors, const fs::path& file) {
  for (TensorView& tensor : tensors) {
    const bool first = positions_.emplace(tensor.name, tensors_.size()).second;
    require(first, "{}: the tensor '{}' is also in another file of {}", file.string(), tensor.name,
            path_.string());
    tensors_.push_back(std::move(tensor));
  }
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> result;
  result.reserve(tensors_.size());
  for (const TensorView& tensor : tensors_) result.push_back(tensor.name);
  return result;
}

bool Checkpoint::has(std::string_view name) const { return positions_.contains(std::string(name)); }

const TensorView& Checkpoint::get(std::string_view name) const {
  const auto found = positions_.find(std::string(name));
  if (found != positions_.end()) return tensors_[found->second];
  const auto known = names();
  fail("{}: no tensor '{}'{}", path_.string(), name, did_you_mean(name, std::span<const std::string>(known)));
}

}  // namespace saccade
