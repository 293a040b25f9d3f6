// Tokens by id in one vector; the map from token to id holds views of them.
#include "saccade/text/vocabulary.h"

#include <algorithm>

#include "saccade/base/error.h"

namespace saccade {

Vocabulary::Vocabulary(std::vector<std::pair<std::string, int32_t>> entries, std::string_view where) {
  int32_t end = 0;
  for (const auto& [token, id] : entries) {
    require(id >= 0 && id <= kLargestId, "{}: token '{}' has the id {}; expected 0 to {}", where, token, id,
            kLargestId);
    end = std::max(end, id + 1);
  }
  tokens_.resize(static_cast<size_t>(end));
  present_.resize(static_cast<size_t>(end));
  ids_.reserve(entries.size());
  for (auto& entry : entries) {
    const int32_t id = entry.second;
    const auto index = static_cast<size_t>(id);
    require(!present_[index], "{}: the id {} is given to '{}' and to '{}'", where, id, tokens_[index],
            entry.first);
    tokens_[index] = std::move(entry.first);
    present_[index] = true;
    const bool added = ids_.emplace(tokens_[index], id).second;
    require(added, "{}: token '{}' is there twice", where, tokens_[index]);
  }
}

}  // namespace saccade
