// A cursor that cannot leave the file, and on it the grammar of GGUF. A count is believed only if the bytes
// that are left could hold so many of the smallest possible items, so that no number in a file allocates more
// than a few times the file's own size.
#include "saccade/weights/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <type_traits>
#include <unordered_set>

#include "saccade/base/error.h"
#include "saccade/base/text.h"

namespace saccade {
namespace {

constexpr std::size_t kMaximumDimensions = 4;  // of ggml

class Cursor {
 public:
  Cursor(std::span<const std::byte> file, std::string_view where) : file_(file), where_(where) {}

  std::size_t position() const { return position_; }
  std::size_t left() const { return file_.size() - position_; }
  std::string_view where() const { return where_; }

  template <class Number>
  Number number(std::string_view what) {
    Number value;
    std::memcpy(&value, take(sizeof value, what), sizeof value);
    return value;
  }

  bool boolean(std::string_view what) {
    const auto value = number<std::uint8_t>(what);
    require(value <= 1, "{}: {}: boolean is {}; expected 0 or 1", where_, what, value);
    return value == 1;
  }

  /// A number of items that take at least `smallest` bytes each.
  std::size_t count(std::size_t smallest, std::string_view what, std::string_view items) {
    const auto value = number<std::uint64_t>(what);
    require(value <= left() / smallest, "{}: {}: states {} {}; expected at most {}, as {} are left", where_,
            what, value, items, left() / smallest, plural(static_cast<std::int64_t>(left()), "byte"));
    return static_cast<std::size_t>(value);
  }

  std::string text(std::string_view what) {
    const std::size_t length = count(1, what, "bytes of text");
    return {reinterpret_cast<const char*>(take(length, what)), length};
  }

 private:
  const std::byte* take(std::size_t bytes, std::string_view what) {
    require(bytes <= left(), "{}: {}: the file ends after {} bytes; expected {} more", where_, what,
            file_.size(), bytes - left());
    const std::byte* result = file_.data() + position_;
    position_ += bytes;
    return result;
  }

