// Getters over one JSON object; each says what it expected in words.
#include "saccade/weights/hub_config.h"

#include <cmath>
#include <utility>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/text.h"

namespace saccade {
namespace {

constexpr std::size_t kConfigLimit = 16 << 20;  // labels of many classes may make it long

std::optional<std::int64_t> as_integer(const SortedJson& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    return std::in_range<std::int64_t>(number) ? std::optional(static_cast<std::int64_t>(number))
                                               : std::nullopt;
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number_float()) {  // up to where every whole number is a double
    const auto number = value.get<double>();
    if (std::trunc(number) == number && std::abs(number) <= 0x1p53) return static_cast<std::int64_t>(number);
  }
  return std::nullopt;
}

std::optional<double> as_real(const SortedJson& value) {
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

std::optional<std::string> as_text(const SortedJson& value) {
  return value.is_string() ? std::optional(value.get_ref<const std::string&>()) : std::nullopt;
}

std::string shown(const SortedJson& value) {
  if (value.is_object()) return "an object";
  if (value.is_array() && value.size() > 8) return "a list";
  return printable(value.dump(), 80);
}

template <class Element>
std::optional<std::vector<Element>> as_list(const SortedJson& value,
                                            std::optional<Element> (*convert)(const SortedJson&)) {
  if (!value.is_array()) return std::nullopt;
  std::vector<Element> result;
  for (const SortedJson& element : value) {
    auto converted = convert(element);
    if (!converted) return std::nullopt;
    result.push_back(*std::move(converted));
  }
  return result;
}

}  // namespace

HubConfig::HubConfig(SortedJson value, std::string where, std::string path)
    : value_(std::move(value)), where_(std::move(where)), path_(std::move(path)) {}

HubConfig HubConfig::open(const std::filesystem::path& path) {
  std::error_code error;
  const auto file = std::filesystem::is_directory(path, error) ? path / "config.json" : path;
  return parse(read_file(file, kConfigLimit), file.string());
}

HubConfig HubConfig::parse(std::string_view text, std::string where) {
  SortedJson value = parse_unique_json(text, where);
  require(value.is_object(), "{}: is {}; expected an object", where, value.type_name());
  return {std::move(value), std::move(where), ""};
}

const SortedJson* HubConfig::find(std::string_view key) const {
  const auto found = value_.find(std::string(key));
  return found == value_.end() || found->is_null() ? nullptr : &*found;
}

const SortedJson& HubConfig::require_key(std::string_view key) const {
  const SortedJson* value = find(key);
  if (value) return *value;
  const auto known = keys();
  const bool null = value_.contains(std::string(key));
  fail("{}: no '{}'{}", where_, full(key),
       null ? "" : did_you_mean(key, std::span<const std::string>(known)));
}

std::string HubConfig::full(std::string_view key) const { return path_ + std::string(key); }

void HubConfig::refuse(std::string_view key, std::string_view expected) const {
  fail("{}: '{}' is {}; expected {}", where_, full(key), shown(require_key(key)), expected);
}

std::int64_t HubConfig::integer(std::string_view key) const {
  const auto number = as_integer(require_key(key));
  if (!number) refuse(key, "an integer");
  return *number;
}

double HubConfig::real(std::string_view key) const {
  const auto number = as_real(require_key(key));
  if (!number) refuse(key, "a number");
  return *number;
}

bool HubConfig::boolean(std::string_view key) const {
  const SortedJson& value = require_key(key);
  if (!value.is_boolean()) refuse(key, "true or false");
  return value.get<bool>();
}

std::string HubConfig::text(std::string_view key) const {
  auto text = as_text(require_key(key));
  if (!text) refuse(key, "a string");
  return *std::move(text);
}

std::int64_t HubConfig::size(std::string_view key) const {
  const std::int64_t size = integer(key);
  if (size < 1 || size > INT32_MAX) refuse(key, "an integer from 1 to 2147483647");
  return size;
}

double HubConfig::positive(std::string_view key) const {
  const double number = real(key);
  if (!(number > 0) || !std::isfinite(number)) refuse(key, "a number above zero");
  return number;
}

std::int64_t HubConfig::integer(std::string_view key, std::int64_t otherwise) const {
  return has(key) ? integer(key) : otherwise;
}
double HubConfig::real(std::string_view key, double otherwise) const {
  return has(key) ? real(key) : otherwise;
}
bool HubConfig::boolean(std::string_view key, bool otherwise) const {
  return has(key) ? boolean(key) : otherwise;
}
std::string HubConfig::text(std::string_view key, std::string_view otherwise) const {
  return has(key) ? text(key) : std::string(otherwise);
}
std::int64_t HubConfig::size(std::string_view key, std::int64_t otherwise) const {
  return has(key) ? size(key) : otherwise;
}
double HubConfig::positive(std::string_view key, double otherwise) const {
  return has(key) ? positive(key) : otherwise;
}

std::vector<std::string> HubConfig::texts(std::string_view key) const {
  auto list = as_list<std::string>(require_key(key), as_text);
  if (!list) refuse(key, "a list of strings");
  return *std::move(list);
}

std::vector<std::int64_t> HubConfig::integers(std::string_view key) const {
  auto list = as_list<std::int64_t>(require_key(key), as_integer);
  if (!list) refuse(key, "a list of integers");
  return *std::move(list);
}

std::vector<double> HubConfig::reals(std::string_view key) const {
  auto list = as_list<double>(require_key(key), as_real);
  if (!list) refuse(key, "a list of numbers");
  return *std::move(list);
}

HubConfig HubConfig::object(std::string_view key) const {
  const SortedJson& value = require_key(key);
  if (!value.is_object()) refuse(key, "an object");
  return {value, where_, full(key) + "."};
}

std::optional<HubConfig> HubConfig::find_object(std::string_view key) const {
  return has(key) ? std::optional(object(key)) : std::nullopt;
}

std::vector<std::string> HubConfig::keys() const {
  std::vector<std::string> result;
  for (const auto& item : value_.items()) result.push_back(item.key());
  return result;
}

}  // namespace saccade
