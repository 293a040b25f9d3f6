// Lines of one language into lines of another: beam search over a model with an encoder. Line n of the result
// is the translation of line n, whatever it holds, and does not depend on which others are translated with
// it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "saccade/models/transformer.h"
#include "saccade/text/pair_encoder.h"

namespace saccade {

struct TranslationOptions {
  int64_t beams = 5;  // 1: the most likely token each time
  int64_t n_best = 1;
  double length_penalty = 1;  // score = sum of log-probabilities / length ^ length_penalty
  bool early_stopping = false;
  int64_t batch_size = 32;     // lines that are translated together
  int64_t max_new_tokens = 0;  // 0: twice as many as the source has, and 20
  bool extend = false;  // read lines beyond the model's context, where its positions allow; otherwise they
                        // are cut
};

struct LineTranslation {
  std::vector<std::string> texts;  // best first, at least one; "" for a line of white space
  std::vector<double> scores;
  int64_t source_tokens = 0;
  int64_t read_tokens = 0;  // of these; fewer when the line was longer than the model's context
  bool ended = true;        // the best one came to its end before the limit
};

// Throws Error for a model without an encoder, and for options without a meaning.
std::vector<LineTranslation> translate(
    const Transformer& model, const PairEncoder& encoder, std::span<const std::string> lines,
    const TranslationOptions& options,
    const std::function<void(int64_t done, int64_t total)>& on_progress = {});

// The best of each line alone.
std::vector<std::string> translate_lines(const Transformer& model, const PairEncoder& encoder,
                                         std::span<const std::string> lines,
                                         const TranslationOptions& options);

}  // namespace saccade
