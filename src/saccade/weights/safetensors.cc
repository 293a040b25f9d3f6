// The header is untrusted: its length is held to the file's, its numbers to what a shape and a type allow,
// and the tensors must tile the rest of the file exactly, as the specification says.
#include "saccade/weights/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "saccade/base/error.h"
#include "saccade/base/json.h"
#include "saccade/base/text.h"

namespace saccade {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kHeaderLimit = 100'000'000;  // of the reference implementation

std::string_view split_header(std::span<const std::byte> file, std::string_view where) {
  require(file.size() >= kLengthBytes, "{}: is {}; expected a safetensors file of at least 8 bytes", where,
          plural(static_cast<std::int64_t>(file.size()), "byte"));
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  require(length <= kHeaderLimit, "{}: header length is {}; expected at most {} (is it a safetensors file?)",
          where, length, kHeaderLimit);
  const std::uint64_t left = file.size() - kLengthBytes;
  require(length <= left,
          "{}: header length is {}; expected at most the {} bytes that follow it (is the file cut off?)",
          where, length, left);
  return {reinterpret_cast<const char*>(file.data()) + kLengthBytes, static_cast<std::size_t>(length)};
}

const SortedJson& field(const SortedJson& object, const char* key, std::string_view what) {
  const auto found = object.find(key);
  require(found != object.end(), "{}: no '{}'", what, key);
  return *found;
}

std::vector<std::int64_t> read_numbers(const SortedJson& value, const char* key, std::string_view what) {
  require(value.is_array(), "{}: '{}' is {}; expected a list of numbers", what, key, value.type_name());
  std::vector<std::int64_t> numbers;
  for (const SortedJson& number : value) {
    const bool fits = number.is_number_unsigned() && number.get<std::uint64_t>() <= INT64_MAX;
    require(fits, "{}: '{}' holds {}; expected whole numbers from 0 to 2^63 - 1", what, key,
            number.is_primitive() && !number.is_string() ? number.dump() : number.type_name());
    numbers.push_back(number.get<std::int64_t>());
  }
  return numbers;
}

// A tensor and where its bytes are, counted from the end of the header.
struct Located {
  TensorView tensor;
  std::int64_t begin, end;
};

Located read_entry(const std::string& name, const SortedJson& entry, std::int64_t data_bytes,
                   std::string_view where) {
  const std::string what = fmt::format("{}: tensor '{}'", where, printable(name));
  require(entry.is_object(), "{}: is {}; expected an object", what, entry.type_name());

  const SortedJson& type_name = field(entry, "dtype", what);
  require(type_name.is_string(), "{}: 'dtype' is {}; expected a string", what, type_name.type_name());
  const auto& text = type_name.get_ref<const std::string&>();
  const auto type = safetensors_type(text);
  if (!type) {
    std::vector<std::string_view> known;
    for (const ElementFormat& format : element_formats())
      if (format.in_safetensors) known.push_back(format.name);
    fail("{}: 'dtype' is '{}'; expected one of {}", what, printable(text), join(known, ", "));
  }

  auto shape = read_numbers(field(entry, "shape", what), "shape", what);
  const auto offsets = read_numbers(field(entry, "data_offsets", what), "data_offsets", what);
  require(offsets.size() == 2, "{}: 'data_offsets' holds {}; expected 2", what,
          plural(static_cast<std::int64_t>(offsets.size()), "number"));
  const std::int64_t begin = offsets[0], end = offsets[1];
  require(begin <= end && end <= data_bytes,
          "{}: 'data_offsets' is [{}, {}]; expected a range within the {} of data", what, begin, end,
          plural(data_bytes, "byte"));
  const std::int64_t expected = count_bytes(*type, shape, what);
  require(end - begin == expected, "{}: 'data_offsets' is [{}, {}], {}; expected {} for {} {}", what, begin,
          end, plural(end - begin, "byte"), expected, text, print_shape(shape));
  return {{.name = name, .type = *type, .shape = std::move(shape)}, begin, end};
}

void read_metadata(const SortedJson& entry, std::string_view where,
                   std::map<std::string, std::string>& metadata) {
  require(entry.is_object(), "{}: '__metadata__' is {}; expected an object", where, entry.type_name());
  for (const auto& [key, value] : entry.items()) {
    require(value.is_string(), "{}: '__metadata__' has {} for '{}'; expected a string", where,
            value.type_name(), printable(key));
    metadata.emplace(key, value.get_ref<const std::string&>());
  }
}

// No byte of the data belongs to two tensors or to none.
void require_tiling(const std::vector<Located>& placed, std::int64_t data_bytes, std::string_view where) {
  std::int64_t position = 0;
  for (const auto& [tensor, begin, end] : placed) {
    require(begin == position, "{}: tensor '{}' begins at {}; expected {}, where the tensor before it ends",
            where, printable(tensor.name), begin, position);
    position = end;
  }
  require(position == data_bytes, "{}: the last tensor ends at {}; expected {}, the end of the file", where,
          position, data_bytes);
}

}  // namespace

Safetensors parse_safetensors(std::span<const std::byte> file, std::string_view where) {
  const std::string_view header = split_header(file, where);
  const auto data = file.subspan(kLengthBytes + header.size());
  const auto data_bytes = static_cast<std::int64_t>(data.size());
  const SortedJson root = parse_unique_json(header, fmt::format("{}: header", where));
  require(root.is_object(), "{}: header is {}; expected an object", where, root.type_name());

  Safetensors result;
  std::vector<Located> placed;
  for (const auto& [name, entry] : root.items()) {
    if (name == "__metadata__") {
      read_metadata(entry, where, result.metadata);
    } else {
      placed.push_back(read_entry(name, entry, data_bytes, where));
    }
  }
  std::sort(placed.begin(), placed.end(), [](const Located& left, const Located& right) {
    return std::pair(left.begin, left.end) < std::pair(right.begin, right.end);
  });
  require_tiling(placed, data_bytes, where);
  for (auto& [tensor, begin, end] : placed) {
    tensor.bytes = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    result.tensors.push_back(std::move(tensor));
  }
  return result;
}

std::vector<ShardEntry> parse_safetensors_index(std::string_view text, std::string_view where) {
  const SortedJson root = parse_unique_json(text, where);
  require(root.is_object(), "{}: is {}; expected an object", where, root.type_name());
  const SortedJson& map = field(root, "weight_map", where);
  require(map.is_object(), "{}: 'weight_map' is {}; expected an object", where, map.type_name());
  std::vector<ShardEntry> result;
  for (const auto& [tensor, file] : map.items()) {
    require(file.is_string(), "{}: 'weight_map' has {} for '{}'; expected the name of a file", where,
            file.type_name(), printable(tensor));
    const auto& name = file.get_ref<const std::string&>();
    const bool plain = !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
                       name.find('\0') == name.npos;
    require(plain, "{}: 'weight_map' has '{}' for '{}'; expected the name of a file beside the index", where,
            printable(name), printable(tensor));
    result.push_back({tensor, name});
  }
  return result;
}

}  // namespace saccade
