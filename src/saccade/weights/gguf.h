// GGUF, the files of llama.cpp: typed metadata (architecture, sizes, the tokenizer) followed by tensors,
// often quantised. The reader trusts no count, length or offset; the getters say which key of which file is
// wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "saccade/base/mapped_file.h"
#include "saccade/weights/tensor_view.h"

namespace saccade {

/// A list of values of one type, which an empty list has as well. The alternatives are in the order of GGUF's
/// numbers for types, so that index() is the number.
struct GgufArray {
  using Elements =
      std::variant<std::vector<std::uint8_t>, std::vector<std::int8_t>, std::vector<std::uint16_t>,
                   std::vector<std::int16_t>, std::vector<std::uint32_t>, std::vector<std::int32_t>,
                   std::vector<float>, std::vector<bool>, std::vector<std::string>, std::vector<GgufArray>,
                   std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<double>>;
  Elements elements;
};

/// A value of the metadata; index() is again GGUF's number for its type.
using GgufValue =
    std::variant<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t, float,
                 bool, std::string, GgufArray, std::uint64_t, std::int64_t, double>;

/// Keys and values in the order of the file.
using GgufMetadata = std::vector<std::pair<std::string, GgufValue>>;

/// How deeply lists may be nested in metadata that is read.
inline constexpr int kGgufDepth = 8;

/// The alignment of the tensors' bytes, unless the metadata has another in kGgufAlignmentKey.
inline constexpr std::uint32_t kGgufAlignment = 32;
inline constexpr std::string_view kGgufAlignmentKey = "general.alignment";

class Gguf {
 public:
  /// Maps a file of version 2 or 3. The first of several parts ("model-00001-of-00003.gguf") opens them all:
  /// the tensors are those of all parts, the metadata are the first part's.
  static Gguf open(const std::filesystem::path& path);

  /// The file whose bytes are `file`, which must outlive the result. `where` names it in messages.
  static Gguf parse(std::span<const std::byte> file, std::string where);

  const std::string& where() const { return where_; }
  std::uint32_t version() const { return version_; }
  const GgufMetadata& metadata() const { return metadata_; }
  const std::vector<TensorView>& tensors() const { return tensors_; }

  /// The value of a key, or null.
  const GgufValue* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  /// The value of a key. An Error names file and key when there is none, and also the value when it has
  /// another type: integers of any width are one type, and reals may be written as integers.
  const std::string& text(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;
  double real(std::string_view key) const;
  bool boolean(std::string_view key) const;
  const std::vector<std::string>& texts(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key) const;
  std::vector<double> reals(std::string_view key) const;

  /// The same, but `otherwise` when there is no such key. Another type is still an Error.
  std::string text(std::string_view key, std::string_view otherwise) const;
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  double real(std::string_view key, double otherwise) const;
  bool boolean(std::string_view key, bool otherwise) const;

 private:
  Gguf() = default;
  const GgufValue& require_key(std::string_view key) const;
  [[noreturn]] void fail_type(std::string_view key, std::string_view expected) const;
  void append_parts(const std::filesystem::path& path);

  std::string where_;
  std::uint32_t version_ = 0;
  GgufMetadata metadata_;
  std::unordered_map<std::string, std::size_t> positions_;  // of keys in the metadata
  std::vector<TensorView> tensors_;
  std::vector<std::shared_ptr<const MappedFile>> files_;  // that the tensors are in; none after parse()
};

/// GGUF's name for the type of a value or of a list's elements: "uint8", "string", "array".
std::string_view gguf_value_type_name(std::size_t index);

}  // namespace saccade
