// Where training and validation sequences come from, as a person writes it in a recipe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "saccade/data/dataset.h"
#include "saccade/data/translation.h"
#include "saccade/text/tokenizer.h"

namespace saccade {

struct DataOptions {
  /// A generator ("stories", "recall", "induction", "passkey", "translation"), or what kind of files `train`
  /// names: "text", "jsonl" or "tokens"; for models that translate, "translation" or "parallel".
  std::string source = "stories";
  std::vector<std::string> train;       ///< Files; a pattern like data/*.jsonl names all that fit, in order.
  std::vector<std::string> validation;  ///< Files; none: a share of the documents of `train` is held out.
  double validation_share = 0.05;
  /// "bytes", or "bpe:<size>": learned from the training text. Whatever else it says is not for open_data,
  /// which is then given the tokenizer.
  std::string tokenizer = "bpe:512";
  std::string text_field = "text";  ///< Of JSONL: the member that has the text.
  /// Of text: what separates documents: "file" (each is one), "blank" (an empty line), "line", or "heading"
  /// (WikiText: a line " = Title = ").
  std::string documents = "file";
  /// Of "parallel": the translations of `train` and `validation`, file by file and line by line. None: those
  /// files have pairs, as TSV or JSONL.
  std::vector<std::string> train_target, validation_target;
  std::string source_field = "source", target_field = "target";  ///< Of JSONL with pairs.
  /// Of pairs: up to so many neighbours are joined to one document, at random.
  int64_t concatenate = 1;
  int64_t length = 256;  ///< Tokens that the model reads at once.
  int64_t generator_size =
      0;  ///< Of generators: pairs, facts, ... to remember; 0: as many as fit the length.
};

struct Data {
  Tokenizer tokenizer;
  std::shared_ptr<const Dataset> train, validation;
  /// The same validation documents in rows of another length. Throws Error when they do not fill one.
  std::function<std::shared_ptr<const Dataset>(int64_t length)> validation_at;
  /// Validation as text for measures that need it (perplexity per word, corruption): some documents.
  std::vector<std::string> validation_texts;
  /// Of pairs: what is held out, also what is too long for training or has an empty side.
  std::vector<TranslationPair> validation_pairs;
  /// What a person should know about the data, such as how much was left out.
  std::vector<std::string> remarks;
};

/// Opens files, learns the tokenizer unless there is one, and divides documents. Throws Error, naming the
/// file and the place in it.
Data open_data(const DataOptions& options, uint64_t seed, std::optional<Tokenizer> tokenizer = {});

}  // namespace saccade
