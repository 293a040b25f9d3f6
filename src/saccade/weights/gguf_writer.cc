// Offsets follow from the sizes, so the file is written from front to back.
#include "saccade/weights/gguf_writer.h"

#include <bit>
#include <string>
#include <type_traits>
#include <unordered_set>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/text.h"

namespace saccade {
namespace {

constexpr std::size_t kNameLimit = 64;      // of ggml, with the zero at the end
constexpr std::size_t kDimensionLimit = 4;  // of ggml

template <class Number>
void put(std::string& out, Number value) {
  static_assert(std::is_arithmetic_v<Number>);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_value(std::string& out, const std::string& text) {
  put<std::uint64_t>(out, text.size());
  out += text;
}

void put_value(std::string& out, bool value) { put<std::uint8_t>(out, value ? 1 : 0); }

template <class Number>
requires std::is_arithmetic_v<Number>
void put_value(std::string& out, Number value) { put(out, value); }

void put_value(std::string& out, const GgufArray& array) {
  put(out, static_cast<std::uint32_t>(array.elements.index()));
  std::visit(
      [&](const auto& elements) {
        using Element = typename std::decay_t<decltype(elements)>::value_type;
        put<std::uint64_t>(out, elements.size());
        for (const auto& element : elements) put_value(out, static_cast<const Element&>(element));
      },
      array.elements);
}

std::int64_t align(std::int64_t position, std::int64_t alignment) {
  return (position + alignment - 1) / alignment * alignment;
}

std::int64_t find_alignment(const GgufMetadata& metadata, std::string_view where) {
  std::unordered_set<std::string_view> keys;
  std::int64_t alignment = kGgufAlignment;
  for (const auto& [key, value] : metadata) {
    require(keys.insert(key).second, "{}: the key '{}' is given twice", where, key);
    if (key != kGgufAlignmentKey) continue;
    const auto* stated = std::get_if<std::uint32_t>(&value);
    require(stated && std::has_single_bit(*stated) && *stated <= 1u << 20,
            "{}: the key '{}' is no alignment; expected a uint32 that is a power of two up to 2^20", where,
            key);
    alignment = *stated;
  }
  return alignment;
}

void put_tensor(std::string& out, const TensorSource& source, std::int64_t offset, std::string_view where) {
  const ElementFormat& format = format_of(source.type);
  require(source.name.size() < kNameLimit, "{}: the name of tensor '{}' has {} bytes; expected fewer than {}",
          where, source.name, source.name.size(), kNameLimit);
  require(source.shape.size() <= kDimensionLimit,
          "{}: tensor '{}' has shape {}; expected at most {} dimensions", where, source.name,
          print_shape(source.shape), kDimensionLimit);
  require(format.gguf_id >= 0, "{}: tensor '{}' has type {}, which GGUF does not have", where, source.name,
          format.name);
  put_value(out, source.name);
  put(out, static_cast<std::uint32_t>(source.shape.size()));
  for (auto size = source.shape.rbegin(); size != source.shape.rend(); ++size)
    put(out, static_cast<std::uint64_t>(*size));
  put(out, static_cast<std::uint32_t>(format.gguf_id));
  put(out, static_cast<std::uint64_t>(offset));
}

}  // namespace

void write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata,
                std::span<const TensorSource> sources) {
  const std::string where = path.string();
  const std::int64_t alignment = find_alignment(metadata, where);
  const std::vector<std::int64_t> sizes = measure(sources, where);

  std::string header = "GGUF";
  put<std::uint32_t>(header, 3);
  put<std::uint64_t>(header, sources.size());
  put<std::uint64_t>(header, metadata.size());
  for (const auto& [key, value] : metadata) {
    put_value(header, key);
    put(header, static_cast<std::uint32_t>(value.index()));
    std::visit([&](const auto& held) { put_value(header, held); }, value);
  }
  std::int64_t offset = 0;
  for (std::size_t index = 0; index < sources.size(); ++index) {
    put_tensor(header, sources[index], offset, where);
    offset = align(offset + sizes[index], alignment);
  }

  AtomicFile file(path);
  header.resize(static_cast<std::size_t>(align(static_cast<std::int64_t>(header.size()), alignment)));
  file.append(header);
  for (std::size_t index = 0; index < sources.size(); ++index) {
    append_tensor(file, sources[index], sizes[index]);
    file.append(std::string(static_cast<std::size_t>(align(sizes[index], alignment) - sizes[index]), '\0'));
  }
  file.commit();
}

}  // namespace saccade
