#include "saccade/evaluate/significance.h"

#include <algorithm>
#include <cmath>

#include "saccade/base/error.h"
#include "saccade/base/random.h"

namespace saccade {
namespace {

double score_of(std::span<const BleuCounts> lines, const BleuOptions& bleu) {
  BleuCounts sum;
  for (const BleuCounts& line : lines) sum += line;
  return bleu_of(sum, bleu).score;
}

}  // namespace

PairedBootstrap paired_bootstrap(std::span<const BleuCounts> first, std::span<const BleuCounts> second,
                                 const BleuOptions& bleu, const BootstrapOptions& options) {
  require(first.size() == second.size() && !first.empty(),
          "significance: translations of {} and {} lines; expected as many, and at least one", first.size(),
          second.size());
  require(options.samples >= 1, "significance: {} samples; expected at least 1", options.samples);
  PairedBootstrap result{.difference = score_of(second, bleu) - score_of(first, bleu)};
  RandomStream random(options.seed, "paired bootstrap");
  std::vector<double> differences;
  double mean = 0;
  for (int64_t sample = 0; sample < options.samples; ++sample) {
    BleuCounts one, other;
    for (size_t draw = 0; draw < first.size(); ++draw) {
      const size_t line = random.below(first.size());
      one += first[line];
      other += second[line];
    }
    differences.push_back(bleu_of(other, bleu).score - bleu_of(one, bleu).score);
    mean += differences.back() / static_cast<double>(options.samples);
  }
  int64_t larger = 0;
  for (const double difference : differences)
    if (std::fabs(difference - mean) >= std::fabs(result.difference)) ++larger;
  // One more of each: the translations themselves are a sample too, and no p is zero.
  result.p = static_cast<double>(larger + 1) / static_cast<double>(options.samples + 1);
  std::ranges::sort(differences);
  const size_t cut = differences.size() / 40;
  result.lower = differences[cut];
  result.upper = differences[differences.size() - 1 - cut];
  return result;
}

}  // namespace saccade
