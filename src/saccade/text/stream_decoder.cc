// A token's text can depend on the tokens before it (a space, an accent), but not on those long before. So
// the ids whose text was given last are decoded once more together with the new ones, and the difference is
// new.
#include "saccade/text/stream_decoder.h"

#include <algorithm>
#include <utility>

#include "saccade/text/utf8.h"

namespace saccade {
namespace {

// An incomplete character of a tokenizer with byte fallback shows as U+FFFD, one for each byte so far.
bool ends_open(std::string_view text) { return incomplete_suffix(text) > 0 || text.ends_with("\uFFFD"); }

// Both texts begin alike unless a decoder looks further back than thought; then nothing is given twice.
std::string_view added(std::string_view text, std::string_view before) {
  const size_t common = static_cast<size_t>(
      std::mismatch(before.begin(), before.end(), text.begin(), text.end()).first - before.begin());
  return common == before.size() ? text.substr(common) : text.substr(std::min(text.size(), before.size()));
}

}  // namespace

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

std::string StreamDecoder::push(int32_t id) {
  if (skip_special_tokens_ && tokenizer_.is_special(id)) return {};
  ids_.push_back(id);
  const std::string text = tokenizer_.decode(ids_, skip_special_tokens_);
  if (text.size() <= given_.size() || ends_open(text)) return {};
  std::string result = replace_invalid(added(text, given_));
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(given_ids_));
  given_ids_ = ids_.size();
  given_ = tokenizer_.decode(ids_, skip_special_tokens_);
  return result;
}

std::string StreamDecoder::finish() {
  const std::string text = tokenizer_.decode(ids_, skip_special_tokens_);
  std::string result = replace_invalid(added(text, given_));
  ids_.clear();
  given_ids_ = 0;
  given_.clear();
  return result;
}

}  // namespace saccade
