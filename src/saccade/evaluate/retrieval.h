// Whether a model finds again what it has read: a number hidden in a long text, and pairs of words that are
// asked for in another order. Both are made of text, so that any tokenizer will do.
#pragma once

#include <string>

#include "saccade/base/random.h"
#include "saccade/evaluate/questions.h"
#include "saccade/text/tokenizer.h"

namespace saccade {

struct RetrievalOptions {
  int64_t context = 1024;        // no case is longer
  std::vector<int64_t> lengths;  // of the texts, in tokens; empty: 128, 256, ... up to the context
  std::vector<double> depths = {0, 0.25, 0.5, 0.75, 1};  // 0: the number comes first, 1: just before the end
  std::vector<int64_t> pairs = {4, 8, 16, 32, 64};       // those that fit the context are tried
  int64_t trials = 5;                                    // per length and depth, and per number of pairs
  uint64_t seed = 1;
  OnProgress on_progress;
};

struct RetrievalCell {
  int64_t length;  // in tokens; of recall, the number of pairs
  double depth;    // of recall, the quarter of the list: 0, 0.25, 0.5 or 0.75
  int64_t asked = 0, found = 0;

  double accuracy() const { return static_cast<double>(found) / static_cast<double>(asked); }
};

struct Retrieval {
  std::vector<RetrievalCell> passkey, recall;

  static std::string convention();
};

// A number of five digits in a text of at most `length` tokens, with questions for all its tokens. Throws
// Error when the length does not suffice for any filling, or the tokenizer does not know digits.
Sequence passkey_case(const Tokenizer& tokenizer, int64_t length, double depth, RandomStream random);

// A list of pairs of words, then the same pairs in another order.
struct RecallCase {
  Sequence sequence;
  std::vector<std::vector<size_t>> questions;  // for each pair of the list, which questions make up its word
};
// For 1 to 64 pairs.
RecallCase recall_case(const Tokenizer& tokenizer, int64_t pairs, RandomStream random);

// Something is found when each of its tokens is the most likely one, after those before it: which is when
// greedy generation would write it.
Retrieval measure_retrieval(const Reader& reader, const Tokenizer& tokenizer,
                            const RetrievalOptions& options);

}  // namespace saccade
