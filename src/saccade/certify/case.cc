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

// Several tiles of queries and of keys; with and without grouped heads; queries at the end of a longer past;
// few queries on many keys, which are divided in another way.
constexpr Case kTileCases[] = {
    {.batch = 1,
     .heads = 2,
     .kv_heads = 1,
     .queries = 211,
     .keys = 211,
     .head_dim = 20,
     .value_dim = 9,
     .seed = 8},
    {.batch = 1,
     .heads = 1,
     .kv_heads = 1,
     .queries = 103,
     .keys = 523,
     .offset = 420,
     .head_dim = 7,
     .value_dim = 33,
     .seed = 9},
    {.batch = 1,
     .heads = 2,
     .kv_heads = 1,
     .queries = 5,
     .keys = 1033,
     .offset = 1028,
     .head_dim = 12,
     .value_dim = 5,
     .seed = 10},
};

std::vector<Case> make_size_cases() {
  std::vector<Case> result;
  const auto add = [&](int64_t queries, int64_t keys) {
    Case c{.queries = queries, .keys = keys};
    c.offset = keys > queries && queries % 2 ? keys - queries : 0;
    c.head_dim = 1 + queries * 7 % 37;
    c.value_dim = 1 + queries * 11 % 41;
    c.seed = 11 + queries;
    result.push_back(c);
  };
  // Each number of keys up to 70 occurs too: 29 and 71 have no common factor.
  for (int64_t queries = 1; queries <= 70; ++queries) add(queries, queries * 29 % 71);
  for (const auto& [queries, keys] :
       {std::pair<int64_t, int64_t>{97, 101}, {127, 113}, {211, 307}, {257, 223}})
    add(queries, keys);
  return result;
}

}  // namespace

std::span<const Case> conformance_cases() { return kCases; }

std::span<const Case> cases_with_tiles() {
  static const auto& cases = *[] {
    auto* all = new std::vector<Case>(std::begin(kCases), std::end(kCases));
    all->insert(all->end(), std::begin(kTileCases), std::end(kTileCases));
    return all;
  }();
  return cases;
}

std::span<const Case> size_cases() {
  static const auto& cases = *new std::vector<Case>(make_size_cases());
  return cases;
}

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
