// `saccade prepare`: files of text or JSONL as a directory of tokens, which training maps into memory.
#include "saccade/data/prepare.h"

#include <chrono>

#include "saccade/base/error.h"
#include "saccade/base/json.h"
#include "saccade/base/progress.h"
#include "saccade/base/text.h"
#include "saccade/cli/command.h"
#include "saccade/cli/output.h"
#include "saccade/generate/text_model.h"

namespace saccade {
namespace {

struct PrepareRequest {
  PrepareOptions prepare;
  std::string format;
  bool json = false;
};

// What the first file's name says, unless the person has said it.
bool is_jsonl(const PrepareRequest& options) {
  if (!options.format.empty()) return options.format == "jsonl";
  const std::string& first = options.prepare.train.front();
  return first.ends_with(".jsonl") || first.ends_with(".ndjson");
}

Json json_of(const PreparedPart& part) {
  return {
      {"documents", part.documents}, {"tokens", part.tokens}, {"files", part.files}, {"bytes", part.bytes}};
}

std::string line_of(std::string_view name, const PreparedPart& part) {
  return fmt::format("{}: {}, {}, {:.2f} bytes per token, {}\n", name, plural(part.documents, "document"),
                     plural(part.tokens, "token"),
                     static_cast<double>(part.bytes) / static_cast<double>(part.tokens),
                     plural(part.files, "file"));
}

ExitCode run(const PrepareRequest& given) {
  const auto begin = std::chrono::steady_clock::now();
  PrepareOptions options = given.prepare;
  options.format.jsonl = is_jsonl(given);
  std::optional<Tokenizer> tokenizer;
  if (options.tokenizer != "bytes" && !options.tokenizer.starts_with("bpe:"))
    tokenizer = load_tokenizer(find_model(options.tokenizer));
  Prepared result;
  {
    std::optional<Progress> progress;
    options.on_progress = [&](int64_t bytes, int64_t all) {
      if (!progress) progress.emplace(all / 1000, "prepare, in kB");
      progress->update(bytes / 1000);
    };
    result = prepare_tokens(options, std::move(tokenizer));
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  if (given.json) {
    Json json = {{"directory", options.directory},
                 {"vocabulary", result.vocabulary},
                 {"train", json_of(result.train)}};
    if (result.validation.tokens > 0) json["validation"] = json_of(result.validation);
    json["seconds"] = taken.count();
    print("{}\n", dump(json, 2));
    return ExitCode::success;
  }
  print("{}", line_of("train", result.train));
  if (result.validation.tokens > 0) print("{}", line_of("validation", result.validation));
  print("{}: a vocabulary of {}, in {:.1f} s\n", options.directory, plural(result.vocabulary, "token"),
        taken.count());
  return ExitCode::success;
}

}  // namespace

Work declare_prepare(CLI::App& app) {
  const auto options = std::make_shared<PrepareRequest>();
  PrepareOptions& prepare = options->prepare;
  app.add_option("files", prepare.train,
                 "Text or JSONL; a quoted pattern such as 'data/*.jsonl' names all that fit")
      ->required()
      ->type_name("FILE");
  app.add_option("-o,--output", prepare.directory, "The directory to write; new or empty")
      ->required()
      ->type_name("DIRECTORY");
  app.add_option("--validation", prepare.validation, "Files to keep apart for validation")->type_name("FILE");
  app.add_option("--tokenizer", prepare.tokenizer,
                 "bytes, bpe:<size> to learn one from the files, or a model whose own is used")
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option(
         "--documents", prepare.format.documents,
         "What a document of a text file is: the file, what stands between blank lines, a line, or a heading "
         "with what follows it (WikiText)")
      ->check(CLI::IsMember({"file", "blank", "line", "heading"}))
      ->capture_default_str();
  app.add_option("--format", options->format,
                 "What the files are; by default, *.jsonl is JSONL and the rest text")
      ->check(CLI::IsMember({"text", "jsonl"}));
  app.add_option("--field", prepare.format.field, "The member of JSONL that has the text")
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--shard-tokens", prepare.shard_tokens, "Start another file after so many tokens")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace saccade
