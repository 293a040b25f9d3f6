// A tokenizer as a description: what a tokenizer.json says, with the long lists apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/base/json.h"
#include "saccade/text/model.h"

namespace saccade {

// clang-tidy does not see that a JSON value moves without throwing.
// NOLINTNEXTLINE(bugprone-exception-escape)
struct TokenizerSpec {
  Json config;  // the file, with null in place of the model's vocabulary and merges
  std::vector<std::pair<std::string, int32_t>> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;
};

/// Reads a tokenizer.json. `name` is what messages call it.
TokenizerSpec parse_tokenizer_json(std::string_view text, std::string_view name);

/// Writes it: `config` as above, with the model's lists in their places.
std::string print_tokenizer_json(const Json& config, const Model& model);

}  // namespace saccade
