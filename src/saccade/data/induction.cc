// Induction: a string of random syllables, and a part of it once more. After the first few syllables of the
// part there is only one place where they have been read before, and what followed there follows again.
//
// Where the part begins is random, so that looking back a fixed distance does not help.
#include <algorithm>
#include <string_view>

#include "saccade/base/error.h"
#include "saccade/data/generator.h"

namespace saccade {
namespace {

constexpr std::string_view kConsonants = "bdfghjklmnprstvz", kVowels = "aeio";
constexpr int64_t kMostSymbols = int64_t{1} << 20;

using Symbols = std::vector<uint8_t>;

std::string spell(uint8_t symbol) { return {' ', kConsonants[symbol / 4], kVowels[symbol % 4]}; }

// Whether the `length` symbols at `start` are found nowhere else, also when they are written once more behind
// the string.
bool is_unique(Symbols symbols, size_t start, size_t length) {
  for (size_t place = 0; place < length; ++place) symbols.push_back(symbols[start + place]);
  const auto begin = symbols.begin() + static_cast<std::ptrdiff_t>(start);
  const auto end = begin + static_cast<std::ptrdiff_t>(length);
  int64_t found = 0;
  for (auto from = symbols.begin();; ++from, ++found) {
    from = std::search(from, symbols.end(), begin, end);
    if (from == symbols.end()) return found == 2;
  }
}

// How many symbols from `start` on it takes to know the place; 0 if all do not suffice to know the next one.
size_t cue_length(const Symbols& symbols, size_t start) {
  for (size_t length = 1; start + length < symbols.size(); ++length)
    if (is_unique(symbols, start, length)) return length;
  return 0;
}

class InductionGenerator : public Generator {
 public:
  std::vector<Segment> write(const DocumentSize& size, RandomStream random) const override {
    require(size.items >= 1 && size.items <= kMostSymbols, "induction: {} symbols; expected 1 to {}",
            size.items, kMostSymbols);
    Symbols symbols(static_cast<size_t>(size.items) + 1);
    size_t start = 0, cue = 0;
    while (cue == 0) {  // a string like "ba ba" has no place to begin at
      for (uint8_t& symbol : symbols)
        symbol = static_cast<uint8_t>(random.below(kConsonants.size() * kVowels.size()));
      start = random.below(symbols.size() / 2);
      cue = cue_length(symbols, start);
    }
    std::vector<Segment> result(2);
    result[1].answer = true;
    for (const uint8_t symbol : symbols) result[0].text += spell(symbol);
    for (size_t place = start; place < symbols.size(); ++place)
      result[place < start + cue ? 0 : 1].text += spell(symbols[place]);
    result[0].text.erase(0, 1);
    return result;
  }
  int64_t most_items() const override { return kMostSymbols; }
  DocumentSize natural_size(int64_t filling) const override { return {.items = filling}; }
  bool has_filling() const override { return false; }
};

}  // namespace

std::unique_ptr<Generator> make_induction() { return std::make_unique<InductionGenerator>(); }

}  // namespace saccade