  std::span<const std::byte> file_;
  std::string_view where_;
  std::size_t position_ = 0;
};

// The smallest number of bytes that a value of each type takes, by GGUF's numbers.
constexpr std::size_t kSmallest[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
static_assert(std::size(kSmallest) == std::variant_size_v<GgufValue>);
static_assert(std::size(kSmallest) == std::variant_size_v<GgufArray::Elements>);

GgufArray read_array(Cursor& cursor, std::string_view what, int depth);

template <class Value>
Value read_value(Cursor& cursor, std::string_view what, int depth) {
  if constexpr (std::is_same_v<Value, std::string>) {
    return cursor.text(what);
  } else if constexpr (std::is_same_v<Value, bool>) {
    return cursor.boolean(what);
  } else if constexpr (std::is_same_v<Value, GgufArray>) {
    return read_array(cursor, what, depth + 1);
  } else {
    return cursor.number<Value>(what);
  }
}

std::size_t read_type(Cursor& cursor, std::string_view what) {
  const auto type = cursor.number<std::uint32_t>(what);
  require(type < std::size(kSmallest), "{}: {}: value type is {}; expected 0 to {}", cursor.where(), what,
          type, std::size(kSmallest) - 1);
  return type;
}

// Calls `read(std::integral_constant<index>)` for the alternative of this index.
template <std::size_t kIndex = 0, class Read>
void dispatch(std::size_t index, Read&& read) {
  if constexpr (kIndex < std::variant_size_v<GgufValue>) {
    if (index == kIndex) return read(std::integral_constant<std::size_t, kIndex>());
    return dispatch<kIndex + 1>(index, read);
  }
}

GgufArray read_array(Cursor& cursor, std::string_view what, int depth) {
  require(depth <= kGgufDepth, "{}: {}: lists are nested deeper than {} levels", cursor.where(), what,
          kGgufDepth);
  const std::size_t type = read_type(cursor, what);
  const std::size_t size = cursor.count(kSmallest[type], what, "elements");
  GgufArray array;
  dispatch(type, [&](auto index) {
    using Value = std::variant_alternative_t<index(), GgufValue>;
    auto& elements = array.elements.emplace<index()>();
    elements.reserve(size);
    for (std::size_t done = 0; done < size; ++done)
      elements.push_back(read_value<Value>(cursor, what, depth));
  });
  return array;
}

GgufValue read_typed_value(Cursor& cursor, std::string_view what) {
  GgufValue value;
  dispatch(read_type(cursor, what), [&](auto index) {
    using Value = std::variant_alternative_t<index(), GgufValue>;
    value.emplace<index()>(read_value<Value>(cursor, what, 0));
  });
  return value;
}

GgufMetadata read_metadata(Cursor& cursor, std::size_t count) {
  GgufMetadata metadata;
  metadata.reserve(count);
  std::unordered_set<std::string> keys;
  for (std::size_t done = 0; done < count; ++done) {
    std::string key = cursor.text("key of the metadata");
    require(keys.insert(key).second, "{}: the key '{}' is given twice", cursor.where(), printable(key));
    GgufValue value = read_typed_value(cursor, fmt::format("key '{}'", printable(key)));
    metadata.emplace_back(std::move(key), std::move(value));
  }
  return metadata;
}

std::uint64_t read_alignment(const GgufMetadata& metadata, std::string_view where) {
  for (const auto& [key, value] : metadata) {
    if (key != kGgufAlignmentKey) continue;
    const auto* alignment = std::get_if<std::uint32_t>(&value);
    require(alignment, "{}: key '{}' is of type {}; expected uint32", where, key,
            gguf_value_type_name(value.index()));
    require(std::has_single_bit(*alignment), "{}: key '{}' is {}; expected a power of two", where, key,
            *alignment);
    return *alignment;
  }
  return kGgufAlignment;
}

// A tensor and where its bytes are, counted from the start of all tensors' bytes.
struct Placed {
  TensorView tensor;
  std::uint64_t begin, bytes;
};

Placed read_tensor(Cursor& cursor, std::uint64_t alignment) {
  std::string name = cursor.text("name of a tensor");
  const std::string what = fmt::format("tensor '{}'", printable(name));
  const auto dimensions = cursor.number<std::uint32_t>(what);
  require(dimensions <= kMaximumDimensions, "{}: {}: has {} dimensions; expected at most {}", cursor.where(),
          what, dimensions, kMaximumDimensions);
  std::vector<std::int64_t> shape(dimensions);
  for (auto size = shape.rbegin(); size != shape.rend(); ++size) {  // the innermost comes first
    const auto stated = cursor.number<std::uint64_t>(what);
    require(stated <= INT64_MAX, "{}: {}: a dimension is {}; expected less than 2^63", cursor.where(), what,
            stated);
    *size = static_cast<std::int64_t>(stated);
  }
  const auto id = cursor.number<std::uint32_t>(what);
  const auto type = gguf_type(id);
  if (!type) {
    std::vector<std::string_view> known;
    for (const ElementFormat& format : element_formats())
      if (format.gguf_id >= 0) known.push_back(format.name);
    fail("{}: {}: is of type {}, which is not supported; expected one of {}", cursor.where(), what,
         gguf_type_name(id), join(known, ", "));
  }
  const auto begin = cursor.number<std::uint64_t>(what);
  require(begin % alignment == 0, "{}: {}: offset is {}; expected a multiple of {}", cursor.where(), what,
          begin, alignment);
  const std::int64_t bytes = count_bytes(*type, shape, fmt::format("{}: {}", cursor.where(), what));
  return {{.name = std::move(name), .type = *type, .shape = std::move(shape)},
          begin,
          static_cast<std::uint64_t>(bytes)};
}

std::vector<Placed> read_tensors(Cursor& cursor, std::size_t count, std::uint64_t alignment) {
  std::vector<Placed> placed;
  placed.reserve(count);
  std::unordered_set<std::string> names;
  for (std::size_t done = 0; done < count; ++done) {
    placed.push_back(read_tensor(cursor, alignment));
    const std::string& name = placed.back().tensor.name;
    require(names.insert(name).second, "{}: the tensor '{}' is given twice", cursor.where(), printable(name));
  }
  return placed;
}

// A tensor must be within the file and overlap no other; gaps do no harm.
void require_apart(const std::vector<Placed>& placed, std::uint64_t data_bytes, std::string_view where) {
  std::vector<const Placed*> sorted;
  for (const Placed& item : placed) {
    require(item.begin <= data_bytes && item.bytes <= data_bytes - item.begin,
            "{}: tensor '{}': {} bytes at offset {}; expected to end within the {} bytes of data (is the "
            "file cut off?)",
            where, printable(item.tensor.name), item.bytes, item.begin, data_bytes);
    if (item.bytes > 0) sorted.push_back(&item);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Placed* left, const Placed* right) { return left->begin < right->begin; });
  for (std::size_t next = 1; next < sorted.size(); ++next) {
    const Placed &before = *sorted[next - 1], &after = *sorted[next];
    require(before.begin + before.bytes <= after.begin, "{}: tensors '{}' and '{}' overlap at offset {}",
            where, printable(before.tensor.name), printable(after.tensor.name), after.begin);
  }
}

}  // namespace

GgufContent parse_gguf(std::span<const std::byte> file, std::string_view where) {
  Cursor cursor(file, where);
  require(file.size() >= 4 && std::memcmp(file.data(), "GGUF", 4) == 0,
          "{}: does not begin with 'GGUF'; expected a GGUF file", where);
  cursor.number<std::uint32_t>("magic");
  GgufContent content;
  content.version = cursor.number<std::uint32_t>("version");
  require(content.version != 0x02000000 && content.version != 0x03000000,
          "{}: is big endian; expected a little-endian GGUF file", where);
  require(content.version == 2 || content.version == 3, "{}: version is {}; expected 2 or 3", where,
          content.version);

  constexpr std::size_t kSmallestTensor = 8 + 4 + 4 + 8, kSmallestPair = 8 + 4 + 1;
  const std::size_t tensor_count = cursor.count(kSmallestTensor, "header", "tensors");
  const std::size_t pair_count = cursor.count(kSmallestPair, "header", "keys");
  content.metadata = read_metadata(cursor, pair_count);
  const std::uint64_t alignment = read_alignment(content.metadata, where);
  std::vector<Placed> placed = read_tensors(cursor, tensor_count, alignment);

  const std::uint64_t data_begin = (cursor.position() + alignment - 1) / alignment * alignment;
  const auto data = data_begin < file.size() ? file.subspan(data_begin) : std::span<const std::byte>();
  require_apart(placed, data.size(), where);
  for (auto& [tensor, begin, bytes] : placed) {
    tensor.bytes = data.subspan(begin, bytes);
    content.tensors.push_back(std::move(tensor));
  }
  return content;
}

}  // namespace saccade
