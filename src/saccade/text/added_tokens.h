// Tokens that are looked for in the text before anything else happens to it: control tokens such as
// <|im_end|>, and whatever else was added to a vocabulary after it was learned.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace saccade {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // only where no word character stands before or after it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and that after it
  bool normalized = true;    // looked for in the normalized text, and normalized itself
  bool special = false;      // left out when decoding, unless asked for
};

/// Finds tokens in a text: at each place the longest one, from left to right.
class TokenFinder {
 public:
  /// `content` is what to look for, which need not be the token's own content.
  void add(std::string_view content, const AddedToken* token);

  /// Calls `use(text, token)` for each stretch in order: with a token where one is, without between them.
  void split(std::string_view text,
             const std::function<void(std::string_view, const AddedToken*)>& use) const;

  bool empty() const { return nodes_.size() <= 1; }

 private:
  struct Node {
    std::unordered_map<unsigned char, uint32_t> next;
    const AddedToken* token = nullptr;
  };

  /// The longest token at a place, and its end.
  const AddedToken* longest(std::string_view text, size_t at, size_t& end) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  bool starts_[256] = {};  // which bytes a token begins with
};

}  // namespace saccade
