#include "saccade/evaluate/translation_curves.h"

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/evaluate/corruption.h"

namespace saccade {
namespace {

std::vector<std::string> joined(std::span<const std::string> lines, int64_t count) {
  std::vector<std::string> documents;
  for (size_t line = 0; line < lines.size(); ++line) {
    if (line % static_cast<size_t>(count) == 0) documents.emplace_back();
    const std::string_view text = trim(lines[line]);
    if (!documents.back().empty() && !text.empty()) documents.back() += ' ';
    documents.back() += text;
  }
  return documents;
}

}  // namespace

std::string damaged(const Tokenizer& tokenizer, std::string_view line, Corruption corruption, double rate,
                    RandomStream random) {
  switch (corruption) {
    case Corruption::none:
      return std::string(line);
    case Corruption::typos:
      return add_typos(line, rate, random);
    case Corruption::token_drop:
      return tokenizer.decode(drop_tokens(tokenizer.encode(trim(line), false), rate, random));
    case Corruption::token_swap:
      return tokenizer.decode(swap_tokens(tokenizer.encode(trim(line), false), rate, random));
  }
  return {};
}

std::vector<NoisePoint> noise_curve(const TranslateLines& translate, const Tokenizer& tokenizer,
                                    std::span<const std::string> sources,
                                    std::span<const std::vector<std::string>> references,
                                    std::span<const double> rates, uint64_t seed,
                                    const BleuOptions& options) {
  require_parallel("noise curve", sources.size(), references);
  std::vector<NoisePoint> points;
  const auto measure = [&](Corruption corruption, double rate) {
    const RandomStream random = RandomStream(seed, name_of(corruption));
    std::vector<std::string> lines;
    for (size_t line = 0; line < sources.size(); ++line)
      lines.push_back(
          damaged(tokenizer, sources[line], corruption, rate, random.split(std::to_string(line))));
    points.push_back({corruption, rate, corpus_bleu(translate(lines), references, options)});
  };
  measure(Corruption::none, 0);
  for (const Corruption corruption : {Corruption::token_drop, Corruption::token_swap, Corruption::typos})
    for (const double rate : rates) measure(corruption, rate);
  return points;
}

std::vector<LengthPoint> length_curve(const TranslateLines& translate, std::span<const std::string> sources,
                                      std::span<const std::vector<std::string>> references,
                                      std::span<const int64_t> sentences, const BleuOptions& options) {
  require_parallel("length curve", sources.size(), references);
  std::vector<LengthPoint> points;
  for (const int64_t count : sentences) {
    require(count >= 1, "length curve: {} sentences in a document; expected at least 1", count);
    const std::vector<std::string> documents = joined(sources, count);
    std::vector<std::vector<std::string>> wanted;
    for (const std::vector<std::string>& file : references) wanted.push_back(joined(file, count));
    size_t words = 0;
    for (const std::string& document : documents) words += bleu_words(document, BleuTokens::none).size();
    points.push_back({count, static_cast<double>(words) / static_cast<double>(documents.size()),
                      corpus_bleu(translate(documents), wanted, options)});
  }
  return points;
}

}  // namespace saccade
