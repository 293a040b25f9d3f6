// Attention weights that were captured while a model read a text: whole heads, or some rows of them, with the
// tokens they belong to. This is what the report and the viewer draw as heat maps.
//
// The file is JSON:
//
//     {"format": "saccade attention 1",
//      "model": "runs/tiny-prior", "attention": "prior", "data": "valid.txt",
//      "tokens": ["The", " clock", ...],            what the keys are, in order
//      "queries": ["Die", ...],                     only if they are not the same tokens
//      "maps": [{"layer": 0, "head": 1,
//                "first_row": 0, "rows": 64, "columns": 64,
//                "signed": false,                   whether weights of this formula may be negative
//                "triangle": true,                  row i holds columns 0 to i only; the others are 0
//                "weights": "AACAPwAA...",          float32, little-endian, row by row, as base64
//                "mask": {"query_block": 64, "key_block": 64, "kept": "AACAPw..."}}]}
//
// `mask`, where there is one, says which share of the pairs in each block was looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/base/json.h"

namespace saccade {

/// Shares of pairs that were looked at, in blocks that begin at a map's first row and at key 0. The last
/// block of a row or a column may be smaller.
struct BlockMask {
  std::int64_t query_block = 0, key_block = 0;
  std::vector<float> kept;  ///< From 0 to 1, row by row.
};

struct AttentionMap {
  std::int64_t layer = 0, head = 0;
  std::int64_t first_row = 0;  ///< The query that the first row belongs to.
  std::int64_t rows = 0, columns = 0;
  bool has_sign = false;      ///< Weights of this formula may be negative, whether or not these are.
  std::vector<float> values;  ///< Row by row.
  std::optional<BlockMask> mask;
};

struct AttentionCapture {
  std::string model, attention, data;  ///< For people; each may be empty.
  std::vector<std::string> tokens;     ///< Of the keys: at least as many as the widest map has columns.
  std::vector<std::string> queries;    ///< Empty: the same tokens.
  std::vector<AttentionMap> maps;
};

inline constexpr std::string_view kAttentionFormat = "saccade attention 1";

/// Throws Error for maps whose sizes do not fit together or to the tokens.
Json to_json(const AttentionCapture& capture);

/// Throws an Error that begins with `where`, and names the member that is wrong.
AttentionCapture attention_from_json(const Json& json, const std::string& where);

}  // namespace saccade
