#include "saccade/data/parallel.h"

#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/data/packed.h"
#include "saccade/data/parallel_files.h"
#include "saccade/data/permutation.h"
#include "saccade/data/token_shard.h"
#include "saccade/data/tokenise.h"

namespace saccade {
namespace {

constexpr int64_t kLearnedPairs = 4000, kValidationPairs = 1000, kClauses = 2;

TrainingSequence sequence_of(std::vector<int32_t> source, std::vector<int32_t> target) {
  TrainingSequence sequence{.ids = std::move(target), .source = std::move(source)};
  sequence.documents.assign(sequence.ids.size(), 0);
  return sequence;
}

// Pairs that are there, as tokens of two or four bytes.
class StoredPairs : public Dataset {
 public:
  StoredPairs(TokenShard sources, TokenShard targets, std::optional<uint64_t> seed)
      : sources_(std::move(sources)), targets_(std::move(targets)), seed_(seed) {}

  int64_t size() const override { return sources_.documents(); }
  TrainingSequence read(int64_t index) const override {
    const int64_t pair = pair_at(index);
    return sequence_of(tokens(sources_, pair), tokens(targets_, pair));
  }
  SequenceLength length(int64_t index) const override {
    const int64_t pair = pair_at(index);
    return {targets_.end_of(pair) - targets_.begin_of(pair) - 1,
            sources_.end_of(pair) - sources_.begin_of(pair)};
  }

 private:
  int64_t pair_at(int64_t index) const {
    const int64_t place = index % size();
    return seed_ ? Permutation(size(), *seed_, index / size())(place) : place;
  }
  static std::vector<int32_t> tokens(const TokenShard& shard, int64_t pair) {
    const int64_t begin = shard.begin_of(pair);
    std::vector<int32_t> ids(static_cast<size_t>(shard.end_of(pair) - begin));
    shard.copy(begin, ids);
    return ids;
  }

  TokenShard sources_, targets_;
  std::optional<uint64_t> seed_;
};

TranslationPair written_pair(int64_t clauses, uint64_t seed, const char* stream, int64_t number) {
  TranslationPair pair = write_translation(clauses, RandomStream(seed, stream).split(std::to_string(number)));
  pair.source += " .";
  pair.target += " .";
  return pair;
}

// Pairs that are made when they are asked for.
class WrittenPairs : public Dataset {
 public:
  WrittenPairs(PairEncoder encoder, int64_t clauses, uint64_t seed)
      : encoder_(std::move(encoder)), clauses_(clauses), seed_(seed) {}

  int64_t size() const override { return kEndless; }
  TrainingSequence read(int64_t index) const override {
    const TranslationPair pair = written_pair(clauses_, seed_, "train pairs", index);
    return sequence_of(encoder_.source(pair.source), encoder_.target(pair.target));
  }

