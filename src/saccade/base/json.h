// JSON in and out, with errors that name the place and a bound on nesting.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace saccade {

/// A JSON value whose objects keep the order in which their members were added.
using Json = nlohmann::ordered_json;

/// How deeply arrays and objects may be nested in text that is read.
inline constexpr int kJsonDepth = 200;

/// Reads one JSON value. Throws an Error "where:line:column: reason" when the text is not JSON, is not UTF-8,
/// holds a number too large for a double, or is nested deeper than kJsonDepth.
Json parse_json(std::string_view text, std::string_view where);

/// A JSON value whose objects find a member quickly, however many they have.
using SortedJson = nlohmann::json;

/// Like parse_json, but for files from elsewhere: an object that gives a key twice is an Error as well, since
/// programs disagree about which one holds.
SortedJson parse_unique_json(std::string_view text, std::string_view where);

/// Writes a value, on one line or indented by `indent` spaces. JSON has no infinities and no NaN: they are
/// written as null. Text that is not UTF-8 gets U+FFFD in place of its wrong bytes.
std::string dump(const Json& value, int indent = -1);

}  // namespace saccade
