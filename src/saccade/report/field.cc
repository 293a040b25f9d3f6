#include "saccade/report/field.h"

#include <cmath>
#include <limits>

#include "saccade/base/error.h"
#include "saccade/base/text.h"

namespace saccade {

std::string Field::where() const { return path_.empty() ? file_ : file_ + ": " + path_; }

Field Field::child(const Json& value, std::string step) const {
  return {value, file_, path_ + std::move(step)};
}

void Field::unexpected(std::string_view expected) const {
  const std::string found = value_->is_null()      ? "null"
                            : value_->is_object()  ? "an object"
                            : value_->is_array()   ? "a list"
                            : value_->is_string()  ? "text"
                            : value_->is_boolean() ? dump(*value_)
                                                   : "the number " + dump(*value_);
  fail("{} is {}; expected {}", path_.empty() ? file_ + ": it" : where(), found, expected);
}

Field Field::at(std::string_view key) const {
  if (!value_->is_object()) unexpected(fmt::format("an object with '{}'", key));
  const auto found = value_->find(std::string(key));
  require(found != value_->end(), "{}: '{}' is missing", where(), key);
  return child(*found, (path_.empty() ? "" : ".") + std::string(key));
}

std::optional<Field> Field::find(std::string_view key) const {
  if (!value_->is_object()) unexpected("an object");
  const auto found = value_->find(std::string(key));
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return child(*found, (path_.empty() ? "" : ".") + std::string(key));
}

std::vector<Field> Field::items() const {
  if (!value_->is_array()) unexpected("a list");
  std::vector<Field> result;
  result.reserve(value_->size());
  for (const Json& item : *value_) result.push_back(child(item, fmt::format("[{}]", result.size())));
  return result;
}

std::vector<std::pair<std::string, Field>> Field::members() const {
  if (!value_->is_object()) unexpected("an object");
  std::vector<std::pair<std::string, Field>> result;
  for (const auto& [key, value] : value_->items())
    result.emplace_back(key, child(value, (path_.empty() ? "" : ".") + printable(key, 60)));
  return result;
}

double Field::number() const {
  if (value_->is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value_->is_number()) unexpected("a number");
  return value_->get<double>();
}

std::int64_t Field::whole() const {
  if (value_->is_number_unsigned() &&
      value_->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    unexpected("a whole number below 2^63");
  if (!value_->is_number_integer()) unexpected("a whole number");
  return value_->get<std::int64_t>();
}

bool Field::flag() const {
  if (!value_->is_boolean()) unexpected("true or false");
  return value_->get<bool>();
}

std::string Field::text() const {
  if (!value_->is_string()) unexpected("text");
  return value_->get<std::string>();
}

std::vector<double> Field::numbers() const {
  std::vector<double> result;
  for (const Field& item : items()) result.push_back(item.number());
  return result;
}

double Field::number_or(std::string_view key, double otherwise) const {
  const std::optional<Field> found = find(key);
  return found ? found->number() : otherwise;
}

std::string Field::text_or(std::string_view key, std::string_view otherwise) const {
  const std::optional<Field> found = find(key);
  return found ? found->text() : std::string(otherwise);
}

bool Field::flag_or(std::string_view key, bool otherwise) const {
  const std::optional<Field> found = find(key);
  return found ? found->flag() : otherwise;
}

}  // namespace saccade
