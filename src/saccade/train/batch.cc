#include "saccade/train/batch.h"

#include <algorithm>
#include <numeric>

#include "saccade/base/error.h"
#include "saccade/train/token_loss.h"

namespace saccade {
namespace {

// Sources of one batch behind each other, padded; undefined when there are none.
void fill_sources(Batch& batch, const std::vector<TrainingSequence>& sequences) {
  size_t longest = 0, shortest = sequences.front().source.size();
  for (const TrainingSequence& sequence : sequences) {
    longest = std::max(longest, sequence.source.size());
    shortest = std::min(shortest, sequence.source.size());
  }
  if (longest == 0) return;
  invariant(shortest > 0, "data: some sequences of a data set have a source, and some have none");
  const auto rows = static_cast<int64_t>(sequences.size()), width = static_cast<int64_t>(longest);
  batch.source = torch::zeros({rows, width}, torch::kLong);
  if (shortest < longest) batch.source_mask = torch::zeros({rows, width}, torch::kBool);
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<int32_t>& source = sequences[static_cast<size_t>(row)].source;
    std::ranges::copy(source, batch.source.data_ptr<int64_t>() + row * width);
    if (batch.source_mask.defined())
      std::fill_n(batch.source_mask.data_ptr<bool>() + row * width, source.size(), true);
  }
}

}  // namespace

Batch read_batch(const Dataset& data, std::span<const int64_t> numbers, bool separate_documents) {
  std::vector<TrainingSequence> sequences;
  for (const int64_t number : numbers) sequences.push_back(data.read(number));
  invariant(!sequences.empty(), "data: a batch without a sequence");
  const auto rows = static_cast<int64_t>(sequences.size());
  int64_t width = 0;
  for (const TrainingSequence& sequence : sequences)
    width = std::max(width, static_cast<int64_t>(sequence.ids.size()) - 1);
  Batch batch{.ids = torch::zeros({rows, width}, torch::kLong),
              .targets = torch::full({rows, width}, kNoTarget, torch::kLong),
              .documents = torch::zeros({rows, width}, torch::kLong),
              .first = numbers.front()};
  if (!sequences.front().answers.empty()) batch.answers = torch::zeros({rows, width}, torch::kBool);
  bool several = false;
  for (int64_t row = 0; row < rows; ++row) {
    const TrainingSequence& sequence = sequences[static_cast<size_t>(row)];
    const auto length = static_cast<int64_t>(sequence.ids.size()) - 1;
    int64_t* ids = batch.ids.data_ptr<int64_t>() + row * width;
    int64_t* targets = batch.targets.data_ptr<int64_t>() + row * width;
    int64_t* documents = batch.documents.data_ptr<int64_t>() + row * width;
    for (int64_t place = 0; place < length; ++place) {
      const auto here = static_cast<size_t>(place), next = here + 1;
      ids[place] = sequence.ids[here];
      documents[place] = sequence.documents[here];
      const bool same = sequence.documents[here] == sequence.documents[next];
      targets[place] = same ? sequence.ids[next] : kNoTarget;
      batch.scored += same ? 1 : 0;
      several |= documents[place] != sequence.documents[0];
      if (!sequence.answers.empty())
        batch.answers.data_ptr<bool>()[row * width + place] = same && sequence.answers[next] != 0;
    }
  }
  if (!several || !separate_documents) batch.documents = at::Tensor();
  fill_sources(batch, sequences);
  return batch;
}

Batch read_batch(const Dataset& data, int64_t first, int64_t count, bool separate_documents) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return read_batch(data, numbers, separate_documents);
}

}  // namespace saccade
