// Writing GGUF, version 3.
#pragma once

#include <filesystem>
#include <span>

#include "saccade/weights/gguf.h"
#include "saccade/weights/tensor_source.h"

namespace saccade {

/// Replaces or creates the file, all or nothing, with metadata and tensors in the given order. The tensors
/// are aligned to `general.alignment` if the metadata have it. An Error names the tensor or key that
/// llama.cpp would not read: a name of 64 bytes or more, five dimensions, a type that GGUF does not have,
/// anything given twice.
void write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata,
                std::span<const TensorSource> sources);

}  // namespace saccade
