// The weights of a model by their names, wherever they are: one safetensors file, several with an index, or a
// GGUF file.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "saccade/base/mapped_file.h"
#include "saccade/weights/gguf.h"
#include "saccade/weights/tensor_view.h"

namespace saccade {

/// May be moved, not copied; the views it hands out live as long as it does.
class Checkpoint {
 public:
  /// `path` is a .safetensors file, its .index.json, a .gguf file, or a directory: there, model.safetensors
  /// is taken, otherwise model.safetensors.index.json with all its shards, otherwise the only .safetensors or
  /// .gguf file.
  static Checkpoint open(const std::filesystem::path& path);

  Checkpoint(Checkpoint&&) = default;
  Checkpoint& operator=(Checkpoint&&) = default;

  /// The file that was opened, for messages.
  const std::filesystem::path& path() const { return path_; }

  /// In the order of the files.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  std::vector<std::string> names() const;

  bool has(std::string_view name) const;

  /// The tensor of this name; an Error names the file and the nearest name when there is none.
  const TensorView& get(std::string_view name) const;

  /// The GGUF file with its metadata, or null for safetensors, whose metadata are in config.json.
  const Gguf* gguf() const { return gguf_ ? &*gguf_ : nullptr; }

 private:
  explicit Checkpoint(const std::filesystem::path& path);
  void add_safetensors(const std::filesystem::path& file);
  void add_shards(const std::filesystem::path& index);
  void add(std::vector<TensorView> tensors, const std::filesystem::path& file);

  std::filesystem::path path_;
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string, std::size_t> positions_;  // of names in tensors_
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::optional<Gguf> gguf_;
};

}  // namespace saccade
