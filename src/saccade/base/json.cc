// The parser is nlohmann's; this file bounds it and words its errors.
#include "saccade/base/json.h"

#include <algorithm>

#include "saccade/base/error.h"

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

}  // namespace

Json parse_json(std::string_view text, std::string_view where) {
  const auto bounded = [&](int depth, Json::parse_event_t, Json&) {
    require(depth <= kJsonDepth, "{}: nested deeper than {} levels", where, kJsonDepth);
    return true;
  };
  try {
    return Json::parse(text, bounded);
  } catch (const Json::parse_error& error) {
    const std::size_t offset = error.byte > 0 ? error.byte - 1 : 0;
    fail("{}:{}: {}", where, place(text, offset), without_prefix(error.what()));
  } catch (const Json::exception& error) {
    fail("{}: {}", where, without_prefix(error.what()));
  }
}

std::string dump(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace saccade
