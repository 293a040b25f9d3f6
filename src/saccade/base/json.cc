// The parser is nlohmann's; this file bounds it and words its errors.
#include "saccade/base/json.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "saccade/base/error.h"
#include "saccade/base/text.h"

namespace saccade {
namespace {

// "line:column" of the byte at `offset`, both counted from one.
std::string place(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto line_start = before.rfind('\n');
  const auto column = before.size() - (line_start == before.npos ? 0 : line_start + 1) + 1;
  return fmt::format("{}:{}", line, column);
}

// The part of the library's message after its own prefix: "[json.exception…] parse error at line 1, column 2:
// ".
std::string_view without_prefix(std::string_view message) {
  if (const auto end = message.find("] "); message.starts_with('[') && end != message.npos) {
    message.remove_prefix(end + 2);
  }
  if (message.starts_with("parse error")) {
    if (const auto colon = message.find(": "); colon != message.npos) message.remove_prefix(colon + 2);
  }
  return message;
}

// Called with (depth, event, value) for each part of a text, before it becomes part of the result.
template <class Value, class Watch>
Value parse(std::string_view text, std::string_view where, Watch&& watch) {
  const auto bounded = [&](int depth, auto event, Value& parsed) {
    require(depth <= kJsonDepth, "{}: nested deeper than {} levels", where, kJsonDepth);
    watch(depth, event, parsed);
    return true;
  };
  try {
    return Value::parse(text, bounded);
  } catch (const typename Value::parse_error& error) {
    const std::size_t offset = error.byte > 0 ? error.byte - 1 : 0;
    fail("{}:{}: {}", where, place(text, offset), without_prefix(error.what()));
  } catch (const typename Value::exception& error) {
    fail("{}: {}", where, without_prefix(error.what()));
  }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where) {
  return parse<Json>(text, where, [](int, Json::parse_event_t, const Json&) {});
}

SortedJson parse_unique_json(std::string_view text, std::string_view where) {
  using Event = SortedJson::parse_event_t;
  std::vector<std::unordered_set<std::string>> open;  // the keys so far of each object that is being read
  return parse<SortedJson>(text, where, [&](int, Event event, const SortedJson& parsed) {
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end) open.pop_back();
    if (event != Event::key) return;
    const auto& key = parsed.get_ref<const std::string&>();
    require(open.back().insert(key).second, "{}: the key '{}' is given twice in one object", where,
            printable(key));
  });
}

std::string dump(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace saccade
