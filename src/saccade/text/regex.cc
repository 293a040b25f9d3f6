// PCRE2 with its compiler to machine code. Compiled patterns are shared between threads; what a match needs
// besides is made for each call.
#include "saccade/text/regex.h"

#include <pcre2.h>

#include <optional>

#include "saccade/base/error.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

constexpr uint32_t kMatchLimit = 10'000'000;  // bounds the time of a pattern that goes back again and again
constexpr uint32_t kHeapLimit = 64 * 1024;    // kibibytes

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

template <class Type>
using Owner = std::unique_ptr<Type, Free>;

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// Text that PCRE2 may read: each wrong byte becomes a control character, so that all places stay where they
// are.
std::string with_control_characters(std::string_view text) {
  std::string result(text);
  for (size_t at = valid_prefix(text); at < text.size(); at += valid_prefix(text.substr(at)))
    result[at++] = '\x1A';
  return result;
}

}  // namespace

struct Regex::Code {
  std::string pattern;
  Owner<pcre2_code> compiled;
};

Regex::Regex(std::string_view pattern) {
  const std::string translated = to_pcre2(pattern);
  const Owner<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  invariant(context != nullptr, "PCRE2 has memory");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int code = 0;
  PCRE2_SIZE offset = 0;
  auto result = std::make_shared<Code>();
  result->pattern = pattern;
  // ^ and $ are those of lines in Oniguruma.
  result->compiled.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                       PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                       &code, &offset, context.get()));
  require(result->compiled != nullptr, "the regular expression '{}' is wrong: {}", pattern, message_of(code));
  pcre2_jit_compile(result->compiled.get(), PCRE2_JIT_COMPLETE);  // without it, matching is only slower
  code_ = std::move(result);
}

std::vector<Stretch> Regex::split(std::string_view text) const {
  std::vector<Stretch> result;
  if (text.empty()) return result;
  if (!is_utf8(text)) return split(with_control_characters(text));

  const Owner<pcre2_match_data> data(pcre2_match_data_create_from_pattern(code_->compiled.get(), nullptr));
  const Owner<pcre2_match_context> context(pcre2_match_context_create(nullptr));
  const Owner<pcre2_jit_stack> stack(pcre2_jit_stack_create(32 * 1024, 8 * 1024 * 1024, nullptr));
  invariant(data && context && stack, "PCRE2 has memory");
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimit);
  pcre2_jit_stack_assign(context.get(), nullptr, stack.get());

  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data.get());
  size_t done = 0, from = 0;
  std::optional<size_t> last_end;
  while (from <= text.size()) {
    const auto match = [&](uint32_t options) {
      return pcre2_match(code_->compiled.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                         PCRE2_NO_UTF_CHECK | options, data.get(), context.get());
    };
    int outcome = match(0);
    if (outcome == PCRE2_ERROR_JIT_STACKLIMIT) outcome = match(PCRE2_NO_JIT);
    if (outcome == PCRE2_ERROR_NOMATCH) break;
    require(outcome >= 0, "the regular expression '{}' cannot be matched against a text of {} bytes: {}",
            code_->pattern, text.size(), message_of(outcome));
    const size_t begin = found[0], end = found[1];
    if (begin == end && last_end == end) {  // an empty match where the last one ended says nothing new
      if (from == text.size()) break;
      from += first_character(text.substr(from)).length;
      continue;
    }
    if (begin > done) result.push_back({done, begin, false});
    result.push_back({begin, end, true});
    done = from = end;
    last_end = end;
  }
  if (done < text.size()) result.push_back({done, text.size(), false});
  return result;
}

std::vector<Stretch> split_at(std::string_view text, std::string_view delimiter) {
  std::vector<Stretch> result;
  size_t done = 0;
  if (!delimiter.empty()) {
    for (size_t at = text.find(delimiter); at != text.npos; at = text.find(delimiter, done)) {
      if (at > done) result.push_back({done, at, false});
      done = at + delimiter.size();
      result.push_back({at, done, true});
    }
  }
  if (done < text.size()) result.push_back({done, text.size(), false});
  return result;
}

}  // namespace saccade
