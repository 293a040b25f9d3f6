// Associative recall with many questions: a list of pairs of words, then the same pairs in another order. The
// text alone; the evaluation of models uses it as well.
#pragma once

#include <cstdint>
#include <vector>

#include "saccade/base/random.h"
#include "saccade/data/generator.h"

namespace saccade {

struct RecallText {
  std::vector<Segment> segments;
  std::vector<size_t> pairs;  // for each answer in turn, its pair's place in the list
};

/// For 1 to most_recall_pairs() pairs. No word comes in two pairs.
RecallText write_recall(int64_t pairs, RandomStream random);

int64_t most_recall_pairs();

}  // namespace saccade
