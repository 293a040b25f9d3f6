// A value of a result file that knows where it stands, so that what is wrong with it can be named:
// "runs/a/comparison.json: variants[2].loss.mean is text; expected a number".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/base/json.h"

namespace saccade {

/// Looks into a Json value, which must outlive it. Everything that reads throws an Error that names the
/// place, what is there and what was expected.
class Field {
 public:
  Field(const Json& value, std::string file) : value_(&value), file_(std::move(file)) {}

  /// A member that must be there.
  Field at(std::string_view key) const;
  /// A member that may be missing or null, which both give nothing.
  std::optional<Field> find(std::string_view key) const;
  std::vector<Field> items() const;
  /// Members of an object by their names.
  std::vector<std::pair<std::string, Field>> members() const;

  /// null is NaN: JSON has no other way to write it.
  double number() const;
  std::int64_t whole() const;
  bool flag() const;
  std::string text() const;
  std::vector<double> numbers() const;

  /// For members that may be missing or null.
  double number_or(std::string_view key, double otherwise) const;
  std::string text_or(std::string_view key, std::string_view otherwise) const;
  bool flag_or(std::string_view key, bool otherwise) const;

  const Json& json() const { return *value_; }
  /// "file: a.b[3]", or the file alone.
  std::string where() const;

 private:
  Field(const Json& value, std::string file, std::string path)
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}
  Field child(const Json& value, std::string step) const;
  [[noreturn]] void unexpected(std::string_view expected) const;

  const Json* value_;
  std::string file_, path_;
};

}  // namespace saccade
