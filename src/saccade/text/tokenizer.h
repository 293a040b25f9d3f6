// Text to token ids and back, for the tokenizers of published models: those of a tokenizer.json and those
// inside a GGUF file. The ids are those of the `tokenizers` package; what it can do and this cannot is an
// Error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/text/gguf_vocabulary.h"
#include "saccade/text/post_processors.h"
#include "saccade/text/tokenizer_spec.h"

namespace saccade {

/// The ids that have a role, as far as they are known.
struct SpecialIds {
  std::optional<int32_t> bos, eos, pad, unk, mask, cls, sep;
};

/// An immutable tokenizer; copies are cheap, and any number of threads may use one.
///
/// The sections "truncation" and "padding" of a tokenizer.json are kept by to_json but not applied: how long
/// a sequence may be is the caller's choice.
///
/// Text need not be UTF-8. A byte-level tokenizer without a normalizer encodes the bytes as they are, and
/// decode gives them back; for all others, what is not UTF-8 is replaced by U+FFFD first.
class Tokenizer {
 public:
  /// Reads the content of a tokenizer.json; `name` is what messages call it.
  static Tokenizer from_json(std::string_view json, std::string_view name);

  /// Reads a tokenizer.json, or the one in a directory. A tokenizer_config.json beside it says which tokens
  /// begin and end a text; without it, that is known by the tokens' usual names.
  static Tokenizer from_file(const std::filesystem::path& path);

  /// Makes a tokenizer from what a GGUF file says.
  static Tokenizer from_gguf(const GgufVocabulary& vocabulary);

  /// Makes a tokenizer from its description.
  static Tokenizer from_spec(TokenizerSpec spec, std::string_view name);

  /// The ids of a text; with `add_special_tokens`, those that the tokenizer puts around a text are among
  /// them. Tokens such as <|im_end|> that are written in the text are recognised in any case.
  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens = true) const;

  /// The same with type ids, for one text or two.
  Encoding encode_with_types(std::string_view text, bool add_special_tokens = true) const;
  Encoding encode_pair(std::string_view a, std::string_view b, bool add_special_tokens = true) const;

  /// The text of ids; ids without a token are passed over.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens = true) const;

  /// One more than the largest id.
  int64_t size() const;

  std::optional<int32_t> id_of(std::string_view token) const;

  /// The token as the vocabulary writes it, or "" for an id that has none. It holds as long as the tokenizer.
  std::string_view token_of(int32_t id) const;

  /// Whether decode leaves the id out.
  bool is_special(int32_t id) const;

  const SpecialIds& special_ids() const;

  /// A tokenizer.json that the `tokenizers` package reads and that gives the same ids.
  std::string to_json() const;

  /// A tokenizer_config.json to go with it, which names the special tokens for `transformers`.
  std::string config_json() const;

 private:
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts);

  std::shared_ptr<const Parts> parts_;
};

}  // namespace saccade
