// chrF: how many runs of one to six characters a translation shares with its reference, as an F-score that
// favours recall. With runs of words as well it is chrF++. The numbers are those of sacreBLEU 2.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/base/json.h"

namespace saccade {

struct ChrfOptions {
  size_t characters = 6;  // the longest run
  size_t words = 0;       // 2: chrF++
  int beta = 2;           // how much more recall counts than precision
};

// For each order, characters first: runs of the hypothesis, of the reference, and of both.
struct ChrfCounts {
  struct Order {
    int64_t hypothesis = 0, reference = 0, both = 0;
  };
  std::vector<Order> orders;

  ChrfCounts& operator+=(const ChrfCounts& other);
};

// Of several references the one with the best score of this line counts.
ChrfCounts count_chrf(std::string_view hypothesis, std::span<const std::string_view> references,
                      const ChrfOptions& options);
double chrf_of(const ChrfCounts& counts, const ChrfOptions& options);  // 0 to 100
double corpus_chrf(std::span<const std::string> hypotheses,
                   std::span<const std::vector<std::string>> references, const ChrfOptions& options = {});

// "chrF2", "chrF2++"
std::string chrf_name(const ChrfOptions& options);
std::string chrf_signature(const ChrfOptions& options, size_t references);

}  // namespace saccade
