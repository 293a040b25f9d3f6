// What cuts a text into the pieces that the model then encodes one by one.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "saccade/text/json_part.h"

namespace saccade {

/// A piece of the text; it may be a changed copy, which then lives only as long as the call that hands it on.
struct Piece {
  std::string_view text;
  bool first = false;  // whether it starts where the whole text starts
};

using PieceSink = std::function<void(const Piece&)>;

class PreTokenizer {
 public:
  PreTokenizer() = default;
  virtual ~PreTokenizer() = default;
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;

  /// Hands the parts of a piece to `use`, in order; none of them is empty.
  virtual void split(const Piece& piece, const PieceSink& use) const = 0;
};

/// The pre-tokenizer that a tokenizer file describes; throws an Error that names what is not supported. With
/// `plain_bytes` a ByteLevel leaves its bytes as they are: the model will read them as such.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonPart& part, bool plain_bytes);

/// Whether the description's last step, and no other, is a ByteLevel: then its bytes need not be written in
/// the alphabet for bytes only to be read again.
bool ends_with_byte_level(const Json& description);

}  // namespace saccade
