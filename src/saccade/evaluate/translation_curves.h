// BLEU against what makes translation hard: sources that are damaged, and sentences that come as one long
// document.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "saccade/base/random.h"
#include "saccade/evaluate/bleu.h"
#include "saccade/evaluate/robustness.h"
#include "saccade/text/tokenizer.h"

namespace saccade {

using TranslateLines = std::function<std::vector<std::string>(std::span<const std::string>)>;

// A source with tokens dropped or swapped, or with typing mistakes.
std::string damaged(const Tokenizer& tokenizer, std::string_view line, Corruption corruption, double rate,
                    RandomStream random);

struct NoisePoint {
  Corruption corruption;
  double rate;
  Bleu bleu;
};
// The first point is without damage. Line n is damaged by the random numbers of the seed and n alone.
std::vector<NoisePoint> noise_curve(const TranslateLines& translate, const Tokenizer& tokenizer,
                                    std::span<const std::string> sources,
                                    std::span<const std::vector<std::string>> references,
                                    std::span<const double> rates, uint64_t seed, const BleuOptions& options);

struct LengthPoint {
  int64_t sentences;  // in a document
  double words;       // of a source, on average
  Bleu bleu;          // of the documents
};
// Neighbouring lines are joined to documents, which are translated as one.
std::vector<LengthPoint> length_curve(const TranslateLines& translate, std::span<const std::string> sources,
                                      std::span<const std::vector<std::string>> references,
                                      std::span<const int64_t> sentences, const BleuOptions& options);

}  // namespace saccade
