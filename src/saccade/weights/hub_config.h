// A model's config.json as the Hugging Face hub has it, read key by key: every number a model is built from
// is checked here, and a wrong one is named with its file, its key and what was expected.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/base/json.h"

namespace saccade {

/// An object of a configuration. A key with the value null counts as missing, as in transformers.
class HubConfig {
 public:
  /// Reads `path`, or the config.json in it if it is a directory.
  static HubConfig open(const std::filesystem::path& path);

  /// `where` names the text in messages.
  static HubConfig parse(std::string_view text, std::string where);

  const std::string& where() const { return where_; }
  bool has(std::string_view key) const { return find(key) != nullptr; }

  /// The value of a key. An Error when it is missing or of another type. A real may be written as an integer
  /// and an integer as 2.0.
  std::int64_t integer(std::string_view key) const;
  double real(std::string_view key) const;
  bool boolean(std::string_view key) const;
  std::string text(std::string_view key) const;

  /// The same, but `otherwise` when the key is missing.
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  double real(std::string_view key, double otherwise) const;
  bool boolean(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key, std::string_view otherwise) const;

  /// An integer of at least one and at most 2^31 - 1: a size of a model.
  std::int64_t size(std::string_view key) const;
  std::int64_t size(std::string_view key, std::int64_t otherwise) const;

  /// A finite number above zero.
  double positive(std::string_view key) const;
  double positive(std::string_view key, double otherwise) const;

  std::vector<std::string> texts(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key) const;
  std::vector<double> reals(std::string_view key) const;

  /// An object inside this one ("rope_scaling", "text_config"); its messages name the keys on the way to it.
  HubConfig object(std::string_view key) const;
  std::optional<HubConfig> find_object(std::string_view key) const;

  /// This object as JSON.
  std::string print() const { return value_.dump(); }

  /// All keys, sorted, also those whose value is null.
  std::vector<std::string> keys() const;

  /// An Error "file: 'key' is value; expected …", for what only the caller can judge.
  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const;

 private:
  HubConfig(SortedJson value, std::string where, std::string path);
  const SortedJson* find(std::string_view key) const;
  const SortedJson& require_key(std::string_view key) const;
  std::string full(std::string_view key) const;

  SortedJson value_;
  std::string where_;
  std::string path_;  // of keys to this object: "" or "rope_scaling."
};

}  // namespace saccade
