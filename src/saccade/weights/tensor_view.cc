// The table of element types and the arithmetic of shapes, which must survive any number a file can state.
#include "saccade/weights/tensor_view.h"

#include <algorithm>
#include <bit>

#include "saccade/base/error.h"
#include "saccade/base/text.h"

namespace saccade {

static_assert(std::endian::native == std::endian::little,
              "files of weights are little endian, and so must be we");

namespace {

using enum ElementKind;

// In the order of the enumeration.
constexpr ElementFormat kFormats[] = {
    {ElementType::F64, "F64", real, true, 28, 1, 8},
    {ElementType::F32, "F32", real, true, 0, 1, 4},
    {ElementType::F16, "F16", real, true, 1, 1, 2},
    {ElementType::BF16, "BF16", real, true, 30, 1, 2},
    {ElementType::I64, "I64", integer, true, 27, 1, 8},
    {ElementType::I32, "I32", integer, true, 26, 1, 4},
    {ElementType::I16, "I16", integer, true, 25, 1, 2},
    {ElementType::I8, "I8", integer, true, 24, 1, 1},
    {ElementType::U64, "U64", integer, true, -1, 1, 8},
    {ElementType::U32, "U32", integer, true, -1, 1, 4},
    {ElementType::U16, "U16", integer, true, -1, 1, 2},
    {ElementType::U8, "U8", integer, true, -1, 1, 1},
    {ElementType::BOOL, "BOOL", integer, true, -1, 1, 1},
    {ElementType::Q8_0, "Q8_0", quantised, false, 8, 32, 34},
    {ElementType::Q4_0, "Q4_0", quantised, false, 2, 32, 18},
    {ElementType::Q4_1, "Q4_1", quantised, false, 3, 32, 20},
    {ElementType::Q5_0, "Q5_0", quantised, false, 6, 32, 22},
    {ElementType::Q5_1, "Q5_1", quantised, false, 7, 32, 24},
    {ElementType::Q2_K, "Q2_K", quantised, false, 10, 256, 84},
    {ElementType::Q3_K, "Q3_K", quantised, false, 11, 256, 110},
    {ElementType::Q4_K, "Q4_K", quantised, false, 12, 256, 144},
    {ElementType::Q5_K, "Q5_K", quantised, false, 13, 256, 176},
    {ElementType::Q6_K, "Q6_K", quantised, false, 14, 256, 210},
};

constexpr bool in_order() {
  for (std::size_t index = 0; index < std::size(kFormats); ++index)
    if (static_cast<std::size_t>(kFormats[index].type) != index) return false;
  return true;
}
static_assert(in_order());

// Types that ggml has and we do not read, so that a message can call them by their name.
constexpr struct {
  std::uint32_t id;
  std::string_view name;
} kOtherTypes[] = {
    {9, "Q8_1"},    {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
    {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"}, {29, "IQ1_M"},   {34, "TQ1_0"},
    {35, "TQ2_0"},  {39, "MXFP4"}, {40, "NVFP4"},   {41, "Q1_0"},
};

}  // namespace

const ElementFormat& format_of(ElementType type) { return kFormats[static_cast<std::size_t>(type)]; }

std::span<const ElementFormat> element_formats() { return kFormats; }

std::optional<ElementType> safetensors_type(std::string_view name) {
  for (const ElementFormat& format : kFormats)
    if (format.in_safetensors && format.name == name) return format.type;
  return std::nullopt;
}

std::optional<ElementType> gguf_type(std::uint32_t id) {
  for (const ElementFormat& format : kFormats)
    if (format.gguf_id >= 0 && static_cast<std::uint32_t>(format.gguf_id) == id) return format.type;
  return std::nullopt;
}

std::string gguf_type_name(std::uint32_t id) {
  if (const auto type = gguf_type(id)) return std::string(format_of(*type).name);
  for (const auto& other : kOtherTypes)
    if (other.id == id) return std::string(other.name);
  return fmt::format("type {}", id);
}

std::int64_t TensorView::elements() const { return count_elements(shape, name); }

std::string print_shape(std::span<const std::int64_t> shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(std::to_string(size));
  return "[" + join(sizes, ", ") + "]";
}

std::int64_t count_elements(std::span<const std::int64_t> shape, std::string_view what) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) {
    require(size >= 0, "{}: shape is {}; expected no negative size", what, print_shape(shape));
    // [0, 2^62, 4] has no elements but its strides overflow all the same, so a zero does not excuse the rest.
    require(!__builtin_mul_overflow(product, std::max<std::int64_t>(size, 1), &product),
            "{}: shape is {}; expected fewer than 2^63 elements", what, print_shape(shape));
  }
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  return empty ? 0 : product;
}

std::int64_t count_bytes(ElementType type, std::span<const std::int64_t> shape, std::string_view what) {
  const ElementFormat& format = format_of(type);
  const std::int64_t elements = count_elements(shape, what);
  const std::int64_t row = shape.empty() ? 1 : shape.back();
  require(row % format.block_elements == 0,
          "{}: shape is {}; expected the last size to be a multiple of {} for {}", what, print_shape(shape),
          format.block_elements, format.name);
  std::int64_t bytes = 0;
  require(!__builtin_mul_overflow(elements / format.block_elements, format.block_bytes, &bytes),
          "{}: shape is {}; expected fewer than 2^63 bytes of {}", what, print_shape(shape), format.name);
  return bytes;
}

}  // namespace saccade
