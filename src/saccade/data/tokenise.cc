// Documents are encoded in batches: large enough to keep all processors busy, small enough for any memory.
#include "saccade/data/tokenise.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <exception>
#include <thread>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/text/bpe_trainer.h"

namespace saccade {
namespace {

constexpr size_t kBatchBytes = size_t{16} << 20;
constexpr size_t kLearnedBytes = 20'000'000;
constexpr int64_t kBytesVocabulary = 257;  // and <|endoftext|>

}  // namespace

Tokeniser::Tokeniser(DocumentEncoder encoder, OnTokens on_tokens, int threads)
    : encoder_(std::move(encoder)), on_tokens_(std::move(on_tokens)), threads_(threads) {
  if (threads_ <= 0) threads_ = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

void Tokeniser::add(DocumentText document) {
  bytes_ += document.text().size();
  waiting_.push_back(std::move(document));
  if (bytes_ >= kBatchBytes) encode_all();
}

void Tokeniser::finish() { encode_all(); }

// Whoever is free takes the next document; where its tokens go is given by its number.
void Tokeniser::encode_all() {
  std::vector<std::vector<int32_t>> ids(waiting_.size());
  std::vector<std::exception_ptr> errors(waiting_.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t index = next++; index < waiting_.size(); index = next++) try {
        ids[index] = encoder_.encode(waiting_[index].text());
      } catch (...) {
        errors[index] = std::current_exception();
      }
  };
  {
    std::vector<std::jthread> helpers;
    const size_t wanted = std::min(static_cast<size_t>(threads_), waiting_.size());
    for (size_t count = 1; count < wanted; ++count) helpers.emplace_back(work);
    work();
  }
  for (size_t index = 0; index < waiting_.size(); ++index) {
    if (errors[index]) std::rethrow_exception(errors[index]);
    if (!ids[index].empty()) on_tokens_(waiting_[index], ids[index]);
  }
  waiting_.clear();
  bytes_ = 0;
}

std::optional<Tokenizer> learn_tokenizer(std::string_view name, const EachDocument& documents,
                                         bool prefix_space) {
  if (name == "bytes") return BpeTrainer({.vocabulary_size = kBytesVocabulary}).train();
  constexpr std::string_view kPrefix = "bpe:";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view number = name.substr(kPrefix.size());
  int64_t size = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), size);
  require(error == std::errc() && end == number.data() + number.size() && !number.empty(),
          "data: the tokenizer '{}'; expected a number after 'bpe:', as in bpe:4096", printable(name));
  BpeTrainer trainer({.vocabulary_size = size, .add_prefix_space = prefix_space});
  size_t left = kLearnedBytes;
  documents([&](const DocumentText& document) {
    const std::string_view text = document.text().substr(0, left);
    trainer.add(text);
    left -= text.size();
    return left > 0;
  });
  return trainer.train();
}

}  // namespace saccade
