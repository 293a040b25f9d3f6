// Where a word's tokens lie is found by encoding the text up to the word and up to its end: what both have in
// common comes before it. That holds for every tokenizer, wherever it puts its spaces.
#include "saccade/evaluate/retrieval.h"

#include <algorithm>
#include <array>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/data/passkey.h"
#include "saccade/data/recall.h"

namespace saccade {
namespace {

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

// What a text without any filling takes.
int64_t shortest_passkey(const Tokenizer& tokenizer) {
  return static_cast<int64_t>(
      encode(tokenizer, passkey_prompt({.key = "48213", .start = 0}, 0, 0) + " 48213").size());
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
  const Passkey passkey = draw_passkey(random);
  const int64_t least = shortest_passkey(tokenizer);
  require(length >= least, "retrieval: a length of {} tokens; the question alone takes {}", length, least);
  const double per_sentence = static_cast<double>(encode(tokenizer, passkey_filling()).size()) /
                              static_cast<double>(passkey_filling_count());
  auto sentences = static_cast<int64_t>(static_cast<double>(length - least) / per_sentence) + 2;
  // Sentences differ in length, and what takes fewest tokens is only known by trying.
  for (;; --sentences) {
    const std::string prompt = passkey_prompt(passkey, sentences, depth);
    Sequence sequence{.ids = encode(tokenizer, prompt + " " + passkey.key)};
    if (static_cast<int64_t>(sequence.ids.size()) > length && sentences > 0) continue;
    const size_t first = common_length(encode(tokenizer, prompt), sequence.ids);
    require_known(tokenizer, std::span(sequence.ids).subspan(first), passkey.key);
    sequence.ask_next(static_cast<int64_t>(first), static_cast<int64_t>(sequence.ids.size()));
    return sequence;
  }
}

RecallCase recall_case(const Tokenizer& tokenizer, int64_t pairs, RandomStream random) {
  const RecallText made = write_recall(pairs, random);
  struct AnswerSpan {
    size_t pair, first, end;
  };
  std::vector<AnswerSpan> spans;
  std::string text;
  for (const Segment& segment : made.segments) {
    const std::string before = text;
    text += segment.text;
    if (!segment.answer) continue;
    const std::vector<int32_t> asked = encode(tokenizer, before), answered = encode(tokenizer, text);
    spans.push_back({made.pairs[spans.size()], common_length(asked, answered), answered.size()});
    require_known(tokenizer, std::span(answered).subspan(spans.back().first), trim(segment.text));
  }
  RecallCase result{.sequence = {.ids = encode(tokenizer, text)},
                    .questions = std::vector<std::vector<size_t>>(made.pairs.size())};
  for (const AnswerSpan& span : spans) {
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
