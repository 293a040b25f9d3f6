// How well a model predicts a text: windows of tokens over it, what counts in each, and the sums. The windows
// are those of the usual loop around `transformers`, so the numbers are too.
#pragma once

#include <string>
#include <string_view>

#include "saccade/evaluate/questions.h"
#include "saccade/text/tokenizer.h"

namespace saccade {

// A text as a model reads it, with its size before tokens were made of it.
struct EncodedText {
  std::vector<int32_t> ids;      // with the special tokens that the tokenizer puts around a text
  int64_t special = 0;           // how many of these there are
  int64_t words = 0, bytes = 0;  // of the text; words are what white space separates
};

// The first `max_tokens` tokens of a text, or all for 0. Throws Error, naming `where`, for a text without
// any.
EncodedText encode_text(const Tokenizer& tokenizer, std::string_view text, std::string_view where,
                        int64_t max_tokens = 0);

// Windows of at most `context` tokens that do not overlap and end with their text, each asking for all its
// tokens but the first. A window of one token, which predicts nothing, is left out.
std::vector<Sequence> next_token_windows(std::span<const EncodedText> texts, int64_t context);

struct PerplexityOptions {
  int64_t context = 1024;  // tokens in a window
  int64_t stride = 0;      // by how many a window moves; 0: by all, so that windows do not overlap
  int64_t batch_size = 4;  // windows that are read together
  OnProgress on_progress;
};

// What was counted at the places of a window that see `first` to `last` tokens.
struct LengthBucket {
  int64_t first, last;
  Tally scored;
};

struct Perplexity {
  PerplexityOptions options;
  int64_t texts = 0, tokens = 0, words = 0, bytes = 0;  // tokens without special ones
  int64_t special = 0;
  int64_t windows = 0, read = 0;  // tokens that went through the model, those of overlaps twice
  Tally scored;
  std::vector<LengthBucket> length_curve;  // 1 to 16 tokens seen, 17 to 32, 33 to 64, ...
  double seconds = 0;
  int64_t peak_bytes = 0;

  // Of the text as a whole: the mean over the tokens that were scored stands for all of them.
  double nll_per_word() const;
  double perplexity_per_word() const { return std::exp(nll_per_word()); }
  double bits_per_byte() const;
  double tokens_per_second() const { return static_cast<double>(read) / seconds; }
  // What was counted and how, in words.
  std::string convention() const;
};

// Windows end with their text. Throws Error when no text has two tokens.
Perplexity measure_perplexity(const Reader& reader, std::span<const EncodedText> texts,
                              const PerplexityOptions& options);

}  // namespace saccade
