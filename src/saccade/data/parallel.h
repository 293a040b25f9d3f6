// Sentences and their translations as training reads them: the source for the encoder, the target for the
// decoder.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "saccade/data/source.h"
#include "saccade/text/pair_encoder.h"

namespace saccade {

/// The pairs of two languages: "translation", which makes them without end, or "parallel" files. One
/// vocabulary is learned for both languages unless there is a tokenizer. Pairs with an empty side, or with
/// more than `length` tokens on one, are left out of training, and the remarks say how many.
Data open_pairs(const DataOptions& options, uint64_t seed, std::optional<Tokenizer> tokenizer = {});

/// Pairs in their order, or with a seed in another one in each epoch. Throws Error when all are left out;
/// `what` is what the message calls them. `left_out` is set to how many.
std::shared_ptr<const Dataset> pairs_dataset(std::span<const TranslationPair> pairs,
                                             const PairEncoder& encoder, int64_t length,
                                             std::optional<uint64_t> seed, const std::string& what,
                                             int64_t* left_out = nullptr);

/// Every `count` neighbours joined to one document; the last may have fewer.
std::vector<TranslationPair> concatenated(std::span<const TranslationPair> pairs, int64_t count);

}  // namespace saccade
