// Where a word's tokens lie is found by encoding the text up to the word and up to its end: what both have in
// common comes before it. That holds for every tokenizer, wherever it puts its spaces.
#include "saccade/evaluate/retrieval.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "saccade/base/error.h"

namespace saccade {
namespace {

constexpr std::string_view kOpening =
    "A number is hidden in this text. Read it with care, for it will be asked for at the end.";
constexpr std::string_view kNeedle = " The pass key is {}. Do not forget it: {} is the pass key.";
constexpr std::string_view kQuestion = " What is the pass key? The pass key is";

constexpr std::array<std::string_view, 16> kFilling = {
    " The baker opens his shop before the sun is up.",
    " Two boats lie in the harbour and wait for the tide.",
    " In spring the meadow behind the school is full of flowers.",
    " My neighbour repairs old clocks and sells them in winter.",
    " The road goes over the hill and down to the mill.",
    " A grey cat sleeps on the warm stones of the wall.",
    " Every evening the lamps are lit along the river.",
    " The children count the wagons of the passing train.",
    " It rained all day, and nobody went to the market.",
    " The old bridge was built of oak and iron.",
    " She keeps her letters in a box under the stairs.",
    " From the tower one can see the sea on clear days.",
    " The gardener plants beans where the roses used to be.",
    " A quiet wind moves the leaves of the tall trees.",
    " The library closes early on the last day of the week.",
    " They walked home slowly and spoke about the harvest.",
};

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

// The tokens of a text with what the tokenizer puts before one, but not what it puts after.
std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> ids = tokenizer.encode(text);
  while (!ids.empty() && tokenizer.is_special(ids.back())) ids.pop_back();
  return ids;
}

size_t common_length(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

void require_known(const Tokenizer& tokenizer, std::span<const int32_t> ids, std::string_view text) {
  const bool unknown =
      ids.empty() || std::ranges::any_of(ids, [&](int32_t id) { return tokenizer.special_ids().unk == id; });
  require(!unknown, "retrieval: the tokenizer has no tokens for '{}'", text);
}

std::vector<size_t> shuffled(size_t count, RandomStream& random) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (size_t left = count; left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
  return order;
}

std::string passkey_prompt(const std::string& key, int64_t sentences, double depth, size_t start) {
  std::string text(kOpening);
  const auto before = static_cast<int64_t>(std::lround(depth * static_cast<double>(sentences)));
  for (int64_t index = 0; index <= sentences; ++index) {
    if (index == before) text += fmt::format(kNeedle, key, key);
    if (index < sentences) text += kFilling[(start + static_cast<size_t>(index)) % kFilling.size()];
  }
  return text += kQuestion;
}

// What a text without any filling takes.
int64_t shortest_passkey(const Tokenizer& tokenizer) {
  return static_cast<int64_t>(encode(tokenizer, passkey_prompt("48213", 0, 0, 0) + " 48213").size());
}

void measure_passkey(const Reader& reader, const Tokenizer& tokenizer, const RetrievalOptions& options,
                     const std::function<void()>& on_case, std::vector<RetrievalCell>& cells) {
  const RandomStream random(options.seed, "passkey");
  for (RetrievalCell& cell : cells) {
    std::vector<Sequence> cases;
    for (int64_t trial = 0; trial < options.trials; ++trial)
      cases.push_back(passkey_case(tokenizer, cell.length, cell.depth,
                                   random.split(fmt::format("{} {} {}", cell.length, cell.depth, trial))));
    for (const std::vector<Answer>& answers : reader(cases)) {
      ++cell.asked;
      cell.found += std::ranges::all_of(answers, &Answer::correct) ? 1 : 0;
    }
    on_case();
  }
}

void measure_recall(const Reader& reader, const std::vector<std::vector<RecallCase>>& groups,
                    const std::function<void()>& on_case, std::vector<RetrievalCell>& cells) {
  for (const std::vector<RecallCase>& group : groups) {
    std::vector<Sequence> sequences;
    for (const RecallCase& each : group) sequences.push_back(each.sequence);
    const Answers answers = reader(sequences);
    const auto pairs = static_cast<int64_t>(group.front().questions.size());
    std::array<RetrievalCell, 4> quarters;
    for (size_t quarter = 0; quarter < 4; ++quarter)
      quarters[quarter] = {.length = pairs, .depth = static_cast<double>(quarter) / 4};
    for (size_t index = 0; index < group.size(); ++index)
      for (size_t pair = 0; pair < group[index].questions.size(); ++pair) {
        RetrievalCell& cell = quarters[pair * 4 / static_cast<size_t>(pairs)];
        ++cell.asked;
        cell.found += std::ranges::all_of(group[index].questions[pair],
                                          [&](size_t question) { return answers[index][question].correct; })
                          ? 1
                          : 0;
      }
    for (const RetrievalCell& cell : quarters)
      if (cell.asked > 0) cells.push_back(cell);
    on_case();
  }
}

// Those cases of recall that fit, by their number of pairs.
std::vector<std::vector<RecallCase>> recall_groups(const Tokenizer& tokenizer,
                                                   const RetrievalOptions& options) {
  const RandomStream random(options.seed, "recall");
  std::vector<std::vector<RecallCase>> groups;
  for (const int64_t pairs : options.pairs) {
    std::vector<RecallCase> group;
    for (int64_t trial = 0; trial < options.trials; ++trial)
      group.push_back(recall_case(tokenizer, pairs, random.split(fmt::format("{} {}", pairs, trial))));
    const bool fits = std::ranges::all_of(group, [&](const RecallCase& each) {
      return static_cast<int64_t>(each.sequence.ids.size()) <= options.context;
    });
    if (fits) groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace

std::string Retrieval::convention() {
  return "pass key: five digits in filling sentences, at a depth (0: first, 1: last); found when all its "
         "tokens "
         "are the most likely ones, as greedy generation would write them. Recall: pairs of words are "
         "listed, "
         "then each first word is asked for once, in another order; by the quarter of the list that the pair "
         "stood in";
}

Sequence passkey_case(const Tokenizer& tokenizer, int64_t length, double depth, RandomStream random) {
  require(depth >= 0 && depth <= 1, "retrieval: a depth of {}; expected 0 to 1", depth);
  const std::string key = std::to_string(10000 + random.below(90000));
  const size_t start = random.below(kFilling.size());
  const int64_t least = shortest_passkey(tokenizer);
  require(length >= least, "retrieval: a length of {} tokens; the question alone takes {}", length, least);
  std::string filling;
  for (const std::string_view sentence : kFilling) filling += sentence;
  const double per_sentence =
      static_cast<double>(encode(tokenizer, filling).size()) / static_cast<double>(kFilling.size());
  auto sentences = static_cast<int64_t>(static_cast<double>(length - least) / per_sentence) + 2;
  // Sentences differ in length, and what takes fewest tokens is only known by trying.
  for (;; --sentences) {
    const std::string prompt = passkey_prompt(key, sentences, depth, start);
    Sequence sequence{.ids = encode(tokenizer, prompt + " " + key)};
    if (static_cast<int64_t>(sequence.ids.size()) > length && sentences > 0) continue;
    const size_t first = common_length(encode(tokenizer, prompt), sequence.ids);
    require_known(tokenizer, std::span(sequence.ids).subspan(first), key);
    sequence.ask_next(static_cast<int64_t>(first), static_cast<int64_t>(sequence.ids.size()));
    return sequence;
  }
}

RecallCase recall_case(const Tokenizer& tokenizer, int64_t pairs, RandomStream random) {
  require(pairs >= 1 && pairs <= static_cast<int64_t>(kKeys.size()), "retrieval: {} pairs; expected 1 to {}",
          pairs, kKeys.size());
  const auto count = static_cast<size_t>(pairs);
  const std::vector<size_t> keys = shuffled(kKeys.size(), random), values = shuffled(kValues.size(), random);
  const std::vector<size_t> order = shuffled(count, random);
  std::string text = "Words and what belongs to them:\n";
  for (size_t pair = 0; pair < count; ++pair)
    text += fmt::format("{}: {}\n", kKeys[keys[pair]], kValues[values[pair]]);
  text += "The same once more, in another order:\n";
  struct Span {
    size_t pair, first, end;
  };
  std::vector<Span> spans;
  for (const size_t pair : order) {
    text += fmt::format("{}:", kKeys[keys[pair]]);
    const std::vector<int32_t> asked = encode(tokenizer, text);
    text += fmt::format(" {}", kValues[values[pair]]);
    const std::vector<int32_t> answered = encode(tokenizer, text);
    spans.push_back({pair, common_length(asked, answered), answered.size()});
    require_known(tokenizer, std::span(answered).subspan(spans.back().first), kValues[values[pair]]);
    text += "\n";
  }
  text.pop_back();  // nothing is asked after the last word
  RecallCase result{.sequence = {.ids = encode(tokenizer, text)},
                    .questions = std::vector<std::vector<size_t>>(count)};
  for (const Span& span : spans) {
    const size_t before = result.sequence.questions.size();
    result.sequence.ask_next(static_cast<int64_t>(span.first), static_cast<int64_t>(span.end));
    for (size_t question = before; question < result.sequence.questions.size(); ++question)
      result.questions[span.pair].push_back(question);
  }
  return result;
}

Retrieval measure_retrieval(const Reader& reader, const Tokenizer& tokenizer,
                            const RetrievalOptions& options) {
  require(options.trials >= 1, "retrieval: {} trials; expected at least 1", options.trials);
  std::vector<int64_t> lengths = options.lengths;
  for (const int64_t length : lengths)
    require(length <= options.context, "retrieval: a length of {} tokens in a context of {}", length,
            options.context);
  if (lengths.empty())
    for (int64_t length = 128; length <= options.context; length *= 2)
      if (length >= shortest_passkey(tokenizer)) lengths.push_back(length);
  Retrieval result;
  for (const int64_t length : lengths)
    for (const double depth : options.depths) result.passkey.push_back({.length = length, .depth = depth});
  const std::vector<std::vector<RecallCase>> groups = recall_groups(tokenizer, options);
  const auto total = static_cast<int64_t>(result.passkey.size() + groups.size());
  require(total > 0, "retrieval: nothing fits a context of {} tokens", options.context);
  int64_t done = 0;
  const auto on_case = [&] {
    if (options.on_progress) options.on_progress(++done, total);
  };
  measure_passkey(reader, tokenizer, options, on_case, result.passkey);
  measure_recall(reader, groups, on_case, result.recall);
  return result;
}

}  // namespace saccade
