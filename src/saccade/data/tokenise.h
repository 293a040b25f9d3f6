// Documents to tokens, on all processors, and the vocabularies that are learned from documents.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "saccade/data/document_encoder.h"
#include "saccade/data/document_files.h"

namespace saccade {

/// Called with the tokens of one document after another, in their order.
using OnTokens = std::function<void(const DocumentText& document, std::span<const int32_t> ids)>;

/// Collects documents and encodes many at once. What comes out does not depend on the number of threads.
class Tokeniser {
 public:
  /// `threads` 0: as many as there are processors.
  Tokeniser(DocumentEncoder encoder, OnTokens on_tokens, int threads = 0);

  void add(DocumentText document);

  /// Once, after the last document.
  void finish();

 private:
  void encode_all();

  DocumentEncoder encoder_;
  OnTokens on_tokens_;
  int threads_;
  std::vector<DocumentText> waiting_;
  size_t bytes_ = 0;
};

/// Gives documents one after another to what it is called with.
using EachDocument = std::function<void(const OnDocument&)>;

/// "bytes", or "bpe:<size>", which is learned from the first 20 MB of the documents. Nothing for any other
/// name. Throws Error for a size that is none.
/// `prefix_space`: the first word of a text is written like those inside it.
std::optional<Tokenizer> learn_tokenizer(std::string_view name, const EachDocument& documents,
                                         bool prefix_space = false);

}  // namespace saccade
