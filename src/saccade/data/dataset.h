// What training reads: numbered sequences of tokens. Everything about the order is in the number: there is no
// state, so that going on after an interruption, or reading in several processes, means to know a number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace saccade {

/// A row of a batch. Each token but the first is asked for by the one before it.
struct TrainingSequence {
  std::vector<int32_t> ids;  // one more than the model reads
  /// The document each token belongs to, counted within the sequence. A token is never asked for by one of
  /// another document.
  std::vector<int32_t> documents;
  /// Empty, or 1 for each token that can be known for certain from what comes before it: accuracy is counted
  /// on these.
  std::vector<uint8_t> answers;
  /// What an encoder reads before: the sentence that is translated. Empty where there is none.
  std::vector<int32_t> source;
};

/// Tokens of a sequence, and of its source if it has one.
struct SequenceLength {
  int64_t tokens = 0, source = 0;
  int64_t longest() const { return std::max(tokens, source); }
  int64_t shortest() const { return std::min(tokens, source); }
};

/// All members may be called from several threads.
class Dataset {
 public:
  static constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

  virtual ~Dataset() = default;

  /// How many sequences there are before they come again, in another order; kEndless: never.
  virtual int64_t size() const = 0;

  /// The sequence that comes as number `index` in training: 0, 1, 2, ...; the same whenever it is asked for.
  virtual TrainingSequence read(int64_t index) const = 0;

  /// How much the model reads of that sequence.
  virtual SequenceLength length(int64_t index) const {
    const TrainingSequence sequence = read(index);
    return {static_cast<int64_t>(sequence.ids.size()) - 1, static_cast<int64_t>(sequence.source.size())};
  }
};

}  // namespace saccade
