// What is asked of a GGUF file: metadata by key and type, and files in several parts as one.
#include "saccade/weights/gguf.h"

#include <limits>
#include <type_traits>
#include <unordered_set>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/weights/gguf_parser.h"

namespace saccade {
namespace {

constexpr std::string_view kTypeNames[] = {"uint8",  "int8",    "uint16",  "int16",  "uint32",
                                           "int32",  "float32", "boolean", "string", "array",
                                           "uint64", "int64",   "float64"};
static_assert(std::size(kTypeNames) == std::variant_size_v<GgufValue>);

template <class Value>
constexpr bool is_integer = std::is_integral_v<Value> && !std::is_same_v<Value, bool>;

// An integer of any width as 64 bits, unless it does not fit.
template <class Value>
std::optional<std::int64_t> as_integer(const Value& value) {
  if constexpr (is_integer<Value>) {
    if (std::in_range<std::int64_t>(value)) return static_cast<std::int64_t>(value);
  }
  return std::nullopt;
}

template <class Value>
std::optional<double> as_real(const Value& value) {
  if constexpr (is_integer<Value> || std::is_floating_point_v<Value>) return static_cast<double>(value);
  return std::nullopt;
}

// The elements of a list through `convert`; nothing if it is no list or one of them cannot be converted.
template <class Element, class Convert>
std::optional<std::vector<Element>> convert_list(const GgufValue& value, Convert&& convert) {
  const auto* array = std::get_if<GgufArray>(&value);
  if (!array) return std::nullopt;
  return std::visit(
      [&](const auto& elements) -> std::optional<std::vector<Element>> {
        std::vector<Element> result;
        result.reserve(elements.size());
        for (const auto& element : elements) {
          const std::optional<Element> converted = convert(element);
          if (!converted) return std::nullopt;
          result.push_back(*converted);
        }
        return result;
      },
      array->elements);
}

// "uint32 7", "string 'llama'", "array of 3 int32".
std::string describe(const GgufValue& value) {
  const std::string_view type = gguf_value_type_name(value.index());
  return std::visit(
      [&](const auto& held) -> std::string {
        using Value = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Value, GgufArray>) {
          const auto size = std::visit([](const auto& elements) { return elements.size(); }, held.elements);
          return fmt::format("array of {} {}", size, gguf_value_type_name(held.elements.index()));
        } else if constexpr (std::is_same_v<Value, std::string>) {
          return fmt::format("string '{}'", printable(held, 60));
        } else {
          return fmt::format("{} {}", type, held);
        }
      },
      value);
}

}  // namespace

std::string_view gguf_value_type_name(std::size_t index) { return kTypeNames[index]; }

Gguf Gguf::parse(std::span<const std::byte> file, std::string where) {
  GgufContent content = parse_gguf(file, where);
  Gguf result;
  result.where_ = std::move(where);
  result.version_ = content.version;
  result.metadata_ = std::move(content.metadata);
  result.tensors_ = std::move(content.tensors);
  for (std::size_t position = 0; position < result.metadata_.size(); ++position)
    result.positions_.emplace(result.metadata_[position].first, position);
  return result;
}

Gguf Gguf::open(const std::filesystem::path& path) {
  auto file = std::make_shared<const MappedFile>(path);
  Gguf result = parse(file->bytes(), path.string());
  result.files_.push_back(std::move(file));
  if (result.integer("split.count", 1) > 1) result.append_parts(path);
  return result;
}

