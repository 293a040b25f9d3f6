// What a GGUF file says about its tokenizer. The caller copies it from the file's metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "saccade/text/tokenizer_spec.h"

namespace saccade {

struct GgufVocabulary {
  std::string model;                // tokenizer.ggml.model: "gpt2", "llama" or "bert"
  std::string pre;                  // tokenizer.ggml.pre: how "gpt2" splits its text; "" is "default"
  std::vector<std::string> tokens;  // tokenizer.ggml.tokens, by id
  std::vector<float> scores;        // tokenizer.ggml.scores, needed by "llama"
  std::vector<int32_t> types;       // tokenizer.ggml.token_type; empty if all are normal
  std::vector<std::string> merges;  // tokenizer.ggml.merges, needed by "gpt2"
  // tokenizer.ggml.bos_token_id and so on; add_bos_token and so on. What the file does not say is left out.
  std::optional<int32_t> bos, eos, unk, pad, mask, cls, sep;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

/// The description of the same tokenizer as a tokenizer.json would give it; throws an Error that names what
/// is not supported.
TokenizerSpec gguf_tokenizer(const GgufVocabulary& vocabulary);

}  // namespace saccade
