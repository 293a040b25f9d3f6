#include "saccade/evaluate/bleu.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/version.h"

namespace saccade {
namespace {

// Words as numbers, so that runs of them are compared quickly.
class WordNumbers {
 public:
  std::vector<int32_t> of(const std::vector<std::string>& words) {
    std::vector<int32_t> numbers;
    for (const std::string& word : words)
      numbers.push_back(numbers_.emplace(word, static_cast<int32_t>(numbers_.size())).first->second);
    return numbers;
  }

 private:
  std::unordered_map<std::string, int32_t> numbers_;
};

using RunCounts = std::map<std::vector<int32_t>, int64_t>;

RunCounts runs_of(const std::vector<int32_t>& words, size_t order) {
  RunCounts counts;
  for (size_t first = 0; first + order <= words.size(); ++first)
    ++counts[{words.begin() + static_cast<std::ptrdiff_t>(first),
              words.begin() + static_cast<std::ptrdiff_t>(first + order)}];
  return counts;
}

// The reference length nearest to the hypothesis; of two that are as near, the shorter.
int64_t closest_length(int64_t length, const std::vector<std::vector<int32_t>>& references) {
  int64_t closest = static_cast<int64_t>(references.front().size());
  for (const auto& reference : references) {
    const auto other = static_cast<int64_t>(reference.size());
    const int64_t gain = std::abs(length - closest) - std::abs(length - other);
    if (gain > 0 || (gain == 0 && other < closest)) closest = other;
  }
  return closest;
}

double smoothing_value(const BleuOptions& options) {
  return options.smoothing_value.value_or(options.smoothing == BleuSmoothing::floor ? 0.1 : 1.0);
}

}  // namespace

std::string_view name_of(BleuSmoothing smoothing) {
  return bleu_smoothing_names()[static_cast<size_t>(smoothing)];
}

const std::vector<std::string>& bleu_smoothing_names() {
  static const std::vector<std::string> names{"exp", "floor", "add-k", "none"};
  return names;
}

BleuSmoothing bleu_smoothing_named(std::string_view name) {
  const std::vector<std::string>& names = bleu_smoothing_names();
  const auto found = std::ranges::find(names, name);
  require(found != names.end(), "BLEU: no smoothing is called '{}'; there are {}{}", printable(name),
          join(names, ", "), did_you_mean(name, names));
  return static_cast<BleuSmoothing>(found - names.begin());
}

BleuCounts& BleuCounts::operator+=(const BleuCounts& other) {
  for (size_t order = 0; order < kBleuOrder; ++order) {
    correct[order] += other.correct[order];
    total[order] += other.total[order];
  }
  length += other.length;
  reference_length += other.reference_length;
  return *this;
}

double Bleu::ratio() const {
  return counts.reference_length == 0
             ? 0
             : static_cast<double>(counts.length) / static_cast<double>(counts.reference_length);
}

std::string Bleu::text() const {
  std::vector<std::string> parts;
  for (const double precision : precisions) parts.push_back(fmt::format("{:.1f}", precision));
  return fmt::format("BLEU = {:.2f} {} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})", score,
                     join(parts, "/"), brevity_penalty, ratio(), counts.length, counts.reference_length);
}

Json to_json(const Bleu& bleu) {
  return {{"score", bleu.score},
          {"precisions", bleu.precisions},
          {"brevity_penalty", bleu.brevity_penalty},
          {"ratio", bleu.ratio()},
          {"hypothesis_length", bleu.counts.length},
          {"reference_length", bleu.counts.reference_length},
          {"text", bleu.text()}};
}

BleuCounts count_bleu(std::string_view hypothesis, std::span<const std::string_view> references,
                      const BleuOptions& options) {
  invariant(!references.empty(), "BLEU: a line without a reference");
  WordNumbers numbers;
  const std::vector<int32_t> words = numbers.of(bleu_words(hypothesis, options.tokens));
  std::vector<std::vector<int32_t>> wanted;
  for (const std::string_view reference : references)
    wanted.push_back(numbers.of(bleu_words(reference, options.tokens)));
  BleuCounts counts{.length = static_cast<int64_t>(words.size())};
  counts.reference_length = closest_length(counts.length, wanted);
  for (size_t order = 1; order <= kBleuOrder && order <= words.size(); ++order) {
    RunCounts most;
    for (const auto& reference : wanted)
      for (const auto& [run, count] : runs_of(reference, order)) most[run] = std::max(most[run], count);
    for (const auto& [run, count] : runs_of(words, order))
      if (const auto found = most.find(run); found != most.end())
        counts.correct[order - 1] += std::min(count, found->second);
    counts.total[order - 1] = static_cast<int64_t>(words.size() - order + 1);
  }
  return counts;
}

Bleu bleu_of(const BleuCounts& counts, const BleuOptions& options) {
  Bleu bleu{.counts = counts};
  if (counts.length < counts.reference_length)
    bleu.brevity_penalty =
        counts.length == 0
            ? 0
            : std::exp(1 - static_cast<double>(counts.reference_length) / static_cast<double>(counts.length));
  if (std::ranges::all_of(counts.correct, [](int64_t count) { return count == 0; })) return bleu;
  // Low enough that the score is zero, and a number all the same.
  constexpr double kLogOfZero = -9999999999.0;
  double share = 1;
  size_t orders = kBleuOrder;
  for (size_t order = 0; order < kBleuOrder; ++order) {
    auto correct = static_cast<double>(counts.correct[order]),
         total = static_cast<double>(counts.total[order]);
    if (options.smoothing == BleuSmoothing::add_k && order > 0) {
      correct += smoothing_value(options);
      total += smoothing_value(options);
    }
    if (total == 0) break;
    if (options.effective_order) orders = order + 1;
    if (correct > 0)
      bleu.precisions[order] = 100 * correct / total;
    else if (options.smoothing == BleuSmoothing::exponential)
      bleu.precisions[order] = 100 / ((share *= 2) * total);
    else if (options.smoothing == BleuSmoothing::floor)
      bleu.precisions[order] = 100 * smoothing_value(options) / total;
  }
  double sum = 0;
  for (size_t order = 0; order < orders; ++order)
    sum += bleu.precisions[order] > 0 ? std::log(bleu.precisions[order]) : kLogOfZero;
  bleu.score = bleu.brevity_penalty * std::exp(sum / static_cast<double>(orders));
  return bleu;
}

std::string signature_version() { return "version:saccade-" SACCADE_VERSION; }

std::string bleu_signature(const BleuOptions& options, size_t references) {
  std::string smoothing(name_of(options.smoothing));
  if (options.smoothing == BleuSmoothing::floor || options.smoothing == BleuSmoothing::add_k)
    smoothing += fmt::format("[{:.2f}]", smoothing_value(options));
  return fmt::format("nrefs:{}|case:mixed|eff:{}|tok:{}|smooth:{}|{}", references,
                     options.effective_order ? "yes" : "no", name_of(options.tokens), smoothing,
                     signature_version());
}

void require_parallel(std::string_view measure, size_t hypotheses,
                      std::span<const std::vector<std::string>> references) {
  require(!references.empty(), "{}: there is no reference", measure);
  for (const std::vector<std::string>& lines : references)
    require(lines.size() == hypotheses, "{}: {} of translation and {} of reference; expected as many",
            measure, plural(static_cast<int64_t>(hypotheses), "line"),
            plural(static_cast<int64_t>(lines.size()), "line"));
  require(hypotheses > 0, "{}: there is no line to compare", measure);
}

std::vector<BleuCounts> count_corpus(std::span<const std::string> hypotheses,
                                     std::span<const std::vector<std::string>> references,
                                     const BleuOptions& options) {
  require_parallel("BLEU", hypotheses.size(), references);
  std::vector<BleuCounts> counts;
  for (size_t line = 0; line < hypotheses.size(); ++line) {
    std::vector<std::string_view> wanted;
    for (const std::vector<std::string>& file : references) wanted.push_back(file[line]);
    counts.push_back(count_bleu(hypotheses[line], wanted, options));
  }
  return counts;
}

Bleu corpus_bleu(std::span<const std::string> hypotheses,
                 std::span<const std::vector<std::string>> references, const BleuOptions& options) {
  BleuCounts sum;
  for (const BleuCounts& line : count_corpus(hypotheses, references, options)) sum += line;
  return bleu_of(sum, options);
}

}  // namespace saccade
