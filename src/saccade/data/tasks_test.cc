// Facts about the tasks: little solvers that read the text, and nothing else, find every answer; and whoever
// does not look back does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "saccade/base/testing.h"
#include "saccade/data/generated.h"
#include "saccade/data/translation.h"
#include "saccade/text/bpe_trainer.h"

namespace saccade {
namespace {

Tokenizer bytes() { return BpeTrainer({.vocabulary_size = 257}).train(); }

std::vector<Segment> document(const std::string& task, const DocumentSize& size, uint64_t seed) {
  return make_generator(task)->write(size, RandomStream(seed, task));
}

// For every answer of a document: the text before it, and the answer.
std::vector<std::pair<std::string, std::string>> questions(const std::vector<Segment>& segments) {
  std::vector<std::pair<std::string, std::string>> result;
  std::string before;
  for (const Segment& segment : segments) {
    if (segment.answer) result.emplace_back(before, segment.text);
    before += segment.text;
  }
  return result;
}

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Turns the question into the beginning of a statement and reads on where the story has it.
std::string answer_about_story(const std::string& before) {
  const size_t line = before.rfind('\n');
  const std::string story = before.substr(0, before.find('\n')), question = before.substr(line + 1);
  static const std::vector<std::pair<std::regex, std::string>> forms = {
      {std::regex(R"(Where did (\w+) leave the (\w+)\?.*)"), "$1 left the $2 in the"},
      {std::regex(R"(What do they call (\w+)\?.*)"), "They call $1"},
      {std::regex(R"(Who got the (\w+) from (\w+)\?.*)"), "$2 gave the $1 to"},
      {std::regex(R"(How did (\w+) paint the (\w+)\?.*)"), "$1 painted the $2"}};
  for (const auto& [form, statement] : forms) {
    if (!std::regex_match(question, form)) continue;
    const std::string clause = std::regex_replace(question, form, statement);
    EXPECT_TRUE(question.ends_with(clause)) << question;
    EXPECT_EQ(count_of(story, clause), 1u) << clause << " in " << story;
    const size_t begin = story.find(clause) + clause.size();
    return story.substr(begin, story.find('.', begin) - begin);
  }
  return "no form fits: " + question;
}

TEST(Stories, EveryAnswerIsInTheTextOnce) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const DocumentSize size{.items = static_cast<int64_t>(1 + seed % 40),
                            .filling = static_cast<int64_t>(seed % 40)};
    const auto asked = questions(document("stories", size, seed));
    EXPECT_EQ(static_cast<int64_t>(asked.size()), size.items);
    for (const auto& [before, answer] : asked)
      EXPECT_EQ(answer_about_story(before), answer) << "seed " << seed;
  }
}

TEST(Stories, TheAnswerIsNotToBeGuessed) {
  std::map<std::string, std::map<std::string, int>> answers;  // by the kind of question
  int asked = 0, same_as_last = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::map<std::string, std::string> last;
    for (const auto& [before, answer] : questions(document("stories", {.items = 6, .filling = 8}, seed))) {
      const std::string question = before.substr(before.rfind('\n') + 1);
      const std::string kind = question.substr(0, 7);
      ++answers[kind][answer];
      ++asked;
      same_as_last += last[kind] == answer ? 1 : 0;
      last[kind] = answer;
    }
  }
  EXPECT_EQ(answers.size(), 4u);
  for (const auto& [kind, counts] : answers) {
    int all = 0, most = 0;
    for (const auto& [answer, count] : counts) {
      all += count;
      most = std::max(most, count);
    }
    EXPECT_LT(most, all / 7) << kind;  // an eighth of them, and chance
  }
  EXPECT_LT(same_as_last, asked / 12);
}

TEST(Stories, FactsLieFarBack) {
  for (uint64_t seed = 0; seed < 50; ++seed)
    for (const auto& [before, answer] : questions(document("stories", {.items = 8, .filling = 60}, seed))) {
      const std::string clause = before.substr(before.rfind('?') + 2) + answer;
      EXPECT_GT(before.size() - before.find(clause), 500u);
    }
}

TEST(Recall, EveryAnswerStandsBehindItsWord) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto asked = questions(document("recall", {.items = static_cast<int64_t>(1 + seed % 64)}, seed));
    EXPECT_EQ(asked.size(), 1 + seed % 64);
    for (const auto& [before, answer] : asked) {
      const std::string key = before.substr(before.rfind('\n'));
      const size_t place = before.find(key) + key.size();
      EXPECT_EQ(before.substr(place, before.find('\n', place) - place), answer);
    }
  }
}

