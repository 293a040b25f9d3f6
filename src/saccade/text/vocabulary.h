// The tokens of a model and their ids, in both directions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace saccade {

class Vocabulary {
 public:
  /// Ids end here, so that a wrong file cannot ask for all memory.
  static constexpr int32_t kLargestId = (1 << 24) - 1;

  Vocabulary() = default;

  /// Throws an Error that begins with `where` when a token or an id is there twice or an id is out of range.
  Vocabulary(std::vector<std::pair<std::string, int32_t>> entries, std::string_view where);

  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;
  Vocabulary(const Vocabulary&) = delete;  // the map points into the tokens
  Vocabulary& operator=(const Vocabulary&) = delete;

  std::optional<int32_t> find(std::string_view token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }

  bool has(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < present_.size() && present_[static_cast<size_t>(id)];
  }
  std::string_view token(int32_t id) const {
    return has(id) ? std::string_view(tokens_[static_cast<size_t>(id)]) : std::string_view();
  }

  /// How many tokens there are, and one more than the largest id: the same unless ids are left out.
  int32_t count() const { return static_cast<int32_t>(ids_.size()); }
  int32_t end() const { return static_cast<int32_t>(tokens_.size()); }

 private:
  std::vector<std::string> tokens_;  // by id
  std::vector<bool> present_;
  std::unordered_map<std::string_view, int32_t> ids_;
};

}  // namespace saccade
