// A tree of the tokens' bytes. The search starts only at bytes that some token begins with.
#include "saccade/text/added_tokens.h"

#include <algorithm>

#include "saccade/text/unicode.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

bool word_before(std::string_view text, size_t at) {
  return at > 0 && is_in(last_character(text.substr(0, at)).value, kWord);
}

bool word_after(std::string_view text, size_t at) {
  return at < text.size() && is_in(first_character(text.substr(at)).value, kWord);
}

size_t before_spaces(std::string_view text, size_t at) {
  while (at > 0) {
    const Character character = last_character(text.substr(0, at));
    if (!is_in(character.value, kSpace)) break;
    at -= character.length;
  }
  return at;
}

size_t after_spaces(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Character character = first_character(text.substr(at));
    if (!is_in(character.value, kSpace)) break;
    at += character.length;
  }
  return at;
}

}  // namespace

void TokenFinder::add(std::string_view content, const AddedToken* token) {
  if (content.empty()) return;
  starts_[static_cast<unsigned char>(content.front())] = true;
  uint32_t node = 0;
  for (char letter : content) {
    const auto byte = static_cast<unsigned char>(letter);
    auto found = nodes_[node].next.find(byte);
    if (found == nodes_[node].next.end()) {
      nodes_.emplace_back();
      found = nodes_[node].next.emplace(byte, static_cast<uint32_t>(nodes_.size() - 1)).first;
    }
    node = found->second;
  }
  if (!nodes_[node].token) nodes_[node].token = token;
}

const AddedToken* TokenFinder::longest(std::string_view text, size_t at, size_t& end) const {
  const AddedToken* result = nullptr;
  uint32_t node = 0;
  while (at < text.size()) {
    const auto found = nodes_[node].next.find(static_cast<unsigned char>(text[at]));
    if (found == nodes_[node].next.end()) break;
    node = found->second;
    ++at;
    if (nodes_[node].token) {
      result = nodes_[node].token;
      end = at;
    }
  }
  return result;
}

void TokenFinder::split(std::string_view text,
                        const std::function<void(std::string_view, const AddedToken*)>& use) const {
  size_t done = 0;
  for (size_t at = 0; !empty() && at < text.size();) {
    size_t end = 0;
    const AddedToken* token =
        starts_[static_cast<unsigned char>(text[at])] ? longest(text, at, end) : nullptr;
    if (!token) {
      ++at;
      continue;
    }
    const size_t begin = at;
    at = end;
    if (token->single_word && (word_before(text, begin) || word_after(text, end))) continue;
    // White space that one token has taken along may be another token, which then is found as well; what
    // follows it is read once more. That is how the package does it.
    const size_t from = token->lstrip ? std::max(done, before_spaces(text, begin)) : begin;
    const size_t to = token->rstrip ? after_spaces(text, end) : end;
    if (done < from) use(text.substr(done, from - done), nullptr);
    if (from < to) use(text.substr(from, to - from), token);
    done = to;
  }
  if (done < text.size()) use(text.substr(done), nullptr);
}

}  // namespace saccade
