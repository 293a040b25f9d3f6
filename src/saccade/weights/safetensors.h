// Reading the safetensors format: eight bytes of header length, a JSON header, the tensors' bytes. A file is
// either all that the specification demands or an Error; nothing in it is trusted.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/weights/tensor_view.h"

namespace saccade {

struct Safetensors {
  std::vector<TensorView> tensors;              // in the order of their bytes
  std::map<std::string, std::string> metadata;  // "__metadata__" of the header
};

/// The tensors of a file whose bytes are `file`; the views point into it. `where` names the file in messages.
Safetensors parse_safetensors(std::span<const std::byte> file, std::string_view where);

/// One line of the index of a model that is spread over several files ("shards").
struct ShardEntry {
  std::string tensor, file;
};

/// The weight map of a "model.safetensors.index.json". A shard is the name of a file beside the index, never
/// a path to another directory.
std::vector<ShardEntry> parse_safetensors_index(std::string_view text, std::string_view where);

}  // namespace saccade