// llama.cpp's parts are called <stem>-00001-of-00003.gguf and number themselves from zero in "split.no".
void Gguf::append_parts(const std::filesystem::path& path) {
  const std::int64_t count = integer("split.count");
  const std::string name = path.filename().string();
  const std::string ending = fmt::format("-00001-of-{:05}.gguf", count);
  require(integer("split.no", 0) == 0 && name.ends_with(ending),
          "{}: is a part of {} ('split.count'); expected the first one, whose name ends in '{}'", where_,
          count, ending);
  std::unordered_set<std::string> names;
  for (const TensorView& tensor : tensors_) names.insert(tensor.name);
  const std::string stem = name.substr(0, name.size() - ending.size());
  for (std::int64_t number = 1; number < count; ++number) {
    const auto part_path =
        path.parent_path() / fmt::format("{}-{:05}-of-{:05}.gguf", stem, number + 1, count);
    auto file = std::make_shared<const MappedFile>(part_path);
    Gguf part = parse(file->bytes(), part_path.string());
    require(part.integer("split.no") == number, "{}: key 'split.no' is {}; expected {}", part.where_,
            part.integer("split.no"), number);
    for (TensorView& tensor : part.tensors_) {
      require(names.insert(tensor.name).second, "{}: the tensor '{}' is also in a part before it",
              part.where_, printable(tensor.name));
      tensors_.push_back(std::move(tensor));
    }
    files_.push_back(std::move(file));
  }
  const auto found = static_cast<std::int64_t>(tensors_.size());
  const std::int64_t expected = integer("split.tensors.count", found);
  require(found == expected, "{}: its parts hold {} tensors; expected {} ('split.tensors.count')", where_,
          found, expected);
}

const GgufValue* Gguf::find(std::string_view key) const {
  const auto found = positions_.find(std::string(key));
  return found == positions_.end() ? nullptr : &metadata_[found->second].second;
}

const GgufValue& Gguf::require_key(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value) return *value;
  std::vector<std::string_view> keys;
  for (const auto& pair : metadata_) keys.push_back(pair.first);
  fail("{}: no key '{}'{}", where_, key, did_you_mean(key, keys));
}

void Gguf::fail_type(std::string_view key, std::string_view expected) const {
  fail("{}: key '{}' is {}; expected {}", where_, key, describe(require_key(key)), expected);
}

const std::string& Gguf::text(std::string_view key) const {
  const auto* text = std::get_if<std::string>(&require_key(key));
  if (!text) fail_type(key, "a string");
  return *text;
}

std::int64_t Gguf::integer(std::string_view key) const {
  const auto number = std::visit([](const auto& value) { return as_integer(value); }, require_key(key));
  if (!number) fail_type(key, "an integer of 64 bits");
  return *number;
}

double Gguf::real(std::string_view key) const {
  const auto number = std::visit([](const auto& value) { return as_real(value); }, require_key(key));
  if (!number) fail_type(key, "a number");
  return *number;
}

bool Gguf::boolean(std::string_view key) const {
  const auto* boolean = std::get_if<bool>(&require_key(key));
  if (!boolean) fail_type(key, "a boolean");
  return *boolean;
}

const std::vector<std::string>& Gguf::texts(std::string_view key) const {
  const auto* array = std::get_if<GgufArray>(&require_key(key));
  const auto* texts = array ? std::get_if<std::vector<std::string>>(&array->elements) : nullptr;
  if (!texts) fail_type(key, "a list of strings");
  return *texts;
}

std::vector<std::int64_t> Gguf::integers(std::string_view key) const {
  auto list =
      convert_list<std::int64_t>(require_key(key), [](const auto& element) { return as_integer(element); });
  if (!list) fail_type(key, "a list of integers of 64 bits");
  return *std::move(list);
}

std::vector<double> Gguf::reals(std::string_view key) const {
  auto list = convert_list<double>(require_key(key), [](const auto& element) { return as_real(element); });
  if (!list) fail_type(key, "a list of numbers");
  return *std::move(list);
}

std::string Gguf::text(std::string_view key, std::string_view otherwise) const {
  return has(key) ? text(key) : std::string(otherwise);
}

std::int64_t Gguf::integer(std::string_view key, std::int64_t otherwise) const {
  return has(key) ? integer(key) : otherwise;
}

double Gguf::real(std::string_view key, double otherwise) const { return has(key) ? real(key) : otherwise; }

bool Gguf::boolean(std::string_view key, bool otherwise) const { return has(key) ? boolean(key) : otherwise; }

}  // namespace saccade
