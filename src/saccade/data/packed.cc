// A place among all tokens is found by its run of documents, and there by the ends of the documents: two
// searches, and no table of rows.
#include "saccade/data/packed.h"

#include <algorithm>
#include <string>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/data/hash.h"
#include "saccade/data/permutation.h"

namespace saccade {
namespace {

class PackedDataset : public Dataset {
 public:
  PackedDataset(std::vector<TokenShard> shards, std::vector<DocumentRun> runs, int64_t length,
                std::optional<uint64_t> seed, const std::string& what)
      : shards_(std::move(shards)), runs_(std::move(runs)), length_(length), seed_(seed) {
    require(length >= 1, "data: a length of {} tokens; expected at least 1", length);
    int64_t total = 0;
    for (const DocumentRun& run : runs_) {
      starts_.push_back(total);
      total += run.tokens;
    }
    require(total > length,
            "data: {} has {}; a row of length {} takes {}. Give more text, or a shorter length", what,
            plural(total, "token"), length, length + 1);
    rows_ = (total - 1) / length;
  }

  int64_t size() const override { return rows_; }

  TrainingSequence read(int64_t index) const override {
    require(index >= 0, "data: sequence {} was asked for; expected 0 or more", index);
    const int64_t place = index % rows_;
    const int64_t row = seed_ ? Permutation(rows_, *seed_, index / rows_)(place) : place;
    TrainingSequence result;
    result.ids.resize(static_cast<size_t>(length_) + 1);
    result.documents.resize(result.ids.size());
    int32_t document = 0;
    size_t filled = 0;
    int64_t position = row * length_;
    auto run = static_cast<size_t>(std::ranges::upper_bound(starts_, position) - starts_.begin()) - 1;
    for (; filled < result.ids.size(); ++run) {
      const size_t before = filled;
      fill(runs_[run], position - starts_[run], result, filled, document);
      position += static_cast<int64_t>(filled - before);
    }
    return result;
  }

 private:
  // Goes on with the tokens of a run from `offset` on, to its end or that of the row.
  void fill(const DocumentRun& run, int64_t offset, TrainingSequence& result, size_t& filled,
            int32_t& document) const {
    const TokenShard& shard = shards_[run.shard];
    int64_t token = run.first_token + offset;
    const int64_t end = run.first_token + run.tokens;
    auto next_end = std::ranges::upper_bound(shard.ends, static_cast<uint64_t>(token));
    for (; token < end && filled < result.ids.size(); ++next_end) {
      const int64_t stop = std::min(end, static_cast<int64_t>(*next_end));
      const size_t count = std::min(static_cast<size_t>(stop - token), result.ids.size() - filled);
      shard.copy(token, std::span(result.ids).subspan(filled, count));
      std::fill_n(result.documents.begin() + static_cast<std::ptrdiff_t>(filled), count, document++);
      filled += count;
      token += static_cast<int64_t>(count);
    }
  }

  std::vector<TokenShard> shards_;
  std::vector<DocumentRun> runs_;
  std::vector<int64_t> starts_;  // of the runs, among all tokens
  int64_t length_, rows_ = 0;
  std::optional<uint64_t> seed_;
};

// Puts a document behind the runs, or makes the last of them longer.
void append(std::vector<DocumentRun>& runs, size_t shard, int64_t first, int64_t tokens) {
  if (!runs.empty() && runs.back().shard == shard && runs.back().first_token + runs.back().tokens == first) {
    runs.back().tokens += tokens;
  } else {
    runs.push_back({shard, first, tokens});
  }
}

}  // namespace

std::shared_ptr<const Dataset> packed_dataset(std::vector<TokenShard> shards, std::vector<DocumentRun> runs,
                                              int64_t length, std::optional<uint64_t> seed,
                                              const std::string& what) {
  return std::make_shared<PackedDataset>(std::move(shards), std::move(runs), length, seed, what);
}

std::vector<DocumentRun> all_documents(const std::vector<TokenShard>& shards) {
  std::vector<DocumentRun> runs;
  for (size_t index = 0; index < shards.size(); ++index) runs.push_back({index, 0, shards[index].count()});
  return runs;
}

DividedDocuments divide_documents(const std::vector<TokenShard>& shards, double share) {
  int64_t documents = 0;
  for (const TokenShard& shard : shards) documents += shard.documents();
  const HeldOut held_out(documents, share);
  DividedDocuments result;
  if (documents == 1) {
    const int64_t count = shards.front().count();
    const auto held = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(count) * share));
    require(held < count, "data: {} has a single token, which cannot be divided", shards.front().name);
    return {.train = {{0, 0, count - held}}, .validation = {{0, count - held, held}}};
  }
  int64_t number = 0;
  for (size_t index = 0; index < shards.size(); ++index)
    for (int64_t document = 0; document < shards[index].documents(); ++document) {
      const int64_t first = shards[index].begin_of(document);
      append(held_out(number++) ? result.validation : result.train, index, first,
             shards[index].end_of(document) - first);
    }
  return result;
}

HeldOut::HeldOut(int64_t documents, double share) : share_(share) {
  require(share > 0 && share < 1, "data: a validation share of {}; expected more than 0 and less than 1",
          share);
  if (documents < 2) return;
  int64_t lowest = 0, highest = 0, count = 0;
  for (int64_t document = 0; document < documents; ++document) {
    if (chosen(document)) ++count;
    if (count > 0 && count <= document) return;  // there are some of both
    const uint64_t hash = hash_number(static_cast<uint64_t>(document));
    if (hash < hash_number(static_cast<uint64_t>(lowest))) lowest = document;
    if (hash > hash_number(static_cast<uint64_t>(highest))) highest = document;
  }
  if (count == 0) only_ = lowest;
  if (count == documents) only_not_ = highest;
}

bool HeldOut::operator()(int64_t document) const {
  if (only_) return document == *only_;
  if (only_not_) return document != *only_not_;
  return chosen(document);
}

bool HeldOut::chosen(int64_t document) const {
  return static_cast<double>(hash_number(static_cast<uint64_t>(document)) >> 11) * 0x1.0p-53 < share_;
}

}  // namespace saccade