TEST(Induction, WhatFollowedOnceFollowsAgain) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto items = static_cast<int64_t>(1 + seed * seed % 700);
    const auto segments = document("induction", {.items = items}, seed);
    ASSERT_EQ(segments.size(), 2u);
    std::string before = " " + segments[0].text;
    for (size_t at = 0; at < segments[1].text.size(); at += 3) {
      // The longest end of the text that was there before; in syllables of three letters.
      size_t best = 0, place = 0;
      for (size_t end = 3; end < before.size(); end += 3) {
        size_t length = 0;
        while (length < end && before[end - 1 - length] == before[before.size() - 1 - length]) ++length;
        if (length > best) {
          best = length;
          place = end;
        }
      }
      EXPECT_EQ(before.substr(place, 3), segments[1].text.substr(at, 3)) << "seed " << seed;
      before += segments[1].text.substr(at, 3);
    }
    EXPECT_GE(segments[1].text.size(), 3u);
  }
}

TEST(Passkey, TheNumberIsInTheText) {
  std::set<std::string> keys;
  for (uint64_t seed = 0; seed < 100; ++seed)
    for (const auto& [before, answer] :
         questions(document("passkey", {.filling = static_cast<int64_t>(seed)}, seed))) {
      EXPECT_EQ(before.substr(before.find("The pass key is") + 15, 6), answer);
      keys.insert(answer);
    }
  EXPECT_GT(keys.size(), 95u);
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

TEST(Translation, IsWordForWordWithTheVerbAtTheEnd) {
  std::map<std::string, std::set<std::string>>
      meanings;  // target words that were there whenever the word was
  std::map<std::string, std::string> last;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const TranslationPair pair = write_translation(1, RandomStream(seed, "pair"));
    const std::vector<std::string> source = words(pair.source), target = words(pair.target);
    ASSERT_EQ(source.size(), target.size()) << pair.source << " => " << pair.target;
    const std::set<std::string> here(target.begin(), target.end());
    for (const std::string& word : source) {
      if (!meanings.contains(word)) meanings[word] = here;
      std::erase_if(meanings[word], [&](const std::string& each) { return !here.contains(each); });
    }
    last[target.back()] += " " + pair.source + " ";
  }
  using testing::ElementsAre;
  EXPECT_THAT(meanings["baker"], ElementsAre("torimu"));
  EXPECT_THAT(meanings["bakers"], ElementsAre("torimun"));
  EXPECT_THAT(meanings["children"], ElementsAre("pelun"));
  EXPECT_THAT(meanings["sees"], ElementsAre("vida"));
  EXPECT_THAT(meanings["see"], ElementsAre("vidan"));
  EXPECT_THAT(meanings["near"], ElementsAre("apu"));
  EXPECT_THAT(meanings["red"], testing::IsEmpty());  // its ending agrees with its noun
  EXPECT_EQ(last.size(), 20u);
  EXPECT_NE(last["vidan"].find(" see "), std::string::npos);
  EXPECT_EQ(last["vidan"].find(" sees "), std::string::npos);
}

TEST(Translation, AdjectivesAgreeAndStandBehind) {
  int seen = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const TranslationPair pair = write_translation(3, RandomStream(seed, "pair"));
    const std::string target = pair.target + " ";
    seen += pair.source.find("the red boats") != std::string::npos ? 1 : 0;
    if (pair.source.find("the red boats") != std::string::npos) {
      EXPECT_NE(target.find("kan selon ruvon "), std::string::npos) << target;
    }
    if (pair.source.find("one red dog") != std::string::npos) {
      EXPECT_NE(target.find("et vaki ruve "), std::string::npos) << target;
    }
  }
  EXPECT_GT(seen, 3);
}

class Tasks : public testing::TestWithParam<std::string> {};

TEST_P(Tasks, SegmentsAreTokenisedAsTheWholeWouldBe) {
  BpeTrainer trainer({.vocabulary_size = 400});
  for (const std::string& text : generated_texts({.task = GetParam()}, 50)) trainer.add(text);
  const Tokenizer tokenizer = trainer.train();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<Segment> segments = document(GetParam(), {.items = 1, .filling = 3}, seed);
    std::vector<int32_t> ids;
    for (const Segment& segment : segments)
      for (const int32_t id : tokenizer.encode(segment.text)) ids.push_back(id);
    EXPECT_EQ(ids, tokenizer.encode(text_of(segments)));
  }
}

