// One object of a tokenizer file together with its place in it, so that every complaint can name both.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/base/json.h"

namespace saccade {

class JsonPart {
 public:
  /// `path` is how messages call it: "tokenizer.json: normalizer".
  JsonPart(const Json& value, std::string path);

  const std::string& path() const { return path_; }
  const Json& json() const { return value_; }

  /// The text of the member "type".
  std::string type() const { return text("type"); }

  bool has(std::string_view name) const;  // and it is not null
  bool flag(std::string_view name, bool otherwise) const;
  std::string text(std::string_view name) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::optional<std::string> optional_text(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t lowest, int64_t highest) const;
  int64_t integer(std::string_view name, int64_t lowest, int64_t highest, int64_t otherwise) const;
  /// The only character of a text.
  char32_t character(std::string_view name, char32_t otherwise) const;

  JsonPart part(std::string_view name) const;
  std::vector<JsonPart> parts(std::string_view name) const;

  /// Says that the type (or another value) is not supported, and which are.
  [[noreturn]] void unsupported(std::string_view what, std::string_view value,
                                std::initializer_list<std::string_view> supported) const;

 private:
  const Json& member(std::string_view name) const;

  const Json& value_;
  std::string path_;
};

}  // namespace saccade
