// Typed access to the members of a JSON object.
#include "saccade/text/json_part.h"

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/text/utf8.h"

namespace saccade {

JsonPart::JsonPart(const Json& value, std::string path) : value_(value), path_(std::move(path)) {
  require(value.is_object(), "{}: expected an object, found {}", path_, value.type_name());
}

bool JsonPart::has(std::string_view name) const {
  const auto found = value_.find(name);
  return found != value_.end() && !found->is_null();
}

const Json& JsonPart::member(std::string_view name) const {
  const auto found = value_.find(name);
  require(found != value_.end() && !found->is_null(), "{}: '{}' is missing", path_, name);
  return *found;
}

bool JsonPart::flag(std::string_view name, bool otherwise) const {
  if (!has(name)) return otherwise;
  const Json& value = member(name);
  require(value.is_boolean(), "{}: '{}' must be true or false, not {}", path_, name, dump(value));
  return value.get<bool>();
}

std::string JsonPart::text(std::string_view name) const {
  const Json& value = member(name);
  require(value.is_string(), "{}: '{}' must be text, not {}", path_, name, value.type_name());
  return value.get<std::string>();
}

std::string JsonPart::text(std::string_view name, std::string_view otherwise) const {
  return has(name) ? text(name) : std::string(otherwise);
}

std::optional<std::string> JsonPart::optional_text(std::string_view name) const {
  if (!has(name)) return std::nullopt;
  return text(name);
}

int64_t JsonPart::integer(std::string_view name, int64_t lowest, int64_t highest) const {
  const Json& value = member(name);
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() || value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)) &&
      value.get<int64_t>() >= lowest && value.get<int64_t>() <= highest;
  require(fits, "{}: '{}' is {}; expected a whole number from {} to {}", path_, name, dump(value), lowest,
          highest);
  return value.get<int64_t>();
}

int64_t JsonPart::integer(std::string_view name, int64_t lowest, int64_t highest, int64_t otherwise) const {
  return has(name) ? integer(name, lowest, highest) : otherwise;
}

char32_t JsonPart::character(std::string_view name, char32_t otherwise) const {
  if (!has(name)) return otherwise;
  const std::string value = text(name);
  const bool one = !value.empty() && first_character(value).length == value.size();
  require(one, "{}: '{}' is '{}'; expected one character", path_, name, value);
  return first_character(value).value;
}

JsonPart JsonPart::part(std::string_view name) const {
  return {member(name), fmt::format("{}.{}", path_, name)};
}

std::vector<JsonPart> JsonPart::parts(std::string_view name) const {
  const Json& value = member(name);
  require(value.is_array(), "{}: '{}' must be a list, not {}", path_, name, value.type_name());
  std::vector<JsonPart> result;
  for (const Json& item : value)
    result.emplace_back(item, fmt::format("{}.{}[{}]", path_, name, result.size()));
  return result;
}

void JsonPart::unsupported(std::string_view what, std::string_view value,
                           std::initializer_list<std::string_view> supported) const {
  fail("{}: {} '{}' is not supported; supported: {}", path_, what, value, join(supported, ", "));
}

}  // namespace saccade