TEST_P(Tasks, RowsAreAFunctionOfTheirNumber) {
  const GeneratedOptions options{.task = GetParam(), .length = 700};
  const DocumentEncoder encoder(bytes());
  const auto data = generated_dataset(options, encoder), again = generated_dataset(options, encoder);
  EXPECT_EQ(data->size(), Dataset::kEndless);
  std::set<std::vector<int32_t>> rows;
  for (const int64_t index : {int64_t{1'000'000'000'000'000}, int64_t{0}, int64_t{7}}) {
    const TrainingSequence row = data->read(index);
    EXPECT_EQ(row.ids, again->read(index).ids);
    EXPECT_EQ(row.ids.size(), 701u);
    EXPECT_EQ(row.documents.size(), 701u);
    EXPECT_EQ(row.answers.size(), 701u);
    EXPECT_EQ(row.documents.front(), 0);
    for (size_t place = 0; place < row.ids.size(); ++place)
      EXPECT_EQ(row.ids[place] == 0, place == 0 || row.documents[place] == row.documents[place - 1] + 1);
    EXPECT_THAT(row.answers, testing::Contains(1));
    rows.insert(row.ids);
  }
  GeneratedOptions other = options;
  other.stream = "validation";
  rows.insert(generated_dataset(other, encoder)->read(0).ids);
  other = options;
  other.seed = 2;
  rows.insert(generated_dataset(other, encoder)->read(0).ids);
  EXPECT_EQ(rows.size(), 5u);
  EXPECT_THAT(message_of([&] { data->read(-1); }), testing::HasSubstr("-1"));
}

TEST_P(Tasks, AnswersAreMarked) {
  const Tokenizer tokenizer = bytes();
  const auto data = generated_dataset({.task = GetParam(), .length = 600}, DocumentEncoder(tokenizer));
  const TrainingSequence row = data->read(3);
  const std::vector<Segment> segments = [&] {
    // The first document again, from its text: what is marked must be what a generator marked.
    size_t end = 1;
    while (end < row.ids.size() && row.documents[end] == 0) ++end;
    std::vector<Segment> result;
    for (size_t place = 1; place < end; ++place) {
      const bool answer = row.answers[place] == 1;
      if (result.empty() || result.back().answer != answer) result.push_back({.answer = answer});
      result.back().text += tokenizer.decode(std::span(&row.ids[place], 1));
    }
    return result;
  }();
  ASSERT_GE(segments.size(), 2u);
  EXPECT_FALSE(segments[0].answer);
  for (const Segment& segment : segments)
    if (segment.answer) {
      EXPECT_TRUE(segment.text.starts_with(' ')) << segment.text;
      if (GetParam() == "stories" || GetParam() == "recall") {
        EXPECT_LT(segment.text.size(), 20u);
      }
    }
}

TEST_P(Tasks, TheFirstDocumentOfARowIsWhole) {
  const Tokenizer tokenizer = bytes();
  for (const int64_t length : {420, 500}) {
    const auto data = generated_dataset({.task = GetParam(), .length = length}, DocumentEncoder(tokenizer));
    for (int64_t index = 0; index < 150; ++index) {
      const TrainingSequence row = data->read(index);
      const auto end = static_cast<size_t>(std::ranges::count(row.documents, 0));
      if (end < row.ids.size()) continue;  // another one begins behind it
      const std::string text = tokenizer.decode(row.ids);
      if (GetParam() == "passkey") {
        EXPECT_EQ(std::ranges::count(row.answers, 1), 6) << text;  // a space and five digits
      }
      if (GetParam() == "stories") {
        EXPECT_EQ(text.back(), '.') << text;
      }
    }
  }
}

TEST_P(Tasks, TooShortARowIsRefused) {
  EXPECT_THAT(
      message_of([&] { generated_dataset({.task = GetParam(), .length = 3}, DocumentEncoder(bytes())); }),
      testing::HasSubstr("too short"));
  EXPECT_THAT(message_of([&] {
                generated_dataset({.task = GetParam(), .length = 300, .items = int64_t{1} << 40},
                                  DocumentEncoder(bytes()));
              }),
              testing::HasSubstr("items"));
}

TEST_P(Tasks, ADocumentFillsMostOfItsRow) {
  if (GetParam() == "translation") return;  // its sentences are short by nature
  for (const int64_t length : {400, 1000}) {
    const auto data = generated_dataset({.task = GetParam(), .length = length}, DocumentEncoder(bytes()));
    int64_t first = 0;
    for (int64_t index = 0; index < 8; ++index) {
      const TrainingSequence row = data->read(index);
      first += std::ranges::count(row.documents, 0);
    }
    EXPECT_GT(first, 8 * length * 2 / 3);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Tasks, testing::ValuesIn(generator_names()),
                         [](const auto& information) { return information.param; });

TEST(TaskNames, AnUnknownOneIsCorrected) {
  EXPECT_THAT(message_of([] { make_generator("storys"); }), testing::HasSubstr("did you mean 'stories'"));
}

}  // namespace
}  // namespace saccade
