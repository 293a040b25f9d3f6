// A tensor as a file of weights holds it: a name, an element type, a shape, and bytes that belong to the
// file. All element types are rows of one table, so that both file formats agree on what a type is and how
// large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

enum class ElementType {
  F64,
  F32,
  F16,
  BF16,
  I64,
  I32,
  I16,
  I8,
  U64,
  U32,
  U16,
  U8,
  BOOL,
  Q8_0,
  Q4_0,
  Q4_1,
  Q5_0,
  Q5_1,
  Q2_K,
  Q3_K,
  Q4_K,
  Q5_K,
  Q6_K,
};

enum class ElementKind { real, integer, quantised };

/// One row of the table. A quantised type packs the elements of a row of the tensor into blocks; for any
/// other a block is one element.
struct ElementFormat {
  ElementType type;
  std::string_view name;
  ElementKind kind;
  bool in_safetensors;  // under `name`
  int gguf_id;          // -1: not in GGUF
  int block_elements;
  int block_bytes;
};

const ElementFormat& format_of(ElementType type);
std::span<const ElementFormat> element_formats();

/// The type of a name in a safetensors header or a number in a GGUF file, if it is one that is read here.
std::optional<ElementType> safetensors_type(std::string_view name);
std::optional<ElementType> gguf_type(std::uint32_t id);

/// "Q4_1", or for a type of GGUF that is not read here its name in ggml, or "type 99".
std::string gguf_type_name(std::uint32_t id);

/// Row-major, the outermost dimension first. `bytes` live as long as the file (or the memory) they are in,
/// and may start at any address: an element is to be copied out of them, not pointed at.
struct TensorView {
  std::string name;
  ElementType type = ElementType::F32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;

  std::int64_t elements() const;
};

/// "[2, 3]".
std::string print_shape(std::span<const std::int64_t> shape);

/// The number of elements of a shape. An Error that starts with `what` when a dimension is negative or the
/// product is 2^63 or more.
std::int64_t count_elements(std::span<const std::int64_t> shape, std::string_view what);

/// The bytes of a tensor. An Error that starts with `what` as above, and when a row of a quantised type is no
/// whole number of blocks.
std::int64_t count_bytes(ElementType type, std::span<const std::int64_t> shape, std::string_view what);

}  // namespace saccade
