// Documents laid one after another and cut into rows.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "saccade/data/dataset.h"
#include "saccade/data/token_shard.h"

namespace saccade {

/// Documents that follow each other in a shard; the first and the last may be cut.
struct DocumentRun {
  size_t shard;
  int64_t first_token, tokens;
};

/// Row r has the tokens r * length to r * length + length, both included: rows share one token, and each
/// token but the very first is asked for in exactly one row. What is left at the end and fills no row is left
/// out. With a seed, rows come in another order in each epoch; without, in their own.
///
/// Throws Error when there is not enough for one row; `what` is what the message calls the documents.
std::shared_ptr<const Dataset> packed_dataset(std::vector<TokenShard> shards, std::vector<DocumentRun> runs,
                                              int64_t length, std::optional<uint64_t> seed,
                                              const std::string& what);

/// All of the shards.
std::vector<DocumentRun> all_documents(const std::vector<TokenShard>& shards);

struct DividedDocuments {
  std::vector<DocumentRun> train, validation;
};
/// As HeldOut says; a single document is cut instead, and its end is for validation.
DividedDocuments divide_documents(const std::vector<TokenShard>& shards, double share);

/// Which documents are held out for validation: about the given share, by their number alone, so that more
/// documents behind them change nothing. Of two or more documents at least one is held out and one is not.
class HeldOut {
 public:
  /// Throws Error unless the share is between 0 and 1.
  HeldOut(int64_t documents, double share);
  bool operator()(int64_t document) const;

 private:
  bool chosen(int64_t document) const;

  double share_;
  std::optional<int64_t> only_, only_not_;  // where the share alone would hold out none or all
};

}  // namespace saccade
