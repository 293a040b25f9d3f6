#include "saccade/evaluate/chrf.h"

#include <algorithm>
#include <map>

#include "saccade/base/error.h"
#include "saccade/evaluate/bleu.h"

namespace saccade {
namespace {

using Runs = std::map<std::u32string, int64_t>;

bool is_ascii_punctuation(char32_t c) {
  return (c >= U'!' && c <= U'/') || (c >= U':' && c <= U'@') || (c >= U'[' && c <= U'`') ||
         (c >= U'{' && c <= U'~');
}

// Words with one punctuation mark cut off: the last character if it is one, otherwise the first.
std::vector<std::u32string> words_and_punctuation(std::u32string_view text) {
  std::vector<std::u32string> result;
  for (const std::u32string& word : split_words(text)) {
    if (word.size() > 1 && is_ascii_punctuation(word.back())) {
      result.push_back(word.substr(0, word.size() - 1));
      result.push_back(word.substr(word.size() - 1));
    } else if (word.size() > 1 && is_ascii_punctuation(word.front())) {
      result.push_back(word.substr(0, 1));
      result.push_back(word.substr(1));
    } else {
      result.push_back(word);
    }
  }
  return result;
}

// By order, as ChrfCounts has them.
std::vector<Runs> runs_of(std::string_view line, const ChrfOptions& options) {
  const std::u32string text = characters_of(line);
  std::u32string joined;
  for (const char32_t c : text)
    if (!is_separator(c)) joined += c;
  std::vector<Runs> result(options.characters + options.words);
  for (size_t order = 1; order <= options.characters; ++order)
    for (size_t first = 0; first + order <= joined.size(); ++first)
      ++result[order - 1][joined.substr(first, order)];
  if (options.words == 0) return result;
  const std::vector<std::u32string> words = words_and_punctuation(text);
  for (size_t order = 1; order <= options.words; ++order)
    for (size_t first = 0; first + order <= words.size(); ++first) {
      std::u32string run = words[first];
      for (size_t next = 1; next < order; ++next) run += U' ' + words[first + next];
      ++result[options.characters + order - 1][run];
    }
  return result;
}

int64_t sum_of(const Runs& runs) {
  int64_t sum = 0;
  for (const auto& [run, count] : runs) sum += count;
  return sum;
}

ChrfCounts compare(const std::vector<Runs>& hypothesis, const std::vector<Runs>& reference) {
  ChrfCounts counts;
  for (size_t order = 0; order < hypothesis.size(); ++order) {
    ChrfCounts::Order here{.reference = sum_of(reference[order])};
    // An order that the reference is too short for says nothing about the hypothesis.
    if (here.reference > 0) here.hypothesis = sum_of(hypothesis[order]);
    for (const auto& [run, count] : hypothesis[order])
      if (const auto found = reference[order].find(run); found != reference[order].end())
        here.both += std::min(count, found->second);
    counts.orders.push_back(here);
  }
  return counts;
}

}  // namespace

ChrfCounts& ChrfCounts::operator+=(const ChrfCounts& other) {
  orders.resize(std::max(orders.size(), other.orders.size()));
  for (size_t order = 0; order < other.orders.size(); ++order) {
    orders[order].hypothesis += other.orders[order].hypothesis;
    orders[order].reference += other.orders[order].reference;
    orders[order].both += other.orders[order].both;
  }
  return *this;
}

ChrfCounts count_chrf(std::string_view hypothesis, std::span<const std::string_view> references,
                      const ChrfOptions& options) {
  invariant(!references.empty(), "chrF: a line without a reference");
  const std::vector<Runs> runs = runs_of(hypothesis, options);
  ChrfCounts best;
  double best_score = -1;
  for (const std::string_view reference : references) {
    ChrfCounts counts = compare(runs, runs_of(reference, options));
    const double score = chrf_of(counts, options);
    if (score <= best_score) continue;
    best_score = score;
    best = std::move(counts);
  }
  return best;
}

double chrf_of(const ChrfCounts& counts, const ChrfOptions& options) {
  double precision = 0, recall = 0;
  int64_t orders = 0;
  for (const ChrfCounts::Order& order : counts.orders) {
    if (order.hypothesis == 0 || order.reference == 0) continue;
    precision += static_cast<double>(order.both) / static_cast<double>(order.hypothesis);
    recall += static_cast<double>(order.both) / static_cast<double>(order.reference);
    ++orders;
  }
  if (orders == 0 || precision + recall == 0) return 0;
  precision /= static_cast<double>(orders);
  recall /= static_cast<double>(orders);
  const double factor = options.beta * options.beta;
  return 100 * ((1 + factor) * precision * recall / (factor * precision + recall));
}

double corpus_chrf(std::span<const std::string> hypotheses,
                   std::span<const std::vector<std::string>> references, const ChrfOptions& options) {
  require_parallel("chrF", hypotheses.size(), references);
  ChrfCounts sum;
  for (size_t line = 0; line < hypotheses.size(); ++line) {
    std::vector<std::string_view> wanted;
    for (const std::vector<std::string>& file : references) wanted.push_back(file[line]);
    sum += count_chrf(hypotheses[line], wanted, options);
  }
  return chrf_of(sum, options);
}

std::string chrf_name(const ChrfOptions& options) {
  return fmt::format("chrF{}{}", options.beta, std::string(options.words, '+'));
}

std::string chrf_signature(const ChrfOptions& options, size_t references) {
  return fmt::format("nrefs:{}|case:mixed|eff:yes|nc:{}|nw:{}|space:no|{}", references, options.characters,
                     options.words, signature_version());
}

}  // namespace saccade
