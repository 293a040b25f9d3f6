// BLEU: how many runs of one to four words a translation shares with its references. The numbers are those of
// sacreBLEU 2, whose signature goes with every score: without it two scores cannot be compared.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/base/json.h"
#include "saccade/text/bleu_tokens.h"

namespace saccade {

inline constexpr size_t kBleuOrder = 4;

// What stands for a precision of zero, of which there is no logarithm.
enum class BleuSmoothing {
  exponential,  // "exp": halves with each order that has no match
  floor,        // so many matches
  add_k,        // "add-k": so many matches and so many more words, from pairs on
  none,
};
std::string_view name_of(BleuSmoothing smoothing);
BleuSmoothing bleu_smoothing_named(std::string_view name);
const std::vector<std::string>& bleu_smoothing_names();

struct BleuOptions {
  BleuTokens tokens = BleuTokens::mteval_13a;
  BleuSmoothing smoothing = BleuSmoothing::exponential;
  std::optional<double> smoothing_value;  // of floor and add-k; none: 0.1 and 1
  // Leaves out the orders that a text is too short for; for scores of single sentences.
  bool effective_order = false;
};

// What a line adds to a corpus: scores of many lines come from the sums.
struct BleuCounts {
  std::array<int64_t, kBleuOrder> correct{}, total{};
  int64_t length = 0, reference_length = 0;

  BleuCounts& operator+=(const BleuCounts& other);
};

struct Bleu {
  double score = 0;  // 0 to 100
  std::array<double, kBleuOrder> precisions{};
  double brevity_penalty = 1;
  BleuCounts counts;

  double ratio() const;
  // "BLEU = 37.99 73.3/47.0/30.6/19.8 (BP = 0.957 ratio = 0.958 hyp_len = 12 ref_len = 13)"
  std::string text() const;
};
Json to_json(const Bleu& bleu);

// One line against its references, of which there is at least one.
BleuCounts count_bleu(std::string_view hypothesis, std::span<const std::string_view> references,
                      const BleuOptions& options);
Bleu bleu_of(const BleuCounts& counts, const BleuOptions& options);
// "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:..."
std::string bleu_signature(const BleuOptions& options, size_t references);

// The counts of each line. `references` are files, each with as many lines as there are hypotheses. Throws
// Error when there is no line, or the numbers of lines differ.
std::vector<BleuCounts> count_corpus(std::span<const std::string> hypotheses,
                                     std::span<const std::vector<std::string>> references,
                                     const BleuOptions& options);
Bleu corpus_bleu(std::span<const std::string> hypotheses,
                 std::span<const std::vector<std::string>> references, const BleuOptions& options = {});

// Throws Error unless all files have as many lines as the hypotheses, and at least one.
void require_parallel(std::string_view measure, size_t hypotheses,
                      std::span<const std::vector<std::string>> references);
// What ends every signature: which program counted.
std::string signature_version();

}  // namespace saccade
