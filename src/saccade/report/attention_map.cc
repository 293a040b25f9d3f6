// Numbers are kept bit for bit; what lies right of the diagonal of a causal map is left out, which halves the
// file.
#include "saccade/report/attention_map.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "saccade/base/base64.h"
#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/report/field.h"

namespace saccade {
namespace {

static_assert(std::endian::native == std::endian::little, "floats are written as they lie in memory");

constexpr std::int64_t kLongest = std::int64_t{1} << 20;  // rows or columns, so that products cannot overflow

std::int64_t blocks(std::int64_t length, std::int64_t block) { return (length + block - 1) / block; }

// How many values of a row are written.
std::int64_t written(const AttentionMap& map, bool triangle, std::int64_t row) {
  return triangle ? std::min(map.columns, map.first_row + row + 1) : map.columns;
}

std::int64_t written(const AttentionMap& map, bool triangle) {
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < map.rows; ++row) count += written(map, triangle, row);
  return count;
}

bool is_triangle(const AttentionMap& map) {
  for (std::int64_t row = 0; row < map.rows; ++row) {
    const float* values = map.values.data() + row * map.columns;
    // A negative zero or a NaN would not come back.
    if (!std::all_of(values + written(map, true, row), values + map.columns,
                     [](float value) { return std::bit_cast<std::uint32_t>(value) == 0; }))
      return false;
  }
  return true;
}

std::string name_of(const AttentionMap& map) { return fmt::format("layer {}, head {}", map.layer, map.head); }

void check_mask(const AttentionMap& map, const std::string& where) {
  if (!map.mask) return;
  const BlockMask& mask = *map.mask;
  require(mask.query_block > 0 && mask.key_block > 0,
          "{}: blocks of {} queries and {} keys; expected at least one of each", where, mask.query_block,
          mask.key_block);
  const std::int64_t expected = blocks(map.rows, mask.query_block) * blocks(map.columns, mask.key_block);
  require(std::ssize(mask.kept) == expected, "{}: a mask of {} blocks; expected {} for a map of {} x {}",
          where, mask.kept.size(), expected, map.rows, map.columns);
}

void check_sizes(const AttentionMap& map, std::int64_t keys, std::int64_t queries, const std::string& where) {
  require(map.rows > 0 && map.columns > 0 && map.rows <= kLongest && map.columns <= kLongest,
          "{}: a map of {} x {}; expected from 1 to {} rows and columns", where, map.rows, map.columns,
          kLongest);
  require(map.columns <= keys, "{}: {} columns, but only {} tokens", where, map.columns, keys);
  require(map.first_row >= 0 && map.first_row <= queries - map.rows, "{}: rows {} to {}, but only {} queries",
          where, map.first_row, map.first_row + map.rows - 1, queries);
}

std::string base64_of(std::span<const float> values) { return to_base64(std::as_bytes(values)); }

std::vector<float> floats_of(const Field& field) {
  const std::vector<std::byte> bytes = from_base64(field.text(), field.where());
  require(bytes.size() % sizeof(float) == 0, "{}: {} bytes; expected whole float32 numbers", field.where(),
          bytes.size());
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Json json_of(const AttentionMap& map) {
  const bool triangle = is_triangle(map);
  std::vector<float> values;
  for (std::int64_t row = 0; row < map.rows; ++row) {
    const auto first = map.values.begin() + row * map.columns;
    values.insert(values.end(), first, first + written(map, triangle, row));
  }
  Json json{{"layer", map.layer},
            {"head", map.head},
            {"first_row", map.first_row},
            {"rows", map.rows},
            {"columns", map.columns},
            {"signed", map.has_sign || std::ranges::any_of(map.values, [](float v) { return v < 0; })},
            {"triangle", triangle},
            {"weights", base64_of(values)}};
  if (map.mask)
    json["mask"] = {{"query_block", map.mask->query_block},
                    {"key_block", map.mask->key_block},
                    {"kept", base64_of(map.mask->kept)}};
  return json;
}

AttentionMap map_of(const Field& field, std::int64_t keys, std::int64_t queries) {
  AttentionMap map{.layer = field.at("layer").whole(),
                   .head = field.at("head").whole(),
                   .first_row = field.at("first_row").whole(),
                   .rows = field.at("rows").whole(),
                   .columns = field.at("columns").whole(),
                   .has_sign = field.at("signed").flag()};
  check_sizes(map, keys, queries, field.where());
  const bool triangle = field.at("triangle").flag();
  const Field weights = field.at("weights");
  const std::vector<float> packed = floats_of(weights);
  const std::int64_t expected = written(map, triangle);
  require(std::ssize(packed) == expected, "{}: {} numbers; expected {} for a {} of {} x {}", weights.where(),
          packed.size(), expected, triangle ? "triangle" : "map", map.rows, map.columns);
  map.values.resize(static_cast<size_t>(map.rows * map.columns));
  auto from = packed.begin();
  for (std::int64_t row = 0; row < map.rows; ++row) {
    const std::int64_t count = written(map, triangle, row);
    std::copy(from, from + count, map.values.begin() + row * map.columns);
    from += count;
  }
  if (const std::optional<Field> mask = field.find("mask")) {
    map.mask = BlockMask{.query_block = mask->at("query_block").whole(),
                         .key_block = mask->at("key_block").whole(),
                         .kept = floats_of(mask->at("kept"))};
    check_mask(map, mask->where());
  }
  return map;
}

std::vector<std::string> texts_of(const Field& field) {
  std::vector<std::string> texts;
  for (const Field& item : field.items()) texts.push_back(item.text());
  return texts;
}

}  // namespace

Json to_json(const AttentionCapture& capture) {
  const auto keys = std::ssize(capture.tokens);
  const auto queries = capture.queries.empty() ? keys : std::ssize(capture.queries);
  Json json{{"format", kAttentionFormat},
            {"model", capture.model},
            {"attention", capture.attention},
            {"data", capture.data},
            {"tokens", capture.tokens}};
  if (!capture.queries.empty()) json["queries"] = capture.queries;
  json["maps"] = Json::array();
  for (const AttentionMap& map : capture.maps) {
    const std::string where = "attention map, " + name_of(map);
    check_sizes(map, keys, queries, where);
    require(std::ssize(map.values) == map.rows * map.columns, "{}: {} values for a map of {} x {}", where,
            map.values.size(), map.rows, map.columns);
    check_mask(map, where);
    json["maps"].push_back(json_of(map));
  }
  return json;
}

AttentionCapture attention_from_json(const Json& json, const std::string& where) {
  const Field file(json, where);
  const std::string format = file.at("format").text();
  require(format == kAttentionFormat, "{}: the format is '{}'; expected '{}'", where, printable(format),
          kAttentionFormat);
  AttentionCapture capture{.model = file.text_or("model", ""),
                           .attention = file.text_or("attention", ""),
                           .data = file.text_or("data", ""),
                           .tokens = texts_of(file.at("tokens"))};
  if (const std::optional<Field> queries = file.find("queries")) capture.queries = texts_of(*queries);
  const auto keys = std::ssize(capture.tokens);
  const auto rows = capture.queries.empty() ? keys : std::ssize(capture.queries);
  for (const Field& map : file.at("maps").items()) capture.maps.push_back(map_of(map, keys, rows));
  return capture;
}

}  // namespace saccade
