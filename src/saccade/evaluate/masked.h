// How well a masked model fills in tokens that were hidden from it.
#pragma once

#include <string>

#include "saccade/evaluate/perplexity.h"

namespace saccade {

struct MaskedOptions {
  int64_t context = 512;  // tokens in a window, with the special ones around it
  int64_t batch_size = 4;
  double rate = 0.15;  // of the tokens that are hidden
  uint64_t seed = 1;
  OnProgress on_progress;
};

struct Masked {
  MaskedOptions options;
  int64_t windows = 0, read = 0;
  Tally scored;
  double seconds = 0;
  int64_t peak_bytes = 0;

  double tokens_per_second() const { return static_cast<double>(read) / seconds; }
  std::string convention() const;
};

// Windows with hidden tokens, which are asked for. Throws Error when the tokenizer has no mask token.
std::vector<Sequence> masked_windows(const Tokenizer& tokenizer, std::span<const EncodedText> texts,
                                     const MaskedOptions& options);

Masked measure_masked(const Reader& reader, const Tokenizer& tokenizer, std::span<const EncodedText> texts,
                      const MaskedOptions& options);

}  // namespace saccade
