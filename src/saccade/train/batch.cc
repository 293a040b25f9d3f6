#include "saccade/train/batch.h"

#include "saccade/base/error.h"
#include "saccade/train/token_loss.h"

namespace saccade {

Batch read_batch(const Dataset& data, int64_t first, int64_t count, bool separate_documents) {
  Batch batch{.first = first};
  bool several = false;
  for (int64_t row = 0; row < count; ++row) {
    const TrainingSequence sequence = data.read(first + row);
    const auto length = static_cast<int64_t>(sequence.ids.size()) - 1;
    if (row == 0) {
      batch.ids = torch::empty({count, length}, torch::kLong);
      batch.targets = torch::empty({count, length}, torch::kLong);
      batch.documents = torch::empty({count, length}, torch::kLong);
      if (!sequence.answers.empty()) batch.answers = torch::zeros({count, length}, torch::kBool);
    }
    invariant(length == batch.ids.size(1), "data: sequences of one data set differ in length");
    int64_t* ids = batch.ids.data_ptr<int64_t>() + row * length;
    int64_t* targets = batch.targets.data_ptr<int64_t>() + row * length;
    int64_t* documents = batch.documents.data_ptr<int64_t>() + row * length;
    for (int64_t place = 0; place < length; ++place) {
      const auto here = static_cast<size_t>(place), next = here + 1;
      ids[place] = sequence.ids[here];
      documents[place] = sequence.documents[here];
      const bool same = sequence.documents[here] == sequence.documents[next];
      targets[place] = same ? sequence.ids[next] : kNoTarget;
      batch.scored += same ? 1 : 0;
      several |= documents[place] != sequence.documents[0];
      if (!sequence.answers.empty())
        batch.answers.data_ptr<bool>()[row * length + place] = same && sequence.answers[next] != 0;
    }
  }
  if (!several || !separate_documents) batch.documents = at::Tensor();
  return batch;
}

}  // namespace saccade
