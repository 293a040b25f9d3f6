// The table of cases.
#include "saccade/certify/case.h"

#include <charconv>
#include <vector>

#include "saccade/base/error.h"
#include "saccade/base/text.h"

namespace saccade {
namespace {

constexpr Case kCases[] = {
    {.batch = 1, .heads = 1, .kv_heads = 1, .queries = 1, .keys = 1, .head_dim = 2, .value_dim = 2},
    {.batch = 1, .heads = 1, .kv_heads = 1, .queries = 3, .keys = 3, .head_dim = 4, .value_dim = 4},
    {.batch = 2,
     .heads = 2,
     .kv_heads = 2,
     .queries = 5,
     .keys = 5,
     .head_dim = 4,
     .value_dim = 3,
     .seed = 2},
    {.batch = 1,
     .heads = 4,
     .kv_heads = 2,
     .queries = 7,
     .keys = 7,
     .head_dim = 8,
     .value_dim = 8,
     .rotary = 1,
     .seed = 3},
    {.batch = 2,
     .heads = 6,
     .kv_heads = 2,
     .queries = 4,
     .keys = 9,
     .offset = 5,
     .head_dim = 6,
     .value_dim = 5,
     .seed = 4},
    {.batch = 1,
     .heads = 2,
     .kv_heads = 1,
     .queries = 6,
     .keys = 11,
     .head_dim = 2,
     .value_dim = 7,
     .seed = 5},
    {.batch = 3,
     .heads = 3,
     .kv_heads = 1,
     .queries = 33,
     .keys = 33,
     .head_dim = 16,
     .value_dim = 16,
     .rotary = 1,
     .seed = 6},
    {.batch = 1,
     .heads = 2,
     .kv_heads = 2,
     .queries = 70,
     .keys = 70,
     .head_dim = 10,
     .value_dim = 10,
     .seed = 7},
};

}  // namespace

std::span<const Case> conformance_cases() { return kCases; }

std::string to_string(const Case& c) {
  std::vector<std::string> parts;
  Case::visit(c, [&](std::string_view letter, int64_t value) {
    parts.push_back(fmt::format("{}{}", letter, value));
  });
  return join(parts, ".");
}

std::string describe(const Case& c) {
  std::string text = fmt::format("{}, {}", plural(c.batch, "sequence"), plural(c.heads, "head"));
  if (c.kv_heads != c.heads) text += fmt::format(" on {}", plural(c.kv_heads, "key head"));
  text += c.queries == c.keys ? fmt::format(", {}", plural(c.queries, "token"))
                              : fmt::format(", {} on {}", plural(c.queries, "query"), plural(c.keys, "key"));
  if (c.offset) text += fmt::format(", first query at position {}", c.offset);
  text += fmt::format(", width {}", c.head_dim);
  if (c.rotary) text += ", rotary";
  return text;
}

Case parse_case(std::string_view text) {
  Case result;
  std::string_view rest = text;
  Case::visit(result, [&](std::string_view letter, int64_t& value) {
    const size_t end = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, end);
    rest = end < rest.size() ? rest.substr(end + 1) : std::string_view();
    const bool named = part.starts_with(letter);
    const char* begin = part.data() + letter.size();
    const char* finish = part.data() + part.size();
    require(named && std::from_chars(begin, finish, value).ptr == finish && begin != finish && value >= 0 &&
                value <= 100000,
            "case: cannot read '{}' at '{}'; expected a form like '{}'", text, part, to_string(kCases[0]));
  });
  require(rest.empty(), "case: '{}' has more fields than expected; the form is '{}'", text,
          to_string(kCases[0]));
  require(result.heads > 0 && result.kv_heads > 0 && result.heads % result.kv_heads == 0,
          "case: {} heads are not a multiple of {} key heads", result.heads, result.kv_heads);
  require(result.batch > 0 && result.head_dim > 0 && result.value_dim > 0 && result.keys > 0 &&
              result.queries > 0,
          "case: every size of '{}' must be at least 1", text);
  require(result.rotary == 0 || result.head_dim % 2 == 0,
          "case: rotary embedding needs an even width, not {}", result.head_dim);
  return result;
}

}  // namespace saccade
