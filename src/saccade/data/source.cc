// Opens what a recipe names: tasks that make their own text, files of text, or files of tokens.
#include "saccade/data/source.h"

#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/data/document_files.h"
#include "saccade/data/generated.h"
#include "saccade/data/packed.h"
#include "saccade/data/shard_files.h"
#include "saccade/data/tokenise.h"

namespace saccade {
namespace {

constexpr int64_t kLearnedDocuments = 400, kValidationTexts = 64;
constexpr size_t kValidationBytes = 1'000'000;

Tokenizer require_tokenizer(std::optional<Tokenizer> tokenizer, const DataOptions& options) {
  require(tokenizer.has_value(), "data: the tokenizer '{}'; expected bytes or bpe:<size>",
          printable(options.tokenizer));
  return *std::move(tokenizer);
}

// Some texts, as many as measures need.
class SomeTexts {
 public:
  bool wants() const {
    return bytes_ < kValidationBytes && static_cast<int64_t>(texts_.size()) < kValidationTexts;
  }
  void add(std::string text) {
    bytes_ += text.size();
    texts_.push_back(std::move(text));
  }
  std::vector<std::string> take() { return std::move(texts_); }

 private:
  std::vector<std::string> texts_;
  size_t bytes_ = 0;
};

Data open_task(const DataOptions& options, uint64_t seed, std::optional<Tokenizer> tokenizer) {
  require(options.train.empty() && options.validation.empty(),
          "data: {} makes its own text; files are for the sources text, jsonl and tokens", options.source);
  GeneratedOptions task{.task = options.source,
                        .length = options.length,
                        .items = options.generator_size,
                        .seed = seed,
                        .stream = "train"};
  if (!tokenizer)
    tokenizer = learn_tokenizer(options.tokenizer, [&](const OnDocument& on_document) {
      for (const std::string& text : generated_texts(task, kLearnedDocuments))
        on_document(DocumentText(text));
    });
  const DocumentEncoder encoder(require_tokenizer(std::move(tokenizer), options));
  Data data{.tokenizer = encoder.tokenizer(), .train = generated_dataset(task, encoder)};
  task.stream = "validation";
  data.validation_at = [task, encoder](int64_t length) {
    GeneratedOptions other = task;
    other.length = length;
    return generated_dataset(other, encoder);
  };
  data.validation = data.validation_at(options.length);
  data.validation_texts = generated_texts(task, kValidationTexts);
  return data;
}

// Where a single document is divided: at the end of a line if there is one nearby, otherwise between
// characters.
size_t place_to_divide(std::string_view text, double share) {
  auto place = std::min(text.size() - 1, static_cast<size_t>(static_cast<double>(text.size()) * (1 - share)));
  if (const size_t line = text.rfind('\n', place); line != text.npos && line >= place - place / 10)
    return line + 1;
  for (int back = 0; back < 3 && place > 0 && (static_cast<unsigned char>(text[place]) & 0xC0) == 0x80;
       ++back)
    --place;
  return place;
}

// Documents for training and for validation, each asked for as often as one likes.
struct DividedTexts {
  EachDocument train, validation;
};

DividedTexts divide_texts(const DataOptions& options) {
  const DocumentFormat format{
      .jsonl = options.source == "jsonl", .documents = options.documents, .field = options.text_field};
  const DocumentFiles files(options.train, format);
  if (!options.validation.empty()) {
    const DocumentFiles apart(options.validation, format);
    files.require_apart(apart);
    return {.train = [files](const OnDocument& on_document) { files.each(on_document); },
            .validation = [apart](const OnDocument& on_document) { apart.each(on_document); }};
  }
  const int64_t documents = files.count();
  const double share = options.validation_share;
  const HeldOut held_out(documents, share);
  const auto part = [=](bool validation) -> EachDocument {
    if (documents == 1)
      return [=](const OnDocument& on_document) {
        files.each([&](const DocumentText& document) {
          const std::string_view text = document.text();
          const size_t place = place_to_divide(text, share);
          const std::string_view half = validation ? text.substr(place) : text.substr(0, place);
          require(!trim(half).empty(), "data: the only document is too short to be divided for validation");
          return on_document(DocumentText(std::string(half)));
        });
      };
    return [=](const OnDocument& on_document) {
      int64_t number = 0;
      files.each([&](DocumentText document) {
        return held_out(number++) != validation || on_document(std::move(document));
      });
    };
  };
  return {.train = part(false), .validation = part(true)};
}

// Documents in rows of any length, in their order.
std::function<std::shared_ptr<const Dataset>(int64_t)> rows_of(std::vector<TokenShard> shards,
                                                               std::vector<DocumentRun> runs,
                                                               std::string what) {
  return [shards = std::move(shards), runs = std::move(runs), what = std::move(what)](int64_t length) {
    return packed_dataset(shards, runs, length, {}, what);
  };
}

Data open_texts(const DataOptions& options, uint64_t seed, std::optional<Tokenizer> tokenizer) {
  const DividedTexts texts = divide_texts(options);
  if (!tokenizer) tokenizer = learn_tokenizer(options.tokenizer, texts.train);
  const DocumentEncoder encoder(require_tokenizer(std::move(tokenizer), options));
  const int64_t vocabulary = encoder.tokenizer().size();
  SomeTexts some;
  const auto shards_of = [&](const EachDocument& documents, bool validation) -> std::vector<TokenShard> {
    TokenBuffer buffer(vocabulary, 0);
    Tokeniser tokeniser(encoder, [&](const DocumentText& document, std::span<const int32_t> ids) {
      buffer.add(ids);
      if (validation && some.wants()) some.add(std::string(document.text()));
    });
    documents([&](DocumentText document) {
      tokeniser.add(std::move(document));
      return true;
    });
    tokeniser.finish();
    return {buffer.take(validation ? "the validation text" : "the training text")};
  };
  std::vector<TokenShard> train = shards_of(texts.train, false),
                          validation = shards_of(texts.validation, true);
  std::vector<DocumentRun> train_runs = all_documents(train);
  Data data{.tokenizer = encoder.tokenizer(),
            .train = packed_dataset(std::move(train), std::move(train_runs), options.length, seed,
                                    "the training text"),
            .validation_at = rows_of(validation, all_documents(validation), "the validation text"),
            .validation_texts = some.take()};
  data.validation = data.validation_at(options.length);
  return data;
}

std::vector<std::string> decode_some(const Tokenizer& tokenizer, const std::vector<TokenShard>& shards,
                                     const std::vector<DocumentRun>& runs) {
  SomeTexts some;
  for (const DocumentRun& run : runs) {
    const TokenShard& shard = shards[run.shard];
    const int64_t end = run.first_token + run.tokens;
    for (int64_t token = run.first_token; token < end && some.wants();) {
      const auto next_end = std::ranges::upper_bound(shard.ends, static_cast<uint64_t>(token));
      const int64_t stop = std::min(end, static_cast<int64_t>(*next_end));
      std::vector<int32_t> ids(static_cast<size_t>(stop - token));
      shard.copy(token, ids);
      some.add(tokenizer.decode(ids));
      token = stop;
    }
  }
  return some.take();
}

Data open_tokens(const DataOptions& options, uint64_t seed, std::optional<Tokenizer> given) {
  ShardFiles files = open_shard_files(options.train, "train");
  ShardFiles held = options.validation.empty() ? open_validation_beside(options.train)
                                               : open_shard_files(options.validation, "validation");
  for (const std::filesystem::path& path : held.paths)
    require(std::ranges::find(files.paths, path) == files.paths.end(),
            "data: {} is named for training and for validation", path.string());
  const Tokenizer tokenizer = given ? *std::move(given) : tokenizer_beside(files);
  for (const ShardFiles* each : {&files, &held}) require_vocabulary(*each, tokenizer);
  DividedDocuments runs;
  if (held.shards.empty()) {
    runs = divide_documents(files.shards, options.validation_share);
    held.shards = files.shards;
  } else {
    runs = {.train = all_documents(files.shards), .validation = all_documents(held.shards)};
  }
  std::vector<std::string> texts = decode_some(tokenizer, held.shards, runs.validation);
  Data data{
      .tokenizer = tokenizer,
      .train = packed_dataset(std::move(files.shards), std::move(runs.train), options.length, seed,
                              "the training tokens"),
      .validation_at = rows_of(std::move(held.shards), std::move(runs.validation), "the validation tokens"),
      .validation_texts = std::move(texts)};
  data.validation = data.validation_at(options.length);
  return data;
}

}  // namespace

Data open_data(const DataOptions& options, uint64_t seed, std::optional<Tokenizer> tokenizer) {
  require(options.length >= 1, "data: a length of {} tokens; expected at least 1", options.length);
  std::vector<std::string> sources = generator_names();
  if (std::ranges::find(sources, options.source) != sources.end())
    return open_task(options, seed, std::move(tokenizer));
  sources.insert(sources.end(), {"text", "jsonl", "tokens"});
  require(std::ranges::find(sources, options.source) != sources.end(),
          "data: no source is called '{}'; there are {}{}", printable(options.source), join(sources, ", "),
          did_you_mean(options.source, sources));
  require(!options.train.empty(), "data: the source {} needs files to train on", options.source);
  require(options.generator_size == 0, "data: a generator size is for built-in tasks, not for {}",
          options.source);
  return options.source == "tokens" ? open_tokens(options, seed, std::move(tokenizer))
                                    : open_texts(options, seed, std::move(tokenizer));
}

}  // namespace saccade
