// The words of associative recall, and how a list of them is written.
#include "saccade/data/recall.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "saccade/base/error.h"

namespace saccade {
namespace {

constexpr std::array<std::string_view, 64> kKeys = {
    "river",  "stone",   "window", "garden", "table",  "letter", "mountain", "horse",  "bridge", "winter",
    "summer", "church",  "doctor", "engine", "father", "mother", "ground",   "hand",   "island", "king",
    "lake",   "machine", "night",  "ocean",  "paper",  "queen",  "road",     "school", "train",  "uncle",
    "valley", "water",   "yard",   "animal", "board",  "camp",   "dance",    "earth",  "field",  "glass",
    "house",  "idea",    "judge",  "knife",  "light",  "market", "name",     "office", "plant",  "rain",
    "ship",   "tower",   "voice",  "wall",   "army",   "book",   "city",     "door",   "eye",    "fire",
    "gate",   "hill",    "iron",   "joy",
};
constexpr std::array<std::string_view, 64> kValues = {
    "red",   "blue",  "green",  "black", "white",  "small", "large",  "cold",  "warm",    "new",    "old",
    "young", "long",  "short",  "high",  "low",    "hard",  "soft",   "fast",  "slow",    "early",  "late",
    "rich",  "poor",  "dark",   "clear", "deep",   "wide",  "thin",   "thick", "strong",  "weak",   "clean",
    "dry",   "wet",   "full",   "empty", "happy",  "sad",   "quiet",  "loud",  "sweet",   "bitter", "fresh",
    "heavy", "round", "flat",   "sharp", "smooth", "rough", "bright", "plain", "strange", "simple", "free",
    "safe",  "open",  "closed", "great", "common", "rare",  "true",   "wrong", "golden",
};

class RecallGenerator : public Generator {
 public:
  std::vector<Segment> write(const DocumentSize& size, RandomStream random) const override {
    return write_recall(size.items, random).segments;
  }
  int64_t most_items() const override { return most_recall_pairs(); }
  DocumentSize natural_size(int64_t filling) const override { return {.items = filling}; }
  bool has_filling() const override { return false; }
};

}  // namespace

int64_t most_recall_pairs() { return static_cast<int64_t>(kKeys.size()); }

RecallText write_recall(int64_t pairs, RandomStream random) {
  require(pairs >= 1 && pairs <= most_recall_pairs(), "recall: {} pairs; expected 1 to {}", pairs,
          most_recall_pairs());
  const auto count = static_cast<size_t>(pairs);
  const std::vector<size_t> keys = shuffled(kKeys.size(), random), values = shuffled(kValues.size(), random);
  const std::vector<size_t> order = shuffled(count, random);
  std::string text = "Words and what belongs to them:\n";
  for (size_t pair = 0; pair < count; ++pair)
    text += fmt::format("{}: {}\n", kKeys[keys[pair]], kValues[values[pair]]);
  text += "The same once more, in another order:";
  RecallText result;
  for (const size_t pair : order) {
    text += fmt::format("\n{}:", kKeys[keys[pair]]);
    result.segments.push_back({.text = std::exchange(text, "")});
    result.segments.push_back({.text = fmt::format(" {}", kValues[values[pair]]), .answer = true});
    result.pairs.push_back(pair);
  }
  return result;
}

std::unique_ptr<Generator> make_recall() { return std::make_unique<RecallGenerator>(); }

}  // namespace saccade
