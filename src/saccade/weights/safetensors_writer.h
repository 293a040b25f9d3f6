// Writing the safetensors format, in one file or in several of a bounded size with an index, as transformers
// does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "saccade/weights/tensor_source.h"

namespace saccade {

using SafetensorsMetadata = std::map<std::string, std::string>;

/// What transformers wants to see before it loads a file.
inline const SafetensorsMetadata kTorchMetadata{{"format", "pt"}};

/// Replaces or creates the file, all or nothing. Every tensor starts at a multiple of its element's size:
/// wide types come first, and within a width the order is that of the names.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorSource> sources,
                       const SafetensorsMetadata& metadata = kTorchMetadata);

/// Writes model.safetensors into a directory if the tensors have at most `shard_bytes`, otherwise
/// model-00001-of-0000N.safetensors and so on with model.safetensors.index.json, which comes last: a reader
/// that goes by the index finds its shards complete. A tensor is never divided, so one that is larger has a
/// shard of its own. The other form's entry file from an earlier model is removed, since it would be read
/// first. Returns the names of the files, without the index.
std::vector<std::string> write_safetensors_shards(const std::filesystem::path& directory,
                                                  std::span<const TensorSource> sources,
                                                  std::int64_t shard_bytes,
                                                  const SafetensorsMetadata& metadata = kTorchMetadata);

}  // namespace saccade