 private:
  PairEncoder encoder_;
  int64_t clauses_;
  uint64_t seed_;
};

std::optional<Tokenizer> learn_from(const std::vector<TranslationPair>& pairs, const DataOptions& options) {
  return learn_tokenizer(
      options.tokenizer,
      [&](const OnDocument& on_document) {
        for (const TranslationPair& pair : pairs)
          for (const std::string* side : {&pair.source, &pair.target})
            if (!on_document(DocumentText(std::string_view(trim(*side))))) return;
      },
      true);
}

PairEncoder encoder_for(std::optional<Tokenizer> tokenizer, const std::vector<TranslationPair>& pairs,
                        const DataOptions& options) {
  if (!tokenizer) tokenizer = learn_from(pairs, options);
  require(tokenizer.has_value(), "data: the tokenizer '{}'; expected bytes or bpe:<size>",
          printable(options.tokenizer));
  return PairEncoder(*std::move(tokenizer));
}

// All that comes from held-out pairs.
void add_validation(Data& data, std::vector<TranslationPair> pairs, const PairEncoder& encoder,
                    int64_t length) {
  data.validation_pairs = std::move(pairs);
  data.validation = pairs_dataset(data.validation_pairs, encoder, length, {}, "the validation pairs");
  data.validation_at = [held = data.validation_pairs, encoder, length](int64_t wanted) {
    // A sentence has the length that it has: n times the length means n sentences in one.
    const int64_t count = std::max<int64_t>(1, (wanted + length / 2) / length);
    return pairs_dataset(concatenated(held, count), encoder, std::max(wanted, length), {},
                         fmt::format("the validation pairs, {} at a time,", count));
  };
  for (const TranslationPair& pair : data.validation_pairs) data.validation_texts.push_back(pair.target);
}

Data open_written(const DataOptions& options, uint64_t seed, std::optional<Tokenizer> tokenizer) {
  require(options.train.empty() && options.validation.empty(),
          "data: translation makes its own sentences; files are for the source parallel");
  require(options.concatenate == 1, "data: sentences of translation are made as long as generator_size says");
  const int64_t clauses = options.generator_size > 0 ? options.generator_size : kClauses;
  const auto some = [&](const char* stream, int64_t count) {
    std::vector<TranslationPair> pairs;
    for (int64_t number = 0; number < count; ++number)
      pairs.push_back(written_pair(clauses, seed, stream, number));
    return pairs;
  };
  const PairEncoder encoder =
      encoder_for(std::move(tokenizer), some("vocabulary pairs", kLearnedPairs), options);
  Data data{.tokenizer = encoder.tokenizer(),
            .train = std::make_shared<WrittenPairs>(encoder, clauses, seed)};
  add_validation(data, some("validation pairs", kValidationPairs), encoder, options.length);
  return data;
}

// One to `most` neighbours in each document.
std::vector<TranslationPair> joined_at_random(const std::vector<TranslationPair>& pairs, int64_t most,
                                              uint64_t seed) {
  if (most == 1) return pairs;
  RandomStream random(seed, "concatenate");
  std::vector<TranslationPair> result;
  for (size_t begin = 0; begin < pairs.size();) {
    const size_t count =
        std::min<size_t>(1 + random.below(static_cast<uint64_t>(most)), pairs.size() - begin);
    result.push_back(concatenated(std::span(pairs).subspan(begin, count), most).front());
    begin += count;
  }
  return result;
}

Data open_files(const DataOptions& options, uint64_t seed, std::optional<Tokenizer> tokenizer) {
  require(!options.train.empty(), "data: the source parallel needs files to train on");
  require(options.validation.empty() == options.validation_target.empty() || options.train_target.empty(),
          "data: validation files of one side only; expected data.validation and data.validation_target");
  const ParallelFormat format{options.source_field, options.target_field};
  std::vector<TranslationPair> train = read_pairs(options.train, options.train_target, format), held;
  require(!train.empty(), "data: the training files have no pair");
  if (!options.validation.empty()) {
    held = read_pairs(options.validation, options.validation_target, format);
  } else {
    std::vector<TranslationPair> kept;
    const HeldOut held_out(static_cast<int64_t>(train.size()), options.validation_share);
    for (size_t number = 0; number < train.size(); ++number)
      (held_out(static_cast<int64_t>(number)) ? held : kept).push_back(std::move(train[number]));
    train = std::move(kept);
  }
  const PairEncoder encoder = encoder_for(std::move(tokenizer), train, options);
  const std::vector<TranslationPair> documents = joined_at_random(train, options.concatenate, seed);
  int64_t left_out = 0;
  Data data{
      .tokenizer = encoder.tokenizer(),
      .train = pairs_dataset(documents, encoder, options.length, seed, "the training pairs", &left_out)};
  if (left_out > 0)
    data.remarks.push_back(
        fmt::format("{} of {} training pairs are left out: a side is empty or has more "
                    "than {} tokens",
                    left_out, documents.size(), options.length));
  add_validation(data, std::move(held), encoder, options.length);
  return data;
}

}  // namespace

std::vector<TranslationPair> concatenated(std::span<const TranslationPair> pairs, int64_t count) {
  require(count >= 1, "data: {} sentences in a document; expected at least 1", count);
  std::vector<TranslationPair> result;
  const auto append = [](std::string& text, const std::string& more) {
    const std::string_view part = trim(more);
    if (!text.empty() && !part.empty()) text += ' ';
    text += part;
  };
  for (size_t number = 0; number < pairs.size(); ++number) {
    if (number % static_cast<size_t>(count) == 0) result.emplace_back();
    append(result.back().source, pairs[number].source);
    append(result.back().target, pairs[number].target);
  }
  return result;
}

std::shared_ptr<const Dataset> pairs_dataset(std::span<const TranslationPair> pairs,
                                             const PairEncoder& encoder, int64_t length,
                                             std::optional<uint64_t> seed, const std::string& what,
                                             int64_t* left_out) {
  const int64_t vocabulary = encoder.tokenizer().size();
  TokenBuffer sources(vocabulary, 0), targets(vocabulary, 0);
  int64_t kept = 0;
  for (const TranslationPair& pair : pairs) {
    if (trim(pair.source).empty() || trim(pair.target).empty()) continue;
    const std::vector<int32_t> source = encoder.source(pair.source), target = encoder.target(pair.target);
    if (static_cast<int64_t>(source.size()) > length || static_cast<int64_t>(target.size()) - 1 > length)
      continue;
    sources.add(source);
    targets.add(target);
    ++kept;
  }
  const auto all = static_cast<int64_t>(pairs.size());
  if (left_out) *left_out = all - kept;
  require(kept > 0, "data: of {} {} none can be used: a side is empty or has more than {} tokens", all, what,
          length);
  return std::make_shared<StoredPairs>(sources.take(what), targets.take(what), seed);
}

Data open_pairs(const DataOptions& options, uint64_t seed, std::optional<Tokenizer> tokenizer) {
  require(options.length >= 2, "data: a length of {} tokens; expected at least 2", options.length);
  require(options.concatenate >= 1, "data: concatenate is {}; expected 1 or more", options.concatenate);
  if (options.source == "translation") return open_written(options, seed, std::move(tokenizer));
  require(options.source == "parallel",
          "data: a model that translates reads pairs: the source 'translation' or 'parallel', not '{}'",
          printable(options.source));
  return open_files(options, seed, std::move(tokenizer));
}

}  // namespace saccade
